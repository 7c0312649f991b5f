// Words and numbers as people read them. Nothing here knows the page.

// reasons are the contract's, with what they mean to an operator. A word that is
// not among them is shown as it is.
export const reasons = {
  backoff: "Retry after the policy's own wait.",
  retry_after: "Retry after the longer wait that the server asked for.",
  cool_down: "Retry after a wait that the server gave to somebody else of the fleet.",
  not_a_failure: "The attempt did not fail.",
  canceled: "The caller canceled the call.",
  server_refused: "A header of the answer forbids the retry.",
  not_retryable: "It would fail the same way again.",
  not_safe_to_repeat: "It may have been acted on, and has no idempotency key.",
  retried_below: "The dependency has already retried by itself.",
  not_the_retry_layer: "Another layer is the one that retries.",
  attempts_exhausted: "No attempt is left.",
  server_delay_too_long: "The server asked for a longer wait than the policy allows.",
  deadline: "The wait and another attempt do not fit the caller's deadline.",
  paused: "An operator has paused retries.",
  breaker_open: "The breaker is open.",
  budget_exhausted: "The fleet's retry budget is spent.",
  store_unavailable: "The fleet's state is out of reach, and the policy gives up then.",
};

export const retryReasons = new Set(["backoff", "retry_after", "cool_down"]);

// protective are the reasons by which decider holds a storm back; the others
// are about one call.
export const protective = new Set(["paused", "breaker_open", "budget_exhausted", "store_unavailable"]);

export const outcomes = ["timeout", "connect_timeout", "connection_refused", "connection_reset", "connection_closed",
  "dns_failure", "tls_failure", "not_processed", "canceled", "breaker_open"];

export const grpcCodes = ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "UNKNOWN", "CANCELLED",
  "FAILED_PRECONDITION", "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS",
  "OUT_OF_RANGE", "UNIMPLEMENTED", "DATA_LOSS", "OK"];

// possible says what can be the filter of the server's stream; the rest is refused.
export const possible = { dependency: /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/, decision: /^(retry|give_up)$/ };

// spaced is a word of the contract for people: budget_exhausted, budget exhausted.
export const spaced = (word) => word.replaceAll("_", " ");

// rate is a number per second: 1,234, 12.3, 0.25.
export function rate(n) {
  if (n === 0) return "0";
  const digits = n >= 100 ? 0 : n >= 1 ? 1 : 2;
  return n.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits === 2 ? 0 : digits });
}

export const count = (n) => n.toLocaleString("en");

// tokens keeps tenths: what is left of a budget matters below one too.
export const tokens = (n) => n.toLocaleString("en", { maximumFractionDigits: n < 1 ? 2 : 1 });

export const percent = (share) => `${(100 * share).toLocaleString("en", { maximumFractionDigits: share < 0.1 ? 1 : 0 })}%`;

// duration is a number of ms as the policy file has it: 70ms, 2.07s, 1m30s.
export function duration(ms) {
  if (ms === 0) return "0s";
  if (ms < 1000) return `${ms}ms`;
  const hours = Math.floor(ms / 3600000), minutes = Math.floor(ms / 60000) % 60, seconds = (ms % 60000) / 1000;
  return (hours ? `${hours}h` : "") + (minutes ? `${minutes}m` : "") + (seconds ? `${+seconds.toFixed(3)}s` : "");
}

// rough is a duration where its seconds no longer matter.
export function rough(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export const zone = {
  utc: read("decider-utc") === "yes",
  set(utc) {
    zone.utc = utc;
    keep("decider-utc", utc ? "yes" : "no");
  },
};

const two = (n) => String(n).padStart(2, "0");

// clock is the time of day in the zone that was chosen.
export function clock(text, fraction) {
  const at = new Date(text);
  const [h, m, s] = zone.utc ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()] : [at.getHours(), at.getMinutes(), at.getSeconds()];
  return `${two(h)}:${two(m)}:${two(s)}${fraction ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : ""}`;
}

// moment is date and time; the date is left out where it is today's.
export function moment(text, now) {
  const day = (at) => zone.utc ? at.toISOString().slice(0, 10) : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const at = new Date(text), date = day(at);
  return (date === day(new Date(now)) ? "" : `${date} `) + clock(text);
}

// read and keep are this browser's memory, which may be forbidden.
export function read(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

export function keep(name, value) {
  try { localStorage.setItem(name, value); } catch { /* it holds until the page is left */ }
}

// order is the policy file's own; a word that is not in it comes behind.
const order = ["description", "owner", "preset", "max_attempts", "backoff", "retry_after", "retryable", "repeat", "unprocessed", "min_attempt", "retry_layer",
  "only_first_inbound", "budget", "breaker", "cool_down", "on_store_failure", "mode", "candidate",
  "strategy", "base", "cap", "multiplier", "min", "jitter", "throttle", "timeout", "max", "spread", "headers",
  "ratio", "capacity", "capacity_seconds", "min_per_second", "deposit_on", "cost", "caller_share", "failure_ratio", "min_attempts", "window", "open_for", "probes"];
const shares = new Set(["ratio", "spread", "jitter", "failure_ratio", "caller_share"]);

// yaml is a policy of the contract in the words of the policy file.
export function yaml(policy) {
  const { name, backoff_throttle, backoff_timeout, ...rest } = policy;
  rest.backoff = { ...rest.backoff, ...(backoff_throttle && { throttle: backoff_throttle }), ...(backoff_timeout && { timeout: backoff_timeout }) };
  if (!rest.budget) rest.budget = "off";
  return [`${scalar(name)}:`, ...block(rest, "  ")].join("\n");
}

// block writes members a line each; one whose value is short stays on its line.
function block(members, indent) {
  const lines = [];
  for (const [key, value] of inOrder(members)) {
    const text = written(key, value), line = `${indent}${fileWord(key)}: ${text}`;
    if (line.length <= 66 || !isObject(value)) lines.push(line);
    else lines.push(`${indent}${fileWord(key)}:`, ...block(value, `${indent}  `));
  }
  return lines;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const fileWord = (key) => key.endsWith("_ms") ? key.slice(0, -3) : key;
const rank = (key) => (order.indexOf(fileWord(key)) + order.length + 1) % (order.length + 1);
const inOrder = (members) => Object.entries(members).sort(([a], [b]) => rank(a) - rank(b));

function written(key, value) {
  if (key === "breaker" && value.mode === "off") return "off";
  if (Array.isArray(value)) return `[${value.map(scalar).join(", ")}]`;
  if (isObject(value)) return `{${inOrder(value).map(([name, each]) => `${fileWord(name)}: ${written(name, each)}`).join(", ")}}`;
  if (key.endsWith("_ms")) return duration(value);
  if (shares.has(key)) return `${+(value * 100).toFixed(4)}%`;
  return scalar(value);
}

const scalar = (value) => typeof value === "string" && !/^[A-Za-z0-9][A-Za-z0-9._/ -]*$/.test(value) ? JSON.stringify(value) : String(value);
