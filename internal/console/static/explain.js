// What would be decided for an attempt, and why. The attempt is in the address,
// so that the question can be sent to a colleague.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { ask } from "./ask.js";
import { live } from "./live.js";
import { Copy, CopyCurl, Decision, Reason, Tokens } from "./parts.js";
import { duration, grpcCodes, outcomes } from "./words.js";
import { refine, to } from "./place.js";

// numbers and truths are the members of an Attempt that are no text.
const numbers = new Set(["status", "attempt", "remaining_ms", "min_attempt_ms", "previous_delay_ms", "inbound_attempt"]);
const truths = new Set(["idempotent", "has_idempotency_key", "retried_below"]);
const texts = ["dependency", "method", "outcome", "grpc_status", "caller", "retry_after", "response_date"];
const rare = ["min_attempt_ms", "previous_delay_ms", "inbound_attempt", "retried_below", "response_date", "headers"];

// attemptOf is the Attempt that the address holds. What is not a number stays
// as it was written: the server says what is wrong with it.
export function attemptOf(query) {
  const attempt = {};
  for (const name of texts) if (query[name]) attempt[name] = query[name];
  for (const name of numbers) if (query[name]) attempt[name] = query[name].trim() !== "" && Number.isFinite(+query[name]) ? +query[name] : query[name];
  for (const name of truths) if (query[name]) attempt[name] = query[name] === "true";
  if (query.headers) {
    attempt.headers = {};
    for (const line of query.headers.split("\n").filter((each) => each.trim())) {
      const colon = line.indexOf(":");
      attempt.headers[(colon < 0 ? line : line.slice(0, colon)).trim()] = colon < 0 ? "" : line.slice(colon + 1).trim();
    }
  }
  return attempt;
}

// visit grows with each address that somebody goes to: Back, or one that was sent.
export function Explain({ query, visit }) {
  const [answer, setAnswer] = useState(null), [wrong, setWrong] = useState(null), [busy, setBusy] = useState(false);
  const attempt = attemptOf(query), text = JSON.stringify(attempt), asked = useRef(0);
  const show = (found, error) => {
    setAnswer(found);
    setWrong(error);
    setBusy(false);
  };
  const run = async () => {
    const mine = ++asked.current; // only the newest question's answer is shown
    setBusy(true);
    const shown = await ask("POST", "v1/explain", attempt).then((found) => [{ ...found, of: text }, null], (error) => [null, error]);
    if (mine === asked.current) show(...shown);
  };
  useEffect(() => { // an address shows its own answer, or none
    asked.current++;
    show(null, null);
    if (attempt.dependency && attempt.method && (query.status || query.outcome || query.grpc_status)) run();
  }, [visit]);
  const errors = Object.fromEntries((wrong ? wrong.errors : []).map((each) => [each.field.split("/")[1], each.detail]));
  return html`<header class="page"><h1 tabindex="-1">Explain an attempt</h1><p class="faint">Nothing is spent and nothing changes.</p></header>
    <div class="columns wide-right">
      <section class="card"><${Form} query=${query} errors=${errors} busy=${busy} run=${run} attempt=${attempt} /></section>
      <div aria-live="polite">
        ${wrong ? html`<section class="card troubles bad" role="alert"><p>${wrong.message}</p><ul>${wrong.errors.map((each) => html`<li key=${each.field} class="bad"><span class="sign" aria-hidden="true"></span><code>${each.field.slice(1) || "body"}</code> <span>${each.detail}</span></li>`)}</ul></section>` : null}
        ${answer ? html`<${Answer} answer=${answer} stale=${answer.of !== text} />` : wrong ? null : html`<section class="card empty"><p>Describe a failed attempt; what decider would answer now, and every question that leads there, is shown here.</p></section>`}
      </div>
    </div>`;
}

function Form({ query, errors, busy, run, attempt }) {
  const ending = query.outcome ? "outcome" : query.grpc_status ? "grpc_status" : "status";
  const set = (name) => (event) => refine({ [name]: event.target.value });
  const Field = ({ name, label, children, hint }) => html`<div class=${`field ${errors[name] ? "wrong" : ""}`}><label for=${`f-${name}`}>${label}</label>${children}
    ${hint ? html`<small id=${`h-${name}`}>${hint}</small>` : null}${errors[name] ? html`<small class="bad" id=${`e-${name}`}>${errors[name]}</small>` : null}</div>`;
  const common = (name, hint) => ({ id: `f-${name}`, name, value: query[name] || "", "aria-invalid": errors[name] ? "true" : undefined,
    "aria-describedby": [hint && `h-${name}`, errors[name] && `e-${name}`].filter(Boolean).join(" ") || undefined, autocomplete: "off" });
  const input = (name, label, more, hint) => Field({ name, label, hint, children: html`<input ...${common(name, hint)} ...${more} onInput=${set(name)} />` });
  const choice = (name, label, options) => Field({ name, label, children: html`<select ...${common(name)} onChange=${set(name)}>${options.map(([value, words]) => html`<option key=${value} value=${value}>${words}</option>`)}</select>` });
  // A gRPC call is a POST; whoever goes back to HTTP gets the method that was there.
  const before = useRef("GET");
  const methodFor = (kind) => {
    if (kind === "grpc_status") {
      before.current = query.method || "";
      return { method: "POST" };
    }
    return ending === "grpc_status" && query.method === "POST" ? { method: before.current } : {};
  };
  const end = (kind) => refine({ status: kind === "status" ? "503" : "", outcome: kind === "outcome" ? "timeout" : "", grpc_status: kind === "grpc_status" ? "UNAVAILABLE" : "",
    ...methodFor(kind) });
  return html`<form class="explain" onSubmit=${(event) => { event.preventDefault(); run(); }}>
    ${input("dependency", "dependency", { list: "dependencies-known", required: true })}
    <datalist id="dependencies-known">${[...live.dependencies.keys()].map((name) => html`<option key=${name} value=${name} />`)}</datalist>
    ${input("method", "method", { list: "methods-known", required: true })}
    <datalist id="methods-known">${["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].map((name) => html`<option key=${name} value=${name} />`)}</datalist>
    <fieldset class="field ${errors.status ? "wrong" : ""}"><legend>it ended with</legend>
      <div class="line">${[["status", "an HTTP status"], ["outcome", "no answer"], ["grpc_status", "a gRPC code"]].map(([kind, words]) => html`<label key=${kind} class="choice"><input type="radio" name="ending" checked=${ending === kind} onChange=${() => end(kind)} /> ${words}</label>`)}</div>
      ${ending === "status" ? html`<input ...${common("status")} aria-label="HTTP status" inputmode="numeric" placeholder="503" onInput=${set("status")} />`
      : html`<select ...${common(ending)} aria-label=${ending === "outcome" ? "outcome" : "gRPC code"} onChange=${set(ending)}>${(ending === "outcome" ? outcomes : grpcCodes).map((word) => html`<option key=${word} value=${word}>${word}</option>`)}</select>`}
      ${errors.status ? html`<small class="bad" id="e-status">${errors.status}</small>` : null}
    </fieldset>
    <div class="pairs">
    ${input("attempt", "attempt that failed", { inputmode: "numeric", placeholder: "1" })}
    ${input("remaining_ms", "deadline left, ms", { inputmode: "numeric", placeholder: "none" })}
    ${input("retry_after", "Retry-After", { placeholder: "absent" })}
    ${input("caller", "caller", { placeholder: "unnamed" })}
    ${choice("idempotent", "idempotent", [["", "as the method says"], ["true", "yes"], ["false", "no"]])}
    ${choice("has_idempotency_key", "idempotency key", [["", "none"], ["true", "sent"]])}
    </div>
    <details open=${rare.some((name) => query[name])}><summary>more</summary><div class="pairs">
      ${input("min_attempt_ms", "least time of an attempt, ms", { inputmode: "numeric", placeholder: "the policy's" })}
      ${input("previous_delay_ms", "wait before this attempt, ms", { inputmode: "numeric", placeholder: "0" })}
      ${input("inbound_attempt", "inbound attempt", { inputmode: "numeric", placeholder: "not given" })}
      ${choice("retried_below", "retried below", [["", "no"], ["true", "yes"]])}
      ${input("response_date", "Date of the answer", { placeholder: "not given" })}
      </div>
      ${Field({ name: "headers", label: "headers of the answer", hint: "one a line, as name: value", children: html`<textarea ...${common("headers", true)} rows="3" onInput=${set("headers")}></textarea>` })}
    </details>
    <p class="actions"><button type="submit" class="primary" disabled=${busy}>Explain</button> <${CopyCurl} method="POST" path="v1/explain" body=${attempt} /></p>
  </form>`;
}

function Answer({ answer, stale }) {
  const { trace, of, ...decision } = answer;
  return html`<section class=${`card answer ${decision.decision} ${stale ? "stale" : ""}`} aria-labelledby="answer">
    <h2 id="answer"><${Decision} decision=${decision.decision} />${decision.decision === "retry" ? html` <span class="delay">in ${duration(decision.delay_ms)}</span>` : null} <${Reason} reason=${decision.reason} /></h2>
    ${stale ? html`<p class="faint">The form has changed since.</p>` : null}
    <p class="verdict">${decision.message}</p>
    <dl class="facts">
      <div><dt>rule</dt><dd><a href=${to("dependency", decision.dependency)}><code>${decision.policy}</code></a></dd></div>
      ${decision.budget ? html`<div><dt>budget, were it spent</dt><dd><${Tokens} budget=${decision.budget} name=${decision.dependency} /></dd></div>` : null}
      <div><dt>Retry-After</dt><dd>${decision.retry_after.replaceAll("_", " ")}${decision.server_delay_ms !== undefined ? `, ${duration(decision.server_delay_ms)}` : ""}</dd></div>
      ${decision.ask_again_in_ms !== undefined ? html`<div><dt>ask again in</dt><dd>${duration(decision.ask_again_in_ms)}</dd></div>` : null}
      ${decision.hints.length ? html`<div><dt>hints</dt><dd>${decision.hints.map((each) => each.replaceAll("_", " ")).join(", ")}</dd></div>` : null}
    </dl>
    <table class="trace"><caption>The questions, in the order in which they were asked; the last one decided.</caption>
      <thead><tr><th scope="col" class="num">step</th><th scope="col">question</th><th scope="col">answer</th></tr></thead>
      <tbody>${trace.map((each, i) => html`<tr key=${i} class=${i === trace.length - 1 ? "last" : ""}><td class="num">${each.step}</td><td>${each.question}</td><td>${each.answer}</td></tr>`)}</tbody></table>
    <details><summary>JSON</summary><${Copy} text=${JSON.stringify({ ...decision, trace }, null, 2)} /><pre tabindex="0">${JSON.stringify({ ...decision, trace }, null, 2)}</pre></details>
  </section>`;
}
