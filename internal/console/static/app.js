// The frame of the console: which view the address asks for, whether what is
// shown is live, and in which light.

import { html, render, useEffect, useReducer, useRef, useState } from "./vendor/preact.js";
import { follow, live, retryNow, subscribe } from "./live.js";
import { Fleet } from "./fleet.js";
import { Dependency } from "./dependency.js";
import { Decisions } from "./decisions.js";
import { Explain } from "./explain.js";
import { Replicas } from "./replicas.js";
import { all } from "./trouble.js";
import { keep, read, rough, zone } from "./words.js";
import { place, to } from "./place.js";

const views = {
  fleet: { title: "Fleet", draw: Fleet, filter: () => ({ decision: "give_up" }) },
  decisions: { title: "Decisions", draw: Decisions, filter: ({ query }) => query },
  explain: { title: "Explain", draw: Explain, idle: true },
  replicas: { title: "Replicas", draw: Replicas },
  dependency: { title: "Dependency", draw: Dependency, hidden: true, filter: ({ name }) => ({ dependency: name }) },
};

function App() {
  const [, redraw] = useReducer((n) => n + 1, 0);
  const [at, setAt] = useState(() => ({ ...place(), visit: 0 })), main = useRef(null), first = useRef(true);
  const view = views[at.view];
  useEffect(() => subscribe(redraw), []);
  useEffect(() => {
    const moved = () => setAt(({ visit }) => ({ ...place(), visit: visit + 1 }));
    const refined = () => setAt(({ visit }) => ({ ...place(), visit }));
    addEventListener("hashchange", moved);
    addEventListener("refined", refined);
    return () => { removeEventListener("hashchange", moved); removeEventListener("refined", refined); };
  }, []);
  useEffect(() => { follow(view && view.filter ? view.filter(at) : {}); });
  useEffect(() => {
    const title = at.name || (view ? view.title : "Not found");
    document.title = `${title} · decider`;
    if (!first.current) { // a new view begins at its heading, for the eye and for a screen reader
      scrollTo(0, 0);
      const heading = main.current.querySelector("h1");
      if (heading) heading.focus();
    }
    first.current = false;
  }, [at.view, at.name]);
  const Draw = view && view.draw;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <header class="bar"><a class="brand" href=${to("fleet")}><img src="console/icon.svg" alt="" width="22" height="22" /> decider</a>
      <nav aria-label="Views">${Object.entries(views).filter(([, each]) => !each.hidden).map(([name, each]) => html`<a key=${name} href=${to(name)} aria-current=${at.view === name ? "page" : undefined}>${each.title}</a>`)}<a href="docs">API</a></nav>
      <span class="grow"></span><${Connection} /><${Settings} redraw=${redraw} /></header>
    <${Stale} />
    <main id="main" tabindex="-1" ref=${main} class=${live.snapshot && lost() ? "old" : ""}>
      ${!Draw ? html`<h1 tabindex="-1">Not found</h1><p>There is no such view. <a href=${to("fleet")}>Back to the fleet.</a></p>`
      : live.snapshot || view.idle ? html`<${Draw} key=${at.view + at.name} query=${at.query} visit=${at.visit} name=${at.name} may=${live.roles.includes("operate")} />` : html`<h1 class="off-screen" tabindex="-1">${view.title}</h1><p class="empty">${live.state === "refused" ? "" : "Waiting for the first snapshot …"}</p>`}
    </main>
    <${Foot} />
    <${Announcer} />`;
}

// Connection says whether what is shown is live.
function Connection() {
  const words = { live: "live", connecting: "connecting …", reconnecting: `reconnecting · ${rough(Date.now() - live.since)}`, refused: "refused", sleeping: "asleep" }[live.state];
  return html`<span class=${`connection ${live.state}`} data-state=${live.state}><span class="dot" aria-hidden="true"></span>${words}</span>`;
}

// lost says whether the connection has been gone for longer than a stream takes
// that ends in good order and comes again.
const lost = () => live.state === "refused" || (live.state === "connecting" || live.state === "reconnecting") && Date.now() - live.since > 2000;

function Stale() {
  if (!lost()) return null;
  const what = live.refused ? `decider gives no stream: ${live.refused.whole}` : live.heard ? "Connection lost." : live.tries ? "decider does not answer." : "Waiting for decider's answer.";
  return html`<section class="stale" aria-label="Connection"><b>${what}${live.heard ? ` What you see is ${rough(Date.now() - live.heard)} old.` : ""}</b>
    ${live.state === "refused" ? advice() : live.tries === 0 ? "" : ` Reconnecting by itself, ${live.tries} ${live.tries === 1 ? "try" : "tries"} so far.`}
    <button type="button" onClick=${retryNow}>${nameless() ? "sign in" : "try now"}</button></section>`;
}

// nameless says whether a name would help. A browser asks for one after a 401
// alone; after a 403 it would send the same again.
const nameless = () => live.state === "refused" && live.refused.status === 401;

function advice() {
  if (nameless()) return " The browser asks for a name of the auth file and, as the password, its key.";
  if (live.refused.status === 403) return " The console needs the role read, and operate for overrides. The browser keeps the name that it has; another can be given in a private window.";
  return "";
}

// Announcer tells a screen reader what changed, and only that: the tables move
// each second.
function Announcer() {
  const state = live.state === "refused" ? `Refused: ${live.refused.whole}` : lost() ? "Connection lost, reconnecting." : live.snapshot ? "Live." : "Connecting.";
  const serious = live.snapshot ? new Set(all(live).filter((each) => each.grade === "bad").map((each) => each.about)) : new Set();
  const trouble = serious.size ? ` In trouble: ${[...serious].slice(0, 5).join(", ")}${serious.size > 5 ? ` and ${serious.size - 5} more` : ""}.` : "";
  return html`<p class="off-screen" role="status">${state}${trouble}</p>`;
}

const schemes = ["light dark", "light", "dark"], schemeWords = { "light dark": "auto", light: "light", dark: "dark" };

function Settings({ redraw }) {
  const [scheme, setScheme] = useState(() => schemes.includes(read("decider-scheme")) ? read("decider-scheme") : schemes[0]);
  useEffect(() => { document.documentElement.style.colorScheme = scheme; }, [scheme]);
  const next = () => {
    const chosen = schemes[(schemes.indexOf(scheme) + 1) % schemes.length];
    setScheme(chosen);
    keep("decider-scheme", chosen);
  };
  return html`<span class="settings"><button type="button" class="quiet" onClick=${() => { zone.set(!zone.utc); redraw(); }} aria-label=${`${zone.utc ? "UTC" : "local time"}, change the time zone`}>${zone.utc ? "UTC" : "local time"}</button>
    <button type="button" class="quiet" onClick=${next} aria-label=${`${schemeWords[scheme]}, change the colours`}><span aria-hidden="true">◐ </span>${schemeWords[scheme]}</button></span>`;
}

function Foot() {
  if (!live.snapshot) return null;
  const { status } = live.snapshot, self = status.replicas.find((each) => each.self);
  return html`<footer>decider ${status.version} · counts and rates are those of ${self ? html`replica <code>${self.id}</code>` : "this replica"}${status.replicas.length > 1 ? `, one of ${status.replicas.length}` : ""}; budgets, breakers, cool-downs and overrides are ${status.store.kind === "memory" ? "this process's" : "the fleet's"} · <a href="metrics">metrics</a> · <a href="openapi.yaml">contract</a></footer>`;
}

const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
