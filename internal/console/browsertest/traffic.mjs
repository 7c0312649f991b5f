// A fleet in small: callers that call dependencies, ask decider after every
// failure, wait as they are told, and report what succeeded. What fails is said
// by whoever drives it.
//
//     node traffic.mjs http://127.0.0.1:8080      a shop in which payments fails every other minute

export const shop = () => [
  { name: "payments", callers: ["checkout", "subscriptions"], rate: 80, method: "POST", key: true, failing: 0.004, failure: { status: 503 } },
  { name: "inventory", callers: ["checkout", "storefront", "warehouse"], rate: 120, method: "GET", failing: 0.01, failure: { outcome: "timeout" } },
  { name: "recommendations", callers: ["storefront"], rate: 60, method: "GET", failing: 0.06, failure: { outcome: "connection_reset" }, deadline: 300 },
  { name: "mail", callers: ["checkout"], rate: 15, method: "POST", failing: 0.02, failure: { status: 429, retry_after: "1" } },
  { name: "ledger", callers: ["checkout"], rate: 20, method: "POST", failing: 0.005, failure: { status: 500 } },
  { name: "search-products", callers: ["storefront"], rate: 70, method: "GET", failing: 0.01, failure: { grpc_status: "UNAVAILABLE" }, grpc: true },
  { name: "search-suggest", callers: ["storefront"], rate: 40, method: "GET", failing: 0.005, failure: { status: 404 } },
];

const tick = 100; // ms

export class Traffic {
  constructor(base, dependencies = shop()) {
    this.base = base;
    this.dependencies = dependencies;
    this.waiting = []; // {at, dependency, attempt, caller}
    this.reports = new Map();
    this.calls = new Map();
    this.owed = new Map();
  }

  start() {
    this.timer = setInterval(() => this.step().catch(() => {}), tick);
    this.reporter = setInterval(() => this.report().catch(() => {}), 1000);
    return this;
  }

  stop() {
    clearInterval(this.timer);
    clearInterval(this.reporter);
  }

  dependency(name) { return this.dependencies.find((each) => each.name === name); }

  // step makes the calls of a tick, retries that are due among them, and asks
  // about those that failed.
  async step() {
    const now = Date.now(), failed = [];
    const due = this.waiting.filter((each) => each.at <= now);
    this.waiting = this.waiting.filter((each) => each.at > now);
    for (const each of due) this.call(each, failed);
    for (const dependency of this.dependencies) {
      let owed = (this.owed.get(dependency) || 0) + dependency.rate * tick / 1000;
      for (; owed >= 1; owed--) this.call({ dependency, attempt: 1, caller: pick(dependency.callers) }, failed);
      this.owed.set(dependency, owed);
    }
    if (failed.length === 0) return;
    const { answers } = await this.post("v1/decide/batch", { attempts: failed.slice(0, 1000).map((each) => attemptOf(each)) });
    answers.forEach((answer, i) => {
      if (answer.decision === "retry") this.waiting.push({ ...failed[i], at: Date.now() + answer.delay_ms, attempt: answer.next_attempt });
    });
  }

  call(one, failed) {
    const { name, failing } = one.dependency;
    this.calls.set(name, (this.calls.get(name) || 0) + 1);
    if (Math.random() < failing) {
      failed.push(one);
      return;
    }
    const told = this.reports.get(name) || { dependency: name, first_try_successes: 0, retry_successes: 0 };
    told[one.attempt === 1 ? "first_try_successes" : "retry_successes"]++;
    this.reports.set(name, told);
  }

  async report() {
    const outcomes = [...this.reports.values()];
    this.reports.clear();
    if (outcomes.length) await this.post("v1/outcomes", { caller: "shop", outcomes });
  }

  async post(path, body) {
    const answer = await fetch(new URL(path, this.base), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }
}

const pick = (list) => list[Math.floor(Math.random() * list.length)];

const attemptOf = ({ dependency, attempt, caller }) => ({
  dependency: dependency.name, method: dependency.grpc ? "POST" : dependency.method, ...dependency.failure, attempt, caller,
  ...(dependency.grpc && { idempotent: true }), ...(dependency.key && { has_idempotency_key: true }), ...(dependency.deadline && { remaining_ms: dependency.deadline }),
});

if (process.argv[1] && import.meta.url.endsWith(process.argv[1].split("/").at(-1))) {
  const traffic = new Traffic(process.argv[2] || "http://127.0.0.1:8080/").start();
  const payments = traffic.dependency("payments");
  setInterval(() => {
    payments.failing = payments.failing === 1 ? 0.004 : 1;
    console.log(`payments ${payments.failing === 1 ? "fails" : "works again"}`);
  }, 60000);
}
