// One dependency: how it is, by which rule, and the override.

import { html, useEffect, useState } from "./vendor/preact.js";
import { live } from "./live.js";
import { ask, dependencyPath } from "./ask.js";
import { Breaker, Chart, Chip, Copy, CopyCurl, DecisionsChart, DecisionTable, Override, Reason, Tokens } from "./parts.js";
import { troubles } from "./trouble.js";
import { clock, count, duration, percent, rate, reasons, retryReasons, rough, tokens, yaml } from "./words.js";
import { to } from "./place.js";

export function Dependency({ name, may }) {
  const memory = live.dependencies.get(name), [told, problem] = useDependency(name);
  const one = memory ? memory.now : told;
  if (!one) return html`<h1 tabindex="-1">${name}</h1><p role="status">${problem ? problem.whole : "Asking …"}</p>`;
  const rule = told && told.policy, found = memory ? troubles(memory) : [];
  return html`<header class="page"><p class="crumb"><a href=${to("fleet")}>Fleet</a> / </p><h1 tabindex="-1">${name}</h1>
      ${rule && rule.description ? html`<p>${rule.description}${rule.owner ? html` · <span class="faint">${rule.owner}</span>` : null}</p>` : null}
      <p class="actions"><a class="button" href=${to("explain", "", { dependency: name, method: "GET", status: "503" })}>explain an attempt</a></p></header>
    ${found.length ? html`<ul class=${`card troubles ${found[0].grade}`}>${found.map((each) => html`<li key=${each.text.slice(0, 12)} class=${each.grade}><span class="sign" role="img" aria-label=${each.grade}></span><span>${each.text}</span></li>`)}</ul>` : null}
    <div class="columns">
      <div>
        <section class="card" aria-labelledby="state"><h2 id="state">State now</h2><${State} one=${one} rule=${rule} name=${name} /></section>
        ${memory ? html`<${Charts} memory=${memory} one=${one} name=${name} />` : null}
        <${Trial} told=${told} />
        <section class="card" aria-labelledby="counts"><h2 id="counts">Why, by count <span class="faint">of this replica, since it started</span></h2><${Counts} one=${one} memory=${memory} /></section>
      </div>
      <div>
        <section class="card" aria-labelledby="override"><h2 id="override">Override</h2><${Overriding} name=${name} override=${one.override} may=${may} /></section>
        <section class="card" aria-labelledby="rule"><h2 id="rule">Policy in force ${rule ? html`<${Copy} text=${yaml(rule)} />` : null}</h2>
          ${rule ? html`<pre class="yaml" tabindex="0" aria-label="policy in force">${yaml(rule)}</pre>` : html`<p role="status">${problem ? problem.whole : "Asking …"}</p>`}</section>
      </div>
    </div>
    <section class="card" aria-labelledby="latest"><h2 id="latest">Latest decisions <a class="more" href=${to("decisions", "", { dependency: name })}>follow</a></h2>
      <${DecisionTable} decisions=${live.decisions.slice(0, 25)} caption="Latest decisions on ${name}" brief="dependency" /></section>`;
}

const trialEvery = 2000;

// useDependency asks for the rule, anew where the policies change, and every two
// seconds where something is on trial, which the stream does not tell of.
function useDependency(name) {
  const [told, setTold] = useState([null, null]);
  const config = live.snapshot ? live.snapshot.status.policies.hash : "";
  useEffect(() => {
    let wanted = true, later;
    const take = (one) => {
      if (!wanted) return;
      setTold([one, null]);
      if (one.candidate || one.policy.mode === "shadow") later = setTimeout(fetchOne, trialEvery);
    };
    const fetchOne = () => ask("GET", dependencyPath(name)).then(take, (error) => wanted && setTold([null, error]));
    setTold(([before]) => [before && before.dependency === name ? before : null, null]);
    fetchOne();
    return () => { wanted = false; clearTimeout(later); };
  }, [name, config]);
  return told;
}

// Trial is what a candidate, or an enforced rule in place of one in shadow, would
// have done otherwise.
function Trial({ told }) {
  if (!told) return null;
  const { candidate, shadow } = told, inShadow = told.policy.mode === "shadow";
  return html`${inShadow ? html`<section class="card" aria-labelledby="shadow"><h2 id="shadow">In shadow <span class="faint">of this replica, since it started</span></h2>
      ${shadow ? html`<p>These were granted, and an enforced rule would have refused them:</p><dl class="facts">${Object.entries(shadow).map(([reason, n]) => html`<div key=${reason}><dt><${Reason} reason=${reason} /></dt><dd>${count(n)}</dd></div>`)}</dl>`
        : html`<p class="empty">An enforced rule would have refused nothing yet.</p>`}</section>` : null}
    ${candidate ? html`<section class="card" aria-labelledby="candidate"><h2 id="candidate">Candidate on trial <span class="faint">of this replica${candidate.since ? `, since ${clock(candidate.since)}` : ""}</span></h2><${Candidate} trial=${candidate} /></section>` : null}`;
}

function Candidate({ trial }) {
  if (trial.judged === 0) return html`<p class="empty">It has judged nothing yet.</p>`;
  const change = trial.load_change;
  return html`<dl class="facts">
      <div><dt>judged</dt><dd>${count(trial.judged)} attempts, ${count(trial.different)} of them otherwise (${percent(trial.different / trial.judged)})</dd></div>
      <div><dt>retries</dt><dd>${count(trial.candidate_retries)} instead of ${count(trial.enforced_retries)} <span class="faint">(${count(trial.saved)} fewer, ${count(trial.added)} more)</span></dd></div>
      <div><dt>load</dt><dd>${change === undefined ? html`<span class="faint">unknown: no calls were reported</span>` : `${change > 0 ? "+" : ""}${percent(change)} of the calls`}</dd></div>
    </dl>
    ${trial.differences.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Where the candidate differs"><table><caption class="off-screen">Where the candidate differs</caption>
      <thead><tr><th scope="col">in force</th><th scope="col">candidate</th><th scope="col" class="num">attempts</th></tr></thead>
      <tbody>${trial.differences.map((each) => html`<tr key=${each.enforced + each.candidate}><td><${Reason} reason=${each.enforced} /></td><td><${Reason} reason=${each.candidate} /></td><td class="num">${count(each.attempts)}</td></tr>`)}</tbody></table></div>` : null}`;
}

function State({ one, rule, name }) {
  const budget = rule && rule.budget;
  return html`<dl class="facts">
    <div><dt>budget</dt><dd><${Tokens} budget=${one.budget} name=${name} large />${budget ? html`<p class="faint">Each ${budget.deposit_on === "request" ? "call" : "success"} adds ${tokens(budget.ratio)}, time adds ${rate(budget.min_per_second)}/s; a retry costs ${[...new Set(Object.values(budget.cost))].map(tokens).join(" to ")}.</p>` : null}</dd></div>
    <div><dt>breaker</dt><dd><${Breaker} state=${one.breaker} /></dd></div>
    <div><dt>cool-down</dt><dd>${one.cool_down_ms > 0 ? `${duration(Math.ceil(one.cool_down_ms / 100) * 100)} more` : html`<span class="faint">none</span>`}</dd></div>
    <div><dt>rule</dt><dd><code>${rule ? rule.name : one.policy.name || one.policy}</code></dd></div>
    <div><dt>answered by</dt><dd>${one.degraded ? html`<${Chip} kind="warn">a local rule<//>` : "the fleet's state"}</dd></div>
  </dl>`;
}

function Charts({ memory, one, name }) {
  const series = memory.series();
  return html`<section class="card" aria-labelledby="pace"><h2 id="pace">Decisions, the last two minutes</h2><${DecisionsChart} label=${`Decisions on ${name} each second`} series=${series} /></section>
    ${one.budget ? html`<section class="card" aria-labelledby="left"><h2 id="left">Tokens left, since this page looks</h2>
      <${Chart} label=${`Tokens left in the budget of ${name}`} seconds=${series.seconds} top=${one.budget.capacity} lines=${[{ label: "tokens", color: "accent", fill: 0.15, values: series.tokens }]} /></section>` : null}`;
}

function Counts({ one, memory }) {
  const all = Object.entries(one.counts).sort((a, b) => b[1] - a[1]), sum = all.reduce((total, [, n]) => total + n, 0);
  const lately = new Map(memory ? memory.lately().map(([reason, n, each]) => [reason, each]) : []);
  if (sum === 0) return html`<p class="empty">This replica has decided nothing on it yet.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Decisions by reason"><table><caption class="off-screen">Decisions by reason</caption>
    <thead><tr><th scope="col">reason</th><th scope="col">decision</th><th scope="col" class="num">count</th><th scope="col" class="num">share</th><th scope="col" class="num">now</th><th scope="col">means</th></tr></thead>
    <tbody>${all.map(([reason, n]) => html`<tr key=${reason}><th scope="row"><${Reason} reason=${reason} /></th><td>${retryReasons.has(reason) ? html`<span class="is-retry">retry</span>` : html`<span class="is-give-up">give up</span>`}</td>
      <td class="num">${count(n)}</td><td class="num">${percent(n / sum)}</td><td class="num">${lately.has(reason) ? `${rate(lately.get(reason))}/s` : html`<span class="faint">0</span>`}</td><td class="faint means">${reasons[reason]}</td></tr>`)}</tbody></table></div>`;
}

const terms = [[300000, "5 minutes"], [900000, "15 minutes"], [1800000, "30 minutes"], [3600000, "1 hour"], [14400000, "4 hours"], [43200000, "12 hours"], [86400000, "1 day"]];

// Overriding shows the override in force, and lets those who may set one.
function Overriding({ name, override, may }) {
  const [mode, setMode] = useState("pause"), [term, setTerm] = useState("900000"), [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false), [said, say] = useState(null);
  const path = `${dependencyPath(name)}/override`, order = { mode, expires_in_ms: +term, reason };
  const send = async (method, body, done) => {
    setBusy(true);
    say(null);
    try {
      await ask(method, path, body);
      say({ text: done });
      setReason("");
    } catch (error) {
      say({ text: error.whole, bad: true });
    }
    setBusy(false);
  };
  const submit = (event) => {
    event.preventDefault();
    send("PUT", order, mode === "pause" ? "Retries are paused; the whole fleet knows within a second." : "Retries are allowed; the whole fleet knows within a second.");
  };
  return html`${override ? html`<p class="in-force"><${Override} override=${override} /></p>
      ${may ? html`<p><button type="button" disabled=${busy} onClick=${() => send("DELETE", undefined, "The override is lifted.")}>Lift the override</button></p>` : null}` : html`<p class="faint">None is set: budget, breaker and cool-down decide.</p>`}
    ${may ? html`<form onSubmit=${submit} class="override">
      <fieldset><legend>${override ? "Set another in its place" : "Set one for the whole fleet"}</legend>
        <label class="choice"><input type="radio" name="mode" value="pause" checked=${mode === "pause"} onChange=${() => setMode("pause")} /> <span><b>pause</b> <span class="faint">every retry is refused</span></span></label>
        <label class="choice"><input type="radio" name="mode" value="allow" checked=${mode === "allow"} onChange=${() => setMode("allow")} /> <span><b>allow</b> <span class="faint">every planned retry is granted, nothing is spent</span></span></label>
      </fieldset>
      <div class="line"><label>ends after <select name="term" value=${term} onChange=${(event) => setTerm(event.target.value)}>${terms.map(([ms, words]) => html`<option key=${ms} value=${ms}>${words}</option>`)}</select></label>
      <label class="grow">reason <input name="reason" required maxlength="256" autocomplete="off" placeholder="why, for those who find it later" value=${reason} onInput=${(event) => setReason(event.target.value)} /></label></div>
      <p class="actions"><button type="submit" class=${mode === "pause" ? "danger" : "primary"} disabled=${busy}>${mode === "pause" ? "Pause" : "Allow"} all retries to ${name} for ${rough(+term).replace(/ min$/, " minutes")}</button>
        <${CopyCurl} method="PUT" path=${path} body=${order} /></p>
    </form>` : html`<p class="faint">Setting one needs the role operate.</p>`}
    <p role="status" class=${said && said.bad ? "said bad" : "said"}>${said ? said.text : ""}</p>`;
}
