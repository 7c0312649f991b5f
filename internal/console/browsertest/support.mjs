// What the browser tests stand on: deciders, a browser, a proxy, pictures.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync } from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { chromium } from "playwright-core";

const here = import.meta.dirname, root = path.join(here, "../../..");
const binary = process.env.DECIDER || path.join(root, "bin/decider");
const pictures = process.env.PICTURES || path.join(root, ".cache/console");
mkdirSync(pictures, { recursive: true });

// A test that fails leaves nothing behind that would keep the run from ending.
const children = new Set();
export const stopAll = () => Promise.all([...children].map((each) => each.stop()));

// patience is what a slow machine may take for anything, in ms.
export const patience = 30000;

export const policies = path.join(here, "policies.yaml");

// start runs a decider; its address is in its first line.
export async function start({ listen = "127.0.0.1:0", args = [], file = policies } = {}) {
  const child = spawn(binary, ["serve", "--listen", listen, "--policies", file, ...args], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  const url = await new Promise((resolve, reject) => {
    child.stderr.on("data", (chunk) => {
      log += chunk;
      const found = log.match(/address=(http:\/\/\S+)/);
      if (found) resolve(`${found[1]}/`);
    });
    child.on("exit", (code) => reject(new Error(`decider ended with ${code}:\n${log}`)));
    child.on("error", (error) => reject(new Error(`${binary}: ${error.message}; make build makes it`)));
  });
  const decider = {
    url, listen: new URL(url).host, log: () => log,
    async stop() {
      children.delete(decider);
      if (child.exitCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
  };
  children.add(decider);
  return decider;
}

// redis starts a redis-server that keeps nothing, on a port that was free a moment
// ago: where it is not any more, another is taken.
export async function redis(place) {
  for (let tries = 0; tries < 5; tries++) {
    const port = await freePort();
    const child = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", place], { stdio: ["ignore", "pipe", "ignore"] });
    const up = await new Promise((resolve, reject) => {
      let log = "";
      child.stdout.on("data", (chunk) => { log += chunk; if (log.includes("Ready to accept connections")) resolve(true); });
      child.on("exit", () => resolve(false));
      child.on("error", reject);
    });
    if (up) return { url: `redis://127.0.0.1:${port}`, stop: () => child.kill("SIGKILL") };
  }
  throw new Error("redis-server found no port");
}

async function freePort() {
  const server = http.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

export async function post(url, call, body) {
  const answer = await fetch(new URL(call, url), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${call}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

export const get = async (url, call) => (await fetch(new URL(call, url))).json();

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

// browse starts Chromium with a profile of its own.
export const browse = () => chromium.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: flags });

// watch opens a page and notes everything that must not be: messages on the
// console, errors, violations of the content security policy, requests to
// anywhere else. expected says which of them a test brings about itself.
export async function watch(browser, url, { expected, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const base = url.replace(/(#.*|docs)$/, "");
  const problems = [], note = (text) => { if (!expected || !expected.test(text)) problems.push(text); };
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) note(`${message.type()}: ${message.text()} (${message.location().url})`); });
  page.on("pageerror", (error) => note(`thrown: ${error.stack}`));
  page.on("request", (request) => { if (!request.url().startsWith(base) && !request.url().startsWith("data:")) note(`asked elsewhere: ${request.url()}`); });
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (event) => console.error(`violates ${event.violatedDirective}: ${event.blockedURI}`)));
  await page.goto(url);
  page.problems = problems;
  page.done = async () => {
    await context.close();
    if (problems.length) throw new Error(`the page had problems:\n${problems.join("\n")}`);
  };
  return page;
}

// view goes to a place of the console.
export async function view(page, place) {
  await page.evaluate((hash) => { location.hash = hash; }, place);
}

export const live = (page) => page.locator('.connection[data-state="live"]').waitFor({ timeout: patience });

export const picture = (page, name, fullPage = true) => page.screenshot({ path: path.join(pictures, `${name}.png`), fullPage });

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// accessible lists what axe finds wrong with the page, and links whose colour it
// could not judge in a text: they need more than a colour then.
export async function accessible(page) {
  await page.evaluate(axe);
  const { violations, incomplete } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations", "incomplete"] }));
  return [...violations, ...incomplete.filter(({ id }) => id === "link-in-text-block")].map(({ id, impact, nodes }) => `${id} (${impact}), ${nodes.length} times, first ${nodes[0].target}: ${nodes[0].failureSummary.replaceAll("\n", " ")}`);
}

// proxy puts a server below a prefix, as an ingress does.
export async function proxy(target, prefix) {
  const server = http.createServer((request, response) => {
    if (!request.url.startsWith(`${prefix}/`)) {
      response.writeHead(404).end();
      return;
    }
    const onward = http.request(new URL(request.url.slice(prefix.length), target), { method: request.method, headers: { ...request.headers, host: new URL(target).host } }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    request.pipe(onward);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${server.address().port}${prefix}/`, stop() { server.closeAllConnections(); server.close(); } };
}

// until waits for something to be true and says how long that took, in ms.
export async function until(what, holds, timeout = patience) {
  const begun = Date.now();
  for (;;) {
    if (await holds()) return Date.now() - begun;
    if (Date.now() - begun > timeout) throw new Error(`${what}: not within ${timeout} ms`);
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
}

// becomes waits until a page shows a value, or a text that matches: what a click
// does is drawn a moment later.
export async function becomes(value, wanted, what = `it becomes ${wanted}`) {
  let last;
  try {
    await until(what, async () => {
      last = await value();
      return wanted instanceof RegExp ? wanted.test(last) : last === wanted;
    });
  } catch (error) {
    throw new Error(`${error.message}; it is ${JSON.stringify(last)}`);
  }
}

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
