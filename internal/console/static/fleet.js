// The fleet at a glance, and the table of dependencies.

import { html, useState } from "./vendor/preact.js";
import { live, total } from "./live.js";
import { Breaker, DecisionsChart, Override, Rates, Reason, Spark, Tokens, Why } from "./parts.js";
import { all, gradeOf, grades, troubles } from "./trouble.js";
import { clock, count, duration, moment, percent, rate, retryReasons, rough, spaced } from "./words.js";
import { refine, to } from "./place.js";

const shownAtOnce = 100; // rows: more are a click away, so that a page of a thousand stays quick

export function Fleet({ query }) {
  const { snapshot } = live;
  const found = all(live);
  return html`<h1 class="off-screen" tabindex="-1">Fleet</h1>
    <${Tiles} snapshot=${snapshot} />
    <${Troubles} found=${found} />
    <section class="card" aria-labelledby="load"><h2 id="load">Decisions, the last two minutes</h2><${DecisionsChart} label="Decisions each second over the last two minutes; the table of dependencies has the numbers." series=${total()} /></section>
    <${Dependencies} query=${query} />
    <section class="card" aria-labelledby="latest"><h2 id="latest">Latest give-ups <a class="more" href=${to("decisions")}>all decisions</a></h2>
      <${GiveUps} /></section>`;
}

// GiveUps are the latest ones, alike ones together: in an outage they are many
// and the same.
function GiveUps() {
  const groups = new Map();
  for (const each of live.decisions) {
    const key = `${each.dependency} ${each.reason} ${each.method} ${each.failure}`;
    const group = groups.get(key) || { key, newest: each, n: 0, callers: new Set() };
    group.n++;
    group.callers.add(each.caller || "unnamed");
    groups.set(key, group);
  }
  const rows = [...groups.values()].slice(0, 10);
  if (rows.length === 0) return html`<p class="empty">None yet.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Latest give-ups"><table class="decisions"><caption class="off-screen">Latest give-ups, alike ones together</caption>
    <thead><tr><th scope="col">latest</th><th scope="col" class="num">of the last ${count(live.decisions.length)}</th><th scope="col">dependency</th><th scope="col">after</th><th scope="col">callers</th><th scope="col">why</th></tr></thead>
    <tbody>${rows.map(({ key, newest, n, callers }) => html`<tr key=${key}><td class="time">${clock(newest.at)}</td><td class="num">${count(n)}</td><td class="name"><a href=${to("dependency", newest.dependency)}>${newest.dependency}</a></td>
      <td class="nowrap"><code>${newest.method} ${newest.failure}</code></td><td class="nowrap">${[...callers].slice(0, 3).join(", ")}${callers.size > 3 ? ` and ${callers.size - 3} more` : ""}</td>
      <td class="why"><${Why} decision=${newest} /></td></tr>`)}</tbody></table></div>`;
}

function Tiles({ snapshot }) {
  const { status } = snapshot, now = Date.parse(snapshot.at);
  const rates = [...live.dependencies.values()].map((each) => each.rates());
  const retries = rates.reduce((sum, each) => sum + each.retries, 0), giveUps = rates.reduce((sum, each) => sum + each.giveUps, 0), sum = retries + giveUps;
  const policies = snapshot.components.find((each) => each.name === "policies") || { state: "ok", means: "" };
  const versions = new Set(status.replicas.map((each) => each.version));
  return html`<dl class="tiles">
    <${Tile} name="decisions" value=${html`${rate(sum)}<small>/s</small>`} note=${sum ? html`<span class="is-retry">${percent(retries / sum)} retry</span> · <span class="is-give-up">${percent(giveUps / sum)} give up</span>` : "none in the last 10 s"} />
    <${Tile} name="store" grade=${status.store.state === "ok" ? "good" : "bad"} value=${status.store.state === "ok" ? status.store.kind : `${status.store.kind} · ${status.store.state}`} note=${`${status.store.state === "ok" ? "ok " : ""}for ${rough(now - Date.parse(status.store.since))}`} title=${status.store.means} />
    <${Tile} name="replicas" link=${to("replicas")} grade=${status.drift ? "warn" : "good"} value=${Math.max(1, status.replicas.length)} note=${status.drift ? "their policies differ" : status.replicas.length > 1 ? `same policies${versions.size > 1 ? `, ${versions.size} versions` : ""}` : "no other is known"} />
    <${Tile} name="policies" link=${to("replicas")} grade=${policies.state === "ok" ? "good" : "bad"} value=${html`<code>${hash(status.policies.hash)}</code>`}
      note=${policies.state === "ok" ? `applied ${moment(status.policies.applied_at, now)}, ${rough(now - Date.parse(status.policies.applied_at))} ago` : "the file as it is now was refused"} title=${policies.means} />
    <${Tile} name="dependencies" value=${count(live.dependencies.size)} note=${summary()} />
  </dl>`;
}

export const hash = (text) => text.replace(/^sha256:/, "").slice(0, 12);

function summary() {
  const byGrade = Object.fromEntries(grades.map((grade) => [grade, 0]));
  for (const each of live.dependencies.values()) byGrade[gradeOf(troubles(each))]++;
  const parts = [byGrade.bad && `${byGrade.bad} in trouble`, byGrade.warn && `${byGrade.warn} at risk`].filter(Boolean);
  return parts.length ? parts.join(", ") : "all well";
}

const Tile = ({ name, value, note, grade, title, link }) => html`<div class=${`tile ${grade || ""}`} title=${title}>
  <dt>${link ? html`<a href=${link}>${name}</a>` : name}</dt><dd class="value">${value}</dd><dd class="note">${note}</dd></div>`;

function Troubles({ found }) {
  const [open, setOpen] = useState(false);
  const serious = found.filter((each) => each.grade !== "note"), few = open ? found : found.slice(0, 6);
  if (found.length === 0) return html`<p class="all-well"><span aria-hidden="true">✓</span> Nothing needs attention.</p>`;
  return html`<section class=${`card troubles ${found[0].grade}`} aria-labelledby="now"><h2 id="now">Needs attention${serious.length ? html` <span class="count">${serious.length}</span>` : ""}</h2>
    <ul>${few.map((each) => html`<li key=${each.about} class=${each.grade}><span class="sign" role="img" aria-label=${{ bad: "bad", warn: "warning", note: "note" }[each.grade]}></span><a href=${each.link}>${each.about}</a> <span>${each.text}</span></li>`)}</ul>
    ${found.length > 6 ? html`<button type="button" class="quiet" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "fewer" : `${found.length - 6} more`}</button>` : null}
  </section>`;
}

// columns that can be sorted by; the first click gives the direction that is asked for more often.
const columns = {
  attention: { first: 1, of: (row) => -row.worst * 1e6 + row.rates.giveUps + row.rates.retries / 1e3 },
  name: { first: -1, of: (row) => row.name },
  budget: { first: -1, of: (row) => row.one.budget ? row.one.budget.tokens / row.one.budget.capacity : 2 },
  breaker: { first: 1, of: (row) => ["off", "closed", "half_open", "open"].indexOf(row.one.breaker) },
  "cool-down": { first: 1, of: (row) => row.one.cool_down_ms },
  retry: { first: 1, of: (row) => row.rates.retries },
  "give up": { first: 1, of: (row) => row.rates.giveUps },
};

// Head is a heading that sorts. It stands outside of the table's function: made
// anew at each drawing, it would lose the keyboard's focus.
const Head = ({ id, by, sign, up, numeric, children }) => html`<th scope="col" class=${numeric ? "num" : ""} aria-sort=${by === id ? (sign > 0 ? "descending" : "ascending") : undefined}>
  <button type="button" onClick=${() => refine({ sort: id === "attention" ? "" : id, up: by === id && up !== "1" ? "1" : "" })}>${children}<span aria-hidden="true">${by === id ? (sign > 0 ? " ▾" : " ▴") : ""}</span></button></th>`;

function Dependencies({ query }) {
  const [whole, setWhole] = useState(false);
  const wanted = (query.q || "").toLowerCase();
  const rows = [...live.dependencies].filter(([name]) => name.toLowerCase().includes(wanted)).map(([name, memory]) => {
    const found = troubles(memory), grade = gradeOf(found);
    return { name, memory, one: memory.now, found, grade, worst: grades.indexOf(grade), rates: memory.rates() };
  });
  const by = columns[query.sort] ? query.sort : "attention", sign = query.up === "1" ? -columns[by].first : columns[by].first;
  rows.sort((a, b) => {
    const [x, y] = [columns[by].of(a), columns[by].of(b)];
    return (x < y ? sign : x > y ? -sign : 0) || (a.name < b.name ? -1 : 1);
  });
  const shown = whole ? rows : rows.slice(0, shownAtOnce);
  const sorted = { by, sign, up: query.up };
  return html`<section class="card" aria-labelledby="dependencies">
    <h2 id="dependencies">Dependencies <label class="filter"><span class="off-screen">Show the dependencies whose name holds</span>
      <input type="search" placeholder="filter by name" value=${query.q || ""} onInput=${(event) => refine({ q: event.target.value })} /></label>
      <button type="button" class=${`quiet ${by === "attention" ? "on" : ""}`} aria-pressed=${by === "attention"} onClick=${() => refine({ sort: "", up: "" })}>worst first</button></h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Dependencies"><table class="dependencies">
      <caption class="off-screen">Dependencies, their budgets and what is decided on them</caption>
      <thead><tr><${Head} ...${sorted} id="name">dependency<//><${Head} ...${sorted} id="budget">budget, tokens<//><${Head} ...${sorted} id="breaker">breaker<//><${Head} ...${sorted} id="cool-down">cool-down<//>
        <${Head} ...${sorted} id="retry" numeric>retry/s<//><${Head} ...${sorted} id="give up" numeric>give up/s<//><th scope="col">reasons, last minute</th><th scope="col">last two minutes</th></tr></thead>
      <tbody>${shown.map((row) => html`<${Row} key=${row.name} row=${row} />`)}</tbody>
    </table></div>
    ${rows.length === 0 ? html`<p class="empty">${wanted ? "No dependency has that in its name." : "No dependency yet: the policy file names none, and nobody has asked about one."}</p>` : null}
    ${rows.length > shown.length ? html`<button type="button" class="quiet" onClick=${() => setWhole(true)}>show all ${count(rows.length)}</button>` : null}
  </section>`;
}

function Row({ row }) {
  const { name, one, found, grade, rates, memory } = row;
  return html`<tr class=${grade}>
    <th scope="row"><span class="sign" title=${found.map((each) => each.text).join("\n")} role="img" aria-label=${{ bad: "in trouble", warn: "at risk", note: "note", good: "well" }[grade]}></span>
      <a href=${to("dependency", name)}>${name}</a> <${Override} override=${one.override} short /></th>
    <td><${Tokens} budget=${one.budget} name=${name} /></td>
    <td><${Breaker} state=${one.breaker} /></td>
    <td class="num left">${one.cool_down_ms > 0 ? duration(Math.ceil(one.cool_down_ms / 100) * 100) : html`<span class="faint">–</span>`}</td>
    <${Rates} rates=${rates} />
    <td class="reasons"><${Reasons} memory=${memory} /></td>
    <td><${Spark} series=${memory.series()} name=${name} /></td>
  </tr>`;
}

// Reasons are the two most frequent; give-ups first, because they hurt.
function Reasons({ memory }) {
  const lately = memory.lately(), sorted = [...lately.filter(([r]) => !retryReasons.has(r)), ...lately.filter(([r]) => retryReasons.has(r))].slice(0, 2);
  if (sorted.length === 0) return html`<span class="faint">–</span>`;
  return sorted.map(([reason, n]) => html`<span key=${reason} class="pair"><${Reason} reason=${reason} /> <span class="num" aria-label=${`${n} times ${spaced(reason)}`}>${count(n)}</span></span>`);
}
