// The console in a real browser, view by view.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { accessible, becomes, browse, get, live, patience, pause, picture, policies, post, proxy, redis, start, stopAll, until, view, watch } from "./support.mjs";
import { Traffic } from "./traffic.mjs";

let browser, decider;
before(async () => { [browser, decider] = await Promise.all([browse(), start()]); });
after(async () => { await browser.close(); await stopAll(); });

const failed = (more) => ({ dependency: "payments", method: "GET", status: 503, caller: "checkout", ...more });
const key = () => `dcd_${randomBytes(32).toString("base64url")}`;
const row = (page, name) => page.locator("table.dependencies tbody tr", { has: page.getByRole("link", { name, exact: true }) });

test("the page loads and is live", async () => {
  const page = await watch(browser, decider.url);
  await live(page);
  assert.equal(await page.title(), "Fleet · decider");
  await row(page, "payments").waitFor();
  assert.equal(await row(page, "payments").locator("meter").getAttribute("value"), "20");
  assert.match(await page.locator(".all-well").innerText(), /Nothing needs attention/);
  await picture(page, "fleet-idle");
  await page.done();
});

test("a decision is shown within two seconds", async () => {
  const page = await watch(browser, `${decider.url}#/decisions?dependency=inventory`);
  await live(page);
  let best = Infinity; // of three: a machine that stands still disturbs one
  for (let i = 1; i <= 3; i++) {
    await post(decider.url, "v1/decide", failed({ dependency: "inventory", caller: `probe-${i}` }));
    best = Math.min(best, await until("the decision is shown", () => page.getByRole("cell", { name: `probe-${i}` }).isVisible()));
  }
  assert.ok(best < 2000, `${best} ms`);
  await view(page, "/");
  await post(decider.url, "v1/decide", failed({ dependency: "brand-new", status: 404 }));
  await until("the new dependency is in the table", () => row(page, "brand-new").isVisible());
  await page.done();
});

test("what is filtered is in the address", async () => {
  await post(decider.url, "v1/decide/batch", { attempts: [failed({ caller: "a" }), failed({ caller: "b", status: 404 }), failed({ dependency: "mail", caller: "b", status: 404 })] });
  const page = await watch(browser, `${decider.url}#/decisions?decision=give_up&caller=b`);
  await live(page);
  const callers = () => page.locator("table.decisions tbody tr").allInnerTexts();
  await until("two rows", async () => (await callers()).length === 2);
  await page.getByLabel("dependency, whole name").fill("mail");
  await page.keyboard.press("Tab");
  await until("one row", async () => (await callers()).length === 1);
  await becomes(() => page.url(), /#\/decisions\?decision=give_up&caller=b&dependency=mail$/);
  await page.getByLabel("reason").selectOption("deadline");
  await until("no row", async () => (await callers()).length === 0);
  await page.getByRole("button", { name: "clear" }).click();
  await until("all rows", async () => (await callers()).length >= 3);
  await page.getByRole("button", { name: /hold still/ }).click();
  const held = (await callers()).length;
  await post(decider.url, "v1/decide", failed({ caller: "later" }));
  await page.getByRole("button", { name: /go on \(1 new\)/ }).waitFor({ timeout: patience });
  assert.equal((await callers()).length, held);
  await page.getByRole("button", { name: /go on/ }).click();
  await page.getByRole("cell", { name: "later" }).waitFor();
  await page.done();
});

test("a filter can be typed while decisions come in, and a heading keeps the focus", async () => {
  const own = await start(), traffic = new Traffic(own.url).start();
  const page = await watch(browser, `${own.url}#/decisions`);
  try {
    await live(page);
    const rows = page.locator("table.decisions tbody tr"), newest = () => rows.first().innerText();
    await rows.first().waitFor({ timeout: patience });
    const before = await newest();
    const dependency = page.getByLabel("dependency, whole name"), caller = page.getByLabel("caller, any part");
    await dependency.pressSequentially("recommendations", { delay: 300 });
    assert.equal(await dependency.inputValue(), "recommendations");
    assert.notEqual(await newest(), before, "nothing was drawn meanwhile");
    assert.match(page.url(), /#\/decisions$/, "it was taken before it was whole");
    await page.keyboard.press("Enter");
    await until("it is in the address", () => page.url().endsWith("?dependency=recommendations"));
    await caller.pressSequentially("front", { delay: 300 });
    await page.keyboard.press("Tab");
    await until("a part of the caller will do", async () => page.url().endsWith("&caller=front") && (await rows.allInnerTexts()).some((each) => /storefront/.test(each)));
    await page.getByRole("button", { name: "clear" }).click();
    await becomes(async () => await dependency.inputValue() + await caller.inputValue(), "");

    await view(page, "/");
    const heading = page.locator("table.dependencies thead button").first();
    await heading.focus();
    const drawn = () => page.locator("table.dependencies").innerText();
    for (let i = 0; i < 2; i++) {
      const shown = await drawn();
      await until("the table moves", async () => await drawn() !== shown);
    }
    await becomes(async () => await heading.evaluate((each) => each === document.activeElement), true, "the heading has lost the focus");
    await page.keyboard.press("Enter");
    await until("it sorts by the name", () => page.url().endsWith("?sort=name"));
    await becomes(async () => await heading.evaluate((each) => each === document.activeElement), true, "the heading has lost the focus");
  } finally {
    traffic.stop();
  }
  await page.done();
  await own.stop();
});

test("a filter that cannot be is said, and not sent", async () => {
  await post(decider.url, "v1/decide", failed());
  const page = await watch(browser, `${decider.url}#/decisions?decision=foo`);
  await live(page);
  await page.getByText("“foo” is no decision: it is retry or give_up.").waitFor({ timeout: patience });
  await becomes(async () => await page.locator("table.decisions tbody tr").count(), 0);
  await becomes(async () => await page.locator("select[name=decision]").inputValue(), "foo");
  await page.getByRole("button", { name: "clear" }).click();
  await page.locator("table.decisions tbody tr").first().waitFor({ timeout: patience });
  await becomes(async () => await page.locator("select[name=decision]").evaluate((choice) => choice.selectedOptions[0].text), "every");
  const dependency = page.getByLabel("dependency, whole name");
  await dependency.fill("pay ments");
  await page.keyboard.press("Enter");
  await page.getByText("“pay ments” can be no dependency").waitFor({ timeout: patience });
  await becomes(async () => await dependency.getAttribute("aria-invalid"), "true");
  await becomes(async () => await page.locator(".connection").getAttribute("data-state"), "live");
  await picture(page, "filter-impossible");
  await view(page, "/dependency/pay%20ments");
  await page.getByText(/must be 1 to 128 characters/).waitFor({ timeout: patience });
  assert.deepEqual(page.problems.filter((each) => !/status of 422.*v1\/dependencies\/pay%20ments/.test(each)), []);
  await page.context().close();
});

test("a stream that is refused is no lost connection", async () => {
  const own = await start(), others = new AbortController();
  const streams = await Promise.all(Array.from({ length: 100 }, () => fetch(new URL("v1/decisions/stream", own.url), { signal: others.signal })));
  const page = await watch(browser, own.url, { expected: /status of (503|422)/ });
  await page.getByText("decider gives no stream: This replica has 100 streams and takes no more. Reconnecting by itself").waitFor({ timeout: patience });
  assert.ok(streams.every((each) => each.ok)); // they are held until here: one that nobody has any more is closed
  others.abort();
  await live(page);
  await becomes(async () => await page.locator(".stale").count(), 0);

  // A server that knows fewer filters than this page.
  let sent = 0;
  await page.route(/stream\?.*dependency=mail/, (route) => {
    sent++;
    return route.fulfill({ status: 422, contentType: "application/problem+json", body: JSON.stringify({ detail: "Wrong: /dependency.", errors: [{ field: "/dependency", detail: "must be another" }] }) });
  });
  await view(page, "/decisions?dependency=mail");
  await page.getByText("decider gives no stream: Wrong: /dependency. dependency must be another.").waitFor({ timeout: patience });
  await becomes(async () => await page.locator(".connection").getAttribute("data-state"), "refused");
  const before = sent;
  await picture(page, "filter-refused");
  await pause(2500);
  assert.equal(sent, before, "it was sent again by itself");
  await page.getByRole("button", { name: "clear" }).click();
  await live(page);
  await page.done();
  await own.stop();
});

test("an attempt is explained, and the question can be taken along", async () => {
  const page = await watch(browser, `${decider.url}#/explain`, { permissions: ["clipboard-read", "clipboard-write"], expected: /status of 422/ });
  await page.getByLabel("dependency", { exact: true }).fill("payments");
  await page.getByLabel("method").fill("POST");
  await page.getByLabel("HTTP status").last().fill("503");
  await page.getByLabel("Retry-After").fill("2");
  await page.getByLabel("deadline left, ms").fill("8000");
  await page.getByLabel("idempotency key").selectOption("true");
  await page.getByLabel("caller").fill("it's me");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("must be 1 to 128 characters").first().waitFor(); // a name has no blanks
  await becomes(async () => await page.getByLabel("caller").getAttribute("aria-invalid"), "true");
  await picture(page, "explain-refused");
  await page.getByLabel("caller").fill("checkout");
  await page.keyboard.press("Enter");
  await page.locator(".answer").waitFor();
  const steps = await page.locator(".trace tbody tr td:first-child").allInnerTexts();
  assert.deepEqual(steps, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
  await becomes(async () => await page.locator(".answer h2").innerText(), /retry[\s\S]*in 2(\.\d+)?s[\s\S]*retry after/);
  await picture(page, "explain");

  await page.getByRole("button", { name: "copy as curl" }).click();
  await page.getByText("copied").waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.doesNotMatch(command, /Authorization/);
  const told = JSON.parse(execFileSync("sh", ["-c", command]).toString());
  assert.equal(told.reason, "retry_after");
  assert.equal(told.trace.length, 9);

  const sent = await watch(browser, page.url()); // a colleague opens the address
  await sent.locator(".answer").waitFor();
  await becomes(async () => await sent.getByLabel("Retry-After").inputValue(), "2");
  await sent.done();
  const counts = (await get(decider.url, "v1/dependencies/payments")).counts;
  assert.equal(counts.retry_after, undefined, "explaining decided something");
  await page.done();
});

test("an outcome and a gRPC code can be explained", async () => {
  const page = await watch(browser, `${decider.url}#/explain?dependency=search-products&method=GET`);
  await page.getByLabel("no answer").check();
  await page.getByLabel("outcome").selectOption("dns_failure");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".answer.retry").waitFor();
  await page.getByLabel("a gRPC code").check();
  await page.getByLabel("gRPC code").last().selectOption("PERMISSION_DENIED");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".answer.give_up").waitFor();
  await becomes(async () => await page.locator(".answer h2").innerText(), /not retryable/);
  await becomes(() => page.url(), /grpc_status=PERMISSION_DENIED/);
  await page.getByText("more", { exact: true }).click();
  await page.getByLabel("headers of the answer").fill("Retry-After-MS: 1500\nX-Should-Retry: true");
  await page.getByLabel("a gRPC code").check();
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".answer").waitFor();
  await page.done();
});

test("an address that somebody goes to is explained", async () => {
  const page = await watch(browser, `${decider.url}#/explain?dependency=payments&method=GET&status=503`);
  await page.locator(".answer.retry:not(.stale)").waitFor({ timeout: patience });
  await view(page, "/explain?dependency=ledger&method=GET&status=404"); // pasted
  await page.locator(".answer.give_up:not(.stale)", { hasText: "not retryable" }).waitFor({ timeout: patience });
  await page.goBack();
  await page.locator(".answer.retry:not(.stale)").waitFor({ timeout: patience });
  await becomes(async () => await page.getByLabel("dependency", { exact: true }).inputValue(), "payments");
  await page.getByLabel("HTTP status").last().fill("404"); // typed, and not sent
  await page.getByText("The form has changed since.").waitFor({ timeout: patience });
  await view(page, "/explain?dependency=payments");
  await page.getByText("Describe a failed attempt").waitFor({ timeout: patience });
  await becomes(async () => await page.locator(".answer").count(), 0);

  await page.getByLabel("method").fill("PUT");
  await page.getByLabel("a gRPC code").check();
  await becomes(async () => await page.getByLabel("method").inputValue(), "POST");
  await page.getByLabel("no answer").check();
  await becomes(async () => await page.getByLabel("method").inputValue(), "PUT");
  await page.done();
});

test("an override is set and lifted", async () => {
  const page = await watch(browser, `${decider.url}#/dependency/inventory`);
  await live(page);
  const form = page.locator("form.override");
  await form.getByLabel("ends after").selectOption("300000");
  await form.getByRole("button", { name: /^Pause all/ }).click();
  assert.equal((await get(decider.url, "v1/dependencies/inventory")).override, undefined, "it went without a reason");
  await form.getByLabel("reason").fill("stock service fails over");
  await form.getByRole("button", { name: "Pause all retries to inventory for 5 minutes" }).click();
  await page.getByText("Retries are paused; the whole fleet knows within a second.").waitFor();
  await until("the override is shown", () => page.locator(".in-force .chip.bad").isVisible());
  assert.equal((await post(decider.url, "v1/decide", failed({ dependency: "inventory" }))).reason, "paused");
  await becomes(async () => await page.locator(".in-force").innerText(), /stock service fails over/);
  await picture(page, "override");
  await view(page, "/");
  await until("the fleet's page says so", async () => /inventory[\s\S]*every retry is refused/.test(await page.locator(".troubles").innerText()));
  await row(page, "inventory").locator(".chip.bad").waitFor({ timeout: patience });
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await accessible(page), [], colorScheme);
  }
  await page.goBack();
  await page.getByRole("button", { name: "Lift the override" }).click();
  await until("it is gone", async () => !await page.locator(".in-force").isVisible());
  assert.notEqual((await post(decider.url, "v1/decide", failed({ dependency: "inventory" }))).reason, "paused");
  await page.done();
});

test("what is on trial is shown, and what it would have done", async () => {
  const place = mkdtempSync(path.join(os.tmpdir(), "console-")), file = path.join(place, "policies.yaml");
  writeFileSync(file, `version: 1
dependencies:
  payments:
    budget: {capacity: 10, min_per_second: 0}
    candidate: {budget: {capacity: 4, min_per_second: 0}}
  search:
    mode: shadow
    budget: {capacity: 2, min_per_second: 0}
`);
  const own = await start({ file });
  const page = await watch(browser, `${own.url}#/dependency/payments`);
  await live(page);
  const candidate = page.getByRole("region", { name: /^Candidate on trial/ });
  await candidate.getByText("It has judged nothing yet.").waitFor();
  await post(own.url, "v1/outcomes", { outcomes: [{ dependency: "payments", first_try_successes: 200 }] });
  for (let i = 0; i < 10; i++) await post(own.url, "v1/decide", failed());
  await candidate.getByText(/10 attempts, 6 of them otherwise \(60%\)/).waitFor({ timeout: patience });
  assert.match(await candidate.innerText(), /4 instead of 10[\s\S]*6 fewer, 0 more[\s\S]*-2\.\d% of the calls/);
  assert.match(await candidate.getByRole("row").last().innerText(), /backoff\s+budget exhausted\s+6/);
  await picture(page, "candidate");
  assert.deepEqual(await accessible(page), []);

  await view(page, "/dependency/search");
  const shadow = page.getByRole("region", { name: /^In shadow/ });
  await shadow.getByText("An enforced rule would have refused nothing yet.").waitFor();
  for (let i = 0; i < 5; i++) await post(own.url, "v1/decide", failed({ dependency: "search" }));
  await until("three would have been refused", async () => /budget exhausted\s+3/.test(await shadow.innerText()));
  await picture(page, "shadow");
  await page.done();
  await own.stop();
  rmSync(place, { recursive: true });
});

test("who asks has to say who they are, and may do what their role says", async () => {
  const place = mkdtempSync(path.join(os.tmpdir(), "console-")), file = path.join(place, "auth.yaml");
  const keys = { reader: key(), operator: key(), blind: key() };
  const digest = (text) => `sha256:${createHash("sha256").update(text).digest("hex")}`;
  writeFileSync(file, `version: 1
identities:
  reader:
    keys: ["${digest(keys.reader)}"]
    roles: [read]
  operator:
    keys: ["${digest(keys.operator)}"]
    roles: [read, operate]
  blind:
    keys: ["${digest(keys.blind)}"]
    roles: [operate]
`, { mode: 0o600 });
  const own = await start({ args: ["--auth-file", file] });
  // The driver gives the browser's dialogue a key that is nobody's, and then cancels it.
  const nobody = await watch(browser, own.url, { expected: /status of 401/, httpCredentials: { username: "nobody", password: key() } });
  await nobody.getByText(/decider gives no stream: The/).waitFor({ timeout: patience });
  let asked = 0;
  nobody.on("response", (answer) => { if (answer.status() === 401) asked++; });
  await pause(2500);
  assert.equal(asked, 0, "it asks again by itself, and the browser's dialogue with it");
  await nobody.getByRole("button", { name: "sign in" }).click();
  await until("it is asked again", () => asked > 0);
  assert.deepEqual(await accessible(nobody), []);
  await picture(nobody, "unidentified");
  await nobody.done();
  const as = (name) => watch(browser, `${own.url}#/dependency/inventory`, { httpCredentials: { username: name, password: keys[name] }, permissions: ["clipboard-read", "clipboard-write"], expected: /status of 40[13]/ });
  const blind = await as("blind");
  await blind.getByText("decider gives no stream: The identity has not the role of this call, which is read. The console needs the role read, and operate for overrides.").waitFor({ timeout: patience });
  assert.equal(await blind.getByText("The browser asks for a name").count() + await blind.getByRole("button", { name: "sign in" }).count(), 0);
  assert.deepEqual(await accessible(blind), []);
  await picture(blind, "forbidden");
  await blind.done();
  const reader = await as("reader");
  await live(reader);
  await reader.getByText("Setting one needs the role operate.").waitFor();
  assert.equal(await reader.locator("form.override").count(), 0);
  await reader.done();
  const operator = await as("operator");
  await live(operator);
  await operator.getByLabel("reason").fill("a drill");
  await operator.getByRole("button", { name: /^Pause all/ }).click();
  await operator.getByText(/a drill, by operator at/).waitFor({ timeout: patience });
  await operator.getByLabel("reason").fill("from a terminal");
  let command = "";
  await until("the command has a place for the key", async () => {
    await operator.getByRole("button", { name: "copy as curl" }).click();
    command = await operator.evaluate(() => navigator.clipboard.readText());
    return command.includes('"Authorization: Bearer $DECIDER_KEY"');
  });
  const told = JSON.parse(execFileSync("sh", ["-c", command], { env: { ...process.env, DECIDER_KEY: keys.operator } }).toString());
  assert.equal(told.override?.reason, "from a terminal", JSON.stringify(told));
  await operator.done();
  await own.stop();
  rmSync(place, { recursive: true });
});

test("a lost connection is shown, and found again", async () => {
  const own = await start();
  const page = await watch(browser, own.url, { expected: /net::ERR_|Failed to load/ });
  await live(page);
  await post(own.url, "v1/decide", failed());
  await own.stop();
  assert.doesNotMatch(own.log(), /cut off/, "an open stream held the end of the process up");
  await page.locator('.connection[data-state="reconnecting"]').waitFor({ timeout: patience });
  await page.getByText(/Connection lost\. What you see is \d+ s old\./).waitFor();
  assert.match(await page.getByRole("status").first().innerText(), /reconnecting/);
  await pause(1500);
  await picture(page, "reconnecting");
  const again = await start({ listen: own.listen });
  await live(page);
  await becomes(async () => await page.locator(".stale").count(), 0);
  await until("the new process's counts", async () => /^0$/.test(await row(page, "payments").locator("td").nth(3).innerText()));
  await again.stop();
  await page.done();
});

test("it works below a path prefix", async () => {
  const front = await proxy(decider.url, "/tools/decider");
  const page = await watch(browser, front.url);
  await live(page);
  await row(page, "payments").getByRole("link").click();
  await page.locator("pre.yaml").waitFor();
  await view(page, "/explain?dependency=payments&method=GET&status=503");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.locator(".answer").waitFor();
  await post(decider.url, "v1/decide", failed({ caller: "below" }));
  await view(page, "/decisions");
  await page.getByRole("cell", { name: "below" }).waitFor({ timeout: patience });
  await page.getByRole("link", { name: "API" }).click();
  await page.locator("#contract .info .title").waitFor({ timeout: patience });
  await page.done();
  front.stop();
});

test("light and dark, for everybody, with the keyboard", async () => {
  await post(decider.url, "v1/decide/batch", { attempts: Array.from({ length: 60 }, (_, i) => failed({ dependency: i % 2 ? "payments" : "mail", status: i % 3 ? 503 : 404 })) });
  const grounds = {};
  for (const colorScheme of ["light", "dark"]) {
    const page = await watch(browser, decider.url, { colorScheme });
    await live(page);
    for (const [name, place] of [["fleet", "/"], ["dependency", "/dependency/payments"], ["decisions", "/decisions"], ["replicas", "/replicas"],
      ["explain", "/explain?dependency=payments&method=GET&status=503"], ["lost", "/nowhere"]]) {
      await view(page, place);
      await page.locator("h1").waitFor();
      if (name === "dependency") await page.locator("pre.yaml").waitFor();
      if (name === "explain") await page.getByRole("button", { name: "Explain" }).click().then(() => page.locator(".answer").waitFor());
      await pause(400);
      assert.deepEqual(await accessible(page), [], `${name}, ${colorScheme}`);
      if (name !== "explain") await picture(page, `${name}-${colorScheme}`);
    }
    grounds[colorScheme] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.getByRole("button", { name: /change the colours/ }).click();
    await page.getByRole("button", { name: /change the colours/ }).click(); // auto, light, dark
    await page.reload();
    await live(page);
    await becomes(async () => await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(15, 18, 22)", "the choice is kept");
    await page.done();
  }
  assert.notEqual(grounds.light, grounds.dark);

  const page = await watch(browser, decider.url);
  await live(page);
  await page.keyboard.press("Tab");
  await becomes(async () => await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  await becomes(async () => await page.evaluate(() => document.activeElement.id), "main");
  for (let i = 0; i < 40 && await page.evaluate(() => document.activeElement.textContent.trim()) !== "payments"; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "payments" }).waitFor();
  await until("a new view begins at its heading", async () => await page.evaluate(() => document.activeElement.tagName) === "H1");
  await page.done();
});

test("it fits a telephone", async () => {
  const page = await watch(browser, decider.url, { viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  await live(page);
  for (const [name, place] of [["fleet", "/"], ["dependency", "/dependency/payments"], ["decisions", "/decisions"], ["explain", "/explain"], ["replicas", "/replicas"]]) {
    await view(page, place);
    await pause(300);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${name} is ${over} pixels too wide`);
    if (["fleet", "dependency"].includes(name)) await picture(page, `${name}-telephone`);
  }
  await page.done();
});

test("a name of 120 letters fits", async () => {
  const place = mkdtempSync(path.join(os.tmpdir(), "console-")), file = path.join(place, "policies.yaml");
  writeFileSync(file, "version: 1\ndefaults: {budget: {capacity: 137.5}}\n");
  const own = await start({ file }), long = "x".repeat(120);
  const decide = (n) => post(own.url, "v1/decide/batch", { attempts: Array.from({ length: n }, (_, i) => failed({ dependency: long, status: i % 2 ? 503 : 404 })) });
  await decide(10);
  const order = await fetch(new URL(`v1/dependencies/${long}/override`, own.url), { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ mode: "pause", expires_in_ms: 3600000, reason: long }) });
  assert.equal(order.status, 200);
  const page = await watch(browser, own.url);
  await live(page);
  const link = page.locator("table.dependencies").getByRole("link", { name: long });
  await link.waitFor({ timeout: patience });
  await decide(200);
  await page.locator("table.dependencies .reasons .pair").nth(1).waitFor({ timeout: patience });
  for (const width of [390, 820, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    for (const [name, address, shown] of [["fleet", "/", link], ["dependency", `/dependency/${long}`, page.locator("pre.yaml")], ["decisions", "/decisions", page.locator("td.why").first()],
      ["explain", `/explain?dependency=${long}&method=GET&status=503`, page.locator(".answer")], ["replicas", "/replicas", page.locator("tbody")]]) {
      await view(page, address);
      await shown.waitFor({ timeout: patience });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${name} at ${width} is ${over} pixels too wide`);
      await picture(page, `long-${name}-${width}`);
    }
  }
  await view(page, "/");
  const spark = await page.locator(".sparkline").boundingBox({ timeout: patience });
  assert.ok(spark.x + spark.width < 1280, `the two minutes end at ${spark.x + spark.width} of 1280 pixels`);
  await page.done();
  await own.stop();
  rmSync(place, { recursive: true });
});

test("a thousand dependencies", async () => {
  const own = await start();
  for (let n = 0; n < 1000; n += 250) {
    await post(own.url, "v1/decide/batch", { attempts: Array.from({ length: 250 }, (_, i) => failed({ dependency: `service-${String(n + i).padStart(4, "0")}` })) });
  }
  const page = await watch(browser, own.url);
  await live(page);
  await page.getByRole("button", { name: /^show all/ }).waitFor();
  await becomes(async () => await page.locator("table.dependencies tbody tr").count(), 100);
  await page.getByPlaceholder("filter by name").fill("service-0777");
  await until("one row", async () => await page.locator("table.dependencies tbody tr").count() === 1);
  await becomes(() => page.url(), /q=service-0777/);
  await page.getByPlaceholder("filter by name").fill("");
  await page.getByRole("button", { name: "retry/s" }).click();
  await becomes(async () => await page.getByRole("columnheader", { name: "retry/s" }).getAttribute("aria-sort"), "descending");
  const busy = await page.evaluate(() => new Promise((resolve) => {
    let longest = 0;
    new PerformanceObserver((list) => { for (const each of list.getEntries()) longest = Math.max(longest, each.duration); }).observe({ entryTypes: ["longtask"] });
    setTimeout(() => resolve(longest));
  }));
  assert.ok(busy < 1000, `the page stood still for ${busy} ms`);
  await page.done();
  await own.stop();
});

test("two replicas, other policies, and a store that goes away", async () => {
  const place = mkdtempSync(path.join(os.tmpdir(), "console-"));
  const store = await redis(place);
  const file = path.join(place, "policies.yaml");
  copyFileSync(policies, file);
  const args = ["--redis-url", store.url, "--store-timeout=2s"];
  const [one, two] = await Promise.all([start({ args }), start({ args, file })]);
  const page = await watch(browser, `${one.url}#/replicas`);
  try {
    await live(page);
    await until("both are known", async () => await page.locator("section[aria-labelledby=who] tbody tr").count() === 2);
    assert.equal(await page.getByText("differs from this one").count(), 0);
    writeFileSync(file, "version: 1\n");
    await page.getByText("differs from this one").waitFor({ timeout: patience });
    await pause(1200);
    await picture(page, "drift");
    await view(page, "/");
    await page.getByText("their policies differ").waitFor();
    store.stop();
    await post(one.url, "v1/decide", failed());
    await until("degraded is shown", async () => {
      await post(one.url, "v1/decide", failed());
      return page.locator(".tile.bad", { hasText: "redis · degraded" }).isVisible();
    });
    await pause(1200);
    await picture(page, "degraded");
    assert.deepEqual(await accessible(page), []);
  } finally {
    store.stop();
    await Promise.all([one.stop(), two.stop()]);
    rmSync(place, { recursive: true, force: true });
  }
  assert.deepEqual(page.problems.filter((each) => !/net::ERR_/.test(each)), []);
  await page.context().close();
});

test("the contract's page renders", async () => {
  const page = await watch(browser, `${decider.url}docs`);
  await page.locator("#contract .info .title").waitFor({ timeout: patience });
  await page.locator(".opblock-summary-path", { hasText: "/v1/decide" }).first().waitFor();
  await page.locator(".opblock-summary", { hasText: "/v1/explain" }).click();
  await page.getByRole("button", { name: "Try it out" }).waitFor();
  await picture(page, "docs", false);
  await page.done();
});
