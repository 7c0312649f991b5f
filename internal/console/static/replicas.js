// The replicas that share the store, the policies that they decide by, and the
// parts that this one stands on.

import { html } from "./vendor/preact.js";
import { live } from "./live.js";
import { Chip } from "./parts.js";
import { moment, rough } from "./words.js";
import { hash } from "./fleet.js";

export function Replicas() {
  const { status, components, at } = live.snapshot, now = Date.parse(at);
  const of = (name) => components.find((each) => each.name === name);
  return html`<header class="page"><h1 tabindex="-1">Replicas and config</h1></header>
    <section class="card" aria-labelledby="who"><h2 id="who">Replicas <${State} of=${of("replicas")} now=${now} /></h2>
      ${status.drift ? html`<p><b>Their policies differ.</b> While a new file is rolled out that is so for a moment. If it stays, a replica has refused the file or did not get it; the status of that replica says which.</p>` : null}
      ${status.replicas.length ? html`<${Table} status=${status} now=${now} />` : html`<p class="empty">This replica knows of no other.</p>`}</section>
    <div class="columns even">
      <section class="card" aria-labelledby="config"><h2 id="config">Policies <${State} of=${of("policies")} now=${now} /></h2><dl class="facts">
        <div><dt>source</dt><dd><code>${status.policies.source}</code></dd></div>
        <div><dt>hash</dt><dd><code>${status.policies.hash}</code></dd></div>
        <div><dt>in force since</dt><dd>${moment(status.policies.applied_at, now)} <span class="faint">${rough(now - Date.parse(status.policies.applied_at))} ago</span></dd></div>
        <div><dt>schema</dt><dd><a href="policies.schema.json">policies.schema.json</a></dd></div></dl>
        ${of("policies") && of("policies").state !== "ok" ? html`<pre tabindex="0" aria-label="why the file was refused">${of("policies").means}</pre>` : null}</section>
      <section class="card" aria-labelledby="store"><h2 id="store">Store <${State} of=${of("store")} now=${now} /></h2><dl class="facts">
        <div><dt>kind</dt><dd>${status.store.kind}</dd></div>
        ${status.store.maxmemory_policy ? html`<div><dt>maxmemory-policy</dt><dd><code>${status.store.maxmemory_policy}</code> ${status.store.maxmemory_policy === "noeviction" ? null : html`<${Chip} kind="warn">budgets may vanish, and one that vanished starts full<//>`}</dd></div>` : null}
        <div><dt>means</dt><dd>${status.store.means}</dd></div></dl></section>
    </div>`;
}

const State = ({ of, now }) => of ? html`<${Chip} kind=${of.state === "ok" ? "good" : "bad"}>${of.state}<//><span class="faint">for ${rough(now - Date.parse(of.since))}</span>` : null;

function Table({ status, now }) {
  const self = status.replicas.find((each) => each.self), ours = self ? self.config : status.policies.hash;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Replicas"><table><caption class="off-screen">Replicas</caption>
    <thead><tr><th scope="col">replica</th><th scope="col">policies</th><th scope="col">version</th><th scope="col">started</th></tr></thead>
    <tbody>${status.replicas.map((each) => html`<tr key=${each.id}><th scope="row">${each.id} ${each.self ? html`<${Chip} kind="good">this one<//>` : null}</th>
      <td><code title=${each.config}>${hash(each.config)}</code> ${each.config === ours ? null : html`<${Chip} kind="warn">differs from this one<//>`}</td>
      <td>${each.version} ${each.version === status.version ? null : html`<${Chip}>other version<//>`}</td>
      <td>${moment(each.since, now)} <span class="faint">${rough(now - Date.parse(each.since))} ago</span></td></tr>`)}</tbody></table></div>`;
}
