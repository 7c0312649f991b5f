// Decisions as they are made. What they are filtered by is in the address.

import { html } from "./vendor/preact.js";
import { freeze, live } from "./live.js";
import { DecisionTable, Typed } from "./parts.js";
import { count, possible, reasons, spaced } from "./words.js";
import { refine } from "./place.js";

const shownAtOnce = 100;

// filtered are those that the address asks for. The server has sent those of one
// dependency and decision, or all where these are impossible; the rest is chosen here.
export function filtered(decisions, { dependency, decision, reason, caller }) {
  return decisions.filter((each) => (!dependency || each.dependency === dependency) && (!decision || each.decision === decision) &&
    (!reason || each.reason === reason) && (!caller || (each.caller || "").includes(caller)));
}

// impossible is what of the filter no decision can have, in words.
function impossible({ dependency, decision, reason }) {
  return [dependency && !possible.dependency.test(dependency) && `“${dependency}” can be no dependency: a name has letters, digits and . _ : / - and begins with a letter or digit.`,
    decision && !possible.decision.test(decision) && `“${decision}” is no decision: it is retry or give_up.`,
    reason && !reasons[reason] && `“${reason}” is no reason that this page knows.`].filter(Boolean);
}

// Words are the options of a choice, and what the address asks for though it is none.
const Words = ({ known, also }) => html`<option value="">every</option>${(also && !known.includes(also) ? [...known, also] : known).map((word) => html`<option key=${word} value=${word}>${spaced(word)}</option>`)}`;

export function Decisions({ query }) {
  const shown = filtered(live.frozen || live.decisions, query), missed = live.frozen ? filtered(live.decisions.filter((each) => each.key !== undefined && !live.frozen.includes(each)), query).length : 0;
  const take = (name) => (value) => refine({ [name]: value }), choose = (name) => (event) => refine({ [name]: event.target.value });
  const wrong = impossible(query);
  const any = query.dependency || query.decision || query.reason || query.caller;
  return html`<header class="page"><h1 tabindex="-1">Decisions</h1></header>
    <section class="card"><form class="filters" role="search" aria-label="Filter the decisions" onSubmit=${(event) => event.preventDefault()}>
      <label>dependency, whole name <${Typed} list="known" name="dependency" value=${query.dependency || ""} take=${take("dependency")} placeholder="every" aria-invalid=${query.dependency && !possible.dependency.test(query.dependency) ? "true" : undefined} /></label>
      <datalist id="known">${[...live.dependencies.keys()].map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <label>decision <select name="decision" value=${query.decision || ""} onChange=${choose("decision")}><${Words} known=${["retry", "give_up"]} also=${query.decision} /></select></label>
      <label>reason <select name="reason" value=${query.reason || ""} onChange=${choose("reason")}><${Words} known=${Object.keys(reasons)} also=${query.reason} /></select></label>
      <label>caller, any part <${Typed} name="caller" value=${query.caller || ""} take=${take("caller")} placeholder="every" /></label>
      ${any ? html`<button type="button" class="quiet" onClick=${() => refine({ dependency: "", decision: "", reason: "", caller: "" })}>clear</button>` : null}
      <span class="grow"></span>
      <button type="button" aria-pressed=${!!live.frozen} onClick=${() => freeze(!live.frozen)}>${live.frozen ? `▶ go on${missed ? ` (${count(missed)} new)` : ""}` : "❚❚ hold still"}</button>
    </form>
    ${wrong.length ? html`<p role="alert" class="said bad">${wrong.join(" ")}</p>` : null}
    ${live.skipped ? html`<p class="faint">There were more than can be followed: ${count(live.skipped)} are not shown. A filter helps.</p>` : null}
    <${DecisionTable} decisions=${shown.slice(0, shownAtOnce)} caption="Decisions, the newest first" />
    ${shown.length > shownAtOnce ? html`<p class="faint">The newest ${shownAtOnce} of ${count(shown.length)} that this page keeps.</p>` : null}</section>`;
}
