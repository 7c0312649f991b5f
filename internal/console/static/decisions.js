// Decisions as they are made. What they are filtered by is in the address.

import { html } from "./vendor/preact.js";
import { freeze, live } from "./live.js";
import { DecisionTable, Typed } from "./parts.js";
import { count, reasons, spaced } from "./words.js";
import { refine } from "./place.js";

const shownAtOnce = 100;

// filtered are those that the address asks for; the server has sent those of
// one dependency and decision, the rest is chosen here.
export function filtered(decisions, { reason, caller }) {
  return decisions.filter((each) => (!reason || each.reason === reason) && (!caller || (each.caller || "").includes(caller)));
}

export function Decisions({ query }) {
  const shown = filtered(live.frozen || live.decisions, query), missed = live.frozen ? filtered(live.decisions.filter((each) => each.key !== undefined && !live.frozen.includes(each)), query).length : 0;
  const take = (name) => (value) => refine({ [name]: value }), choose = (name) => (event) => refine({ [name]: event.target.value });
  const any = query.dependency || query.decision || query.reason || query.caller;
  return html`<header class="page"><h1 tabindex="-1">Decisions</h1></header>
    <section class="card"><form class="filters" role="search" aria-label="Filter the decisions" onSubmit=${(event) => event.preventDefault()}>
      <label>dependency, whole name <${Typed} list="known" name="dependency" value=${query.dependency || ""} take=${take("dependency")} placeholder="every" /></label>
      <datalist id="known">${[...live.dependencies.keys()].map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <label>decision <select name="decision" value=${query.decision || ""} onChange=${choose("decision")}><option value="">every</option><option value="retry">retry</option><option value="give_up">give up</option></select></label>
      <label>reason <select name="reason" value=${query.reason || ""} onChange=${choose("reason")}><option value="">every</option>${Object.keys(reasons).map((word) => html`<option key=${word} value=${word}>${spaced(word)}</option>`)}</select></label>
      <label>caller, any part <${Typed} name="caller" value=${query.caller || ""} take=${take("caller")} placeholder="every" /></label>
      ${any ? html`<button type="button" class="quiet" onClick=${() => refine({ dependency: "", decision: "", reason: "", caller: "" })}>clear</button>` : null}
      <span class="grow"></span>
      <button type="button" aria-pressed=${!!live.frozen} onClick=${() => freeze(!live.frozen)}>${live.frozen ? `▶ go on${missed ? ` (${count(missed)} new)` : ""}` : "❚❚ hold still"}</button>
    </form>
    ${live.skipped ? html`<p class="faint">There were more than can be followed: ${count(live.skipped)} are not shown. A filter helps.</p>` : null}
    <${DecisionTable} decisions=${shown.slice(0, shownAtOnce)} caption="Decisions, the newest first" />
    ${shown.length > shownAtOnce ? html`<p class="faint">The newest ${shownAtOnce} of ${count(shown.length)} that this page keeps.</p>` : null}</section>`;
}
