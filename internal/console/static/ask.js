// The calls of the contract, relative to the page, so that they work below any
// prefix.

export const address = (path) => new URL(path, document.baseURI).href;

// Refused is an answer that is not the one asked for, in the contract's words.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.errors = problem.errors || [];
  }

  // whole is the message and what is wrong with each field.
  get whole() { return [this.message, ...this.errors.map((each) => `${each.field.slice(1)} ${each.detail}.`)].join(" "); }
}

// ask makes a call and returns what it answers. patience is in ms.
export async function ask(method, path, body, patience = 10000) {
  const answer = await begin(method, path, body, patience);
  return answer.json().catch(() => ({}));
}

// knock makes a call for its status alone: of a stream, the rest never ends.
export async function knock(path) {
  const answer = await begin("GET", path, undefined, 10000);
  await answer.body.cancel();
}

// begin is an answer as far as its status, which is a good one.
async function begin(method, path, body, patience) {
  let answer;
  try {
    answer = await fetch(address(path), {
      method, cache: "no-store", signal: AbortSignal.timeout(patience),
      ...(body !== undefined && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    });
  } catch {
    throw new Refused(0, { detail: "decider did not answer." });
  }
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

export const dependencyPath = (name) => `v1/dependencies/${encodeURIComponent(name)}`;

let asked;

// keyed says whether the server wants to know who asks: whether it answers a
// request that bears nothing of what the browser knows. It is asked once.
export const keyed = () => asked ??= fetch(address("v1/status"), { method: "HEAD", cache: "no-store", credentials: "omit", redirect: "manual" })
  .then((answer) => answer.status === 401, () => false);

// curl is the same request for a terminal. The key is not the page's to know: the
// shell puts it in.
export function curl(method, path, body, withKey) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const lines = [`curl -s${method === "POST" ? "" : ` -X ${method}`} ${quoted(address(path))}`];
  if (withKey) lines.push(`  -H "Authorization: Bearer $DECIDER_KEY"`);
  if (body !== undefined) lines.push(`  -H 'Content-Type: application/json'`, `  -d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n");
}
