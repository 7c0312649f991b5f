// What the server tells, as it tells it: one stream for the whole page, with the
// snapshots of each second and the decisions that the view wants.
//
// The browser reconnects by itself where the network fails; where the server
// refuses it gives up without a word why, and this file asks for the words and
// tries again. Before each try it asks for the status: that says what one may do,
// in words why one may not, and it is what a browser asks for a password for,
// once. Who is not let in, or asks for what cannot be, is asked before the next
// try. The page always says which of these it is, and how old what it shows is.

import { address, ask, knock } from "./ask.js";
import { possible } from "./words.js";

const seconds = 120; // of history
const keepRows = 500; // decisions
const quiet = 5000; // ms without a snapshot that look like a fault
const typing = 120000; // ms that somebody may take to say who they are
const hiddenFor = 30000; // ms after which a hidden page lets go of its stream

export const live = {
  // state: connecting, live, reconnecting, refused, sleeping.
  state: "connecting",
  since: Date.now(),
  tries: 0,
  refused: null, // why the server gives no stream, where it says so: a Refused
  roles: [],
  heard: 0, // when the last snapshot came, by this browser's clock
  snapshot: null,
  dependencies: new Map(), // by name, what is remembered of each
  decisions: [], // the newest first
  frozen: null, // the list as it was when somebody froze it
  skipped: 0,
};

const watchers = new Set();
let source = null, wanted = "", timer = 0, opened = 0, scheduled = false, process = "";

export function subscribe(redraw) {
  watchers.add(redraw);
  return () => watchers.delete(redraw);
}

// changed redraws once for all events that came together.
function changed() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    for (const redraw of watchers) redraw();
  });
}

// follow says which decisions the view wants. What can be no filter is left out,
// and the view says so: the server would refuse the whole stream for it.
export function follow(filter) {
  const query = new URLSearchParams({ snapshots: "true", limit: "100" });
  for (const name of ["dependency", "decision"]) if (filter[name] && possible[name].test(filter[name])) query.set(name, filter[name]);
  if (query.toString() === wanted) return;
  wanted = query.toString();
  live.decisions = [];
  live.frozen = null;
  live.skipped = 0;
  open();
}

async function open() {
  close();
  if (live.state === "live" || await admitted(++opened)) stream();
}

// admitted says whether a stream is worth asking for.
async function admitted(mine) {
  try {
    const status = await ask("GET", "v1/status", undefined, typing);
    live.roles = status.roles || [];
    return mine === opened;
  } catch (error) {
    if (mine === opened) {
      lost();
      refuse(error);
    }
    return false;
  }
}

// refuse is for an answer that is no stream. What the same request would not
// change is not sent again by itself.
function refuse(error) {
  live.refused = error.status ? error : null;
  if ([401, 403, 422].includes(error.status)) become("refused");
  else again();
}

// learn asks why the server refused the stream.
async function learn() {
  close();
  const mine = ++opened;
  if (!await admitted(mine)) return;
  try {
    await knock(streamPath());
    if (mine === opened) again();
  } catch (error) {
    if (mine === opened) refuse(error);
  }
}

const streamPath = () => `v1/decisions/stream?${wanted}`;

function stream() {
  const mine = source = new EventSource(address(streamPath()));
  const on = (name, handle) => mine.addEventListener(name, (event) => { if (mine === source) handle(event); });
  on("snapshot", (event) => take(JSON.parse(event.data)));
  on("decision", (event) => addDecision(event.lastEventId, JSON.parse(event.data)));
  on("skipped", (event) => { live.skipped += JSON.parse(event.data); changed(); });
  on("error", () => {
    lost();
    if (mine.readyState === EventSource.CLOSED) learn();
  });
}

function close() {
  clearTimeout(timer);
  if (source) source.close();
  source = null;
}

function again() {
  close();
  timer = setTimeout(open, Math.min(1000 * 2 ** Math.min(live.tries, 4), 10000));
}

function lost() {
  live.tries++;
  become(live.heard ? "reconnecting" : "connecting");
}

function become(state) {
  if (live.state !== state) {
    live.state = state;
    live.since = Date.now();
  }
  changed();
}

// retryNow is for who does not want to wait.
export function retryNow() {
  live.tries = 0;
  become(live.heard ? "reconnecting" : "connecting");
  open();
}

function take(snapshot) {
  const { status } = snapshot;
  const self = status.replicas.find((each) => each.self);
  const id = `${self ? self.id : ""} ${status.started_at}`;
  if (id !== process) { // another replica, or one that has started anew: its counts are its own
    process = id;
    live.dependencies.clear();
  }
  const names = new Set();
  for (const one of snapshot.dependencies) {
    names.add(one.dependency);
    const known = live.dependencies.get(one.dependency) || new Memory();
    known.take(one, Date.parse(snapshot.at));
    live.dependencies.set(one.dependency, known);
  }
  for (const name of live.dependencies.keys()) if (!names.has(name)) live.dependencies.delete(name);
  live.snapshot = snapshot;
  live.heard = Date.now();
  live.tries = 0;
  live.refused = null;
  become("live");
}

function addDecision(id, decision) {
  if (live.decisions.some((each) => each.key === id)) return;
  live.decisions.unshift({ key: id, ...decision });
  if (live.decisions.length > keepRows) live.decisions.length = keepRows;
  changed();
}

export function freeze(yes) {
  live.frozen = yes ? live.decisions.slice() : null;
  changed();
}

// Memory is what is known of a dependency: its newest state, and what each of
// the last two minutes' seconds decided and left in the bucket.
class Memory {
  constructor() {
    this.tags = new Float64Array(128);
    this.retries = new Uint32Array(128);
    this.giveUps = new Uint32Array(128);
    this.tokens = new Float64Array(128).fill(NaN);
    this.tokenTags = new Float64Array(128);
    this.counted = []; // [ms, counts], the oldest first, of the last minute
  }

  take(one, at) {
    this.now = one;
    const from = Date.parse(one.recent.from) / 1000;
    one.recent.retries.forEach((n, i) => {
      const slot = (from + i) & 127;
      this.tags[slot] = from + i;
      this.retries[slot] = n;
      this.giveUps[slot] = one.recent.give_ups[i];
    });
    this.until = from + one.recent.retries.length; // the first second that has not ended
    if (one.budget) {
      const second = Math.floor(at / 1000);
      this.tokens[second & 127] = one.budget.tokens;
      this.tokenTags[second & 127] = second;
    }
    this.counted.push([at, one.counts]);
    while (at - this.counted[0][0] > 60000) this.counted.shift();
  }

  // series is the last two minutes, a number for each second.
  series() {
    const out = { seconds: [], retries: [], giveUps: [], tokens: [] };
    for (let second = this.until - seconds; second < this.until; second++) {
      const slot = second & 127, known = this.tags[slot] === second;
      out.seconds.push(second);
      out.retries.push(known ? this.retries[slot] : 0);
      out.giveUps.push(known ? this.giveUps[slot] : 0);
      out.tokens.push(this.tokenTags[slot] === second ? this.tokens[slot] : null);
    }
    return out;
  }

  // rates are decisions per second over the last ten seconds.
  rates() {
    let retries = 0, giveUps = 0;
    for (let second = this.until - 10; second < this.until; second++) {
      const slot = second & 127;
      if (this.tags[slot] === second) {
        retries += this.retries[slot];
        giveUps += this.giveUps[slot];
      }
    }
    return { retries: retries / 10, giveUps: giveUps / 10 };
  }

  // lately is how often each reason fell while this page looked, a minute at
  // most, the most frequent first.
  lately() {
    const [at, before] = this.counted[0], [until, counts] = this.counted.at(-1);
    return Object.entries(counts).map(([reason, n]) => [reason, n - (before[reason] || 0)]).filter(([, n]) => n > 0)
      .sort((a, b) => b[1] - a[1]).map(([reason, n]) => [reason, n, n * 1000 / (until - at)]);
  }
}

// total adds the series of all dependencies.
export function total() {
  const out = { seconds: [], retries: new Array(seconds).fill(0), giveUps: new Array(seconds).fill(0) };
  for (const each of live.dependencies.values()) {
    const one = each.series();
    out.seconds = one.seconds;
    one.retries.forEach((n, i) => { out.retries[i] += n; });
    one.giveUps.forEach((n, i) => { out.giveUps[i] += n; });
  }
  return out;
}

// A stream that is open and says nothing is no better than one that is lost.
setInterval(() => {
  if (live.state === "live" && Date.now() - live.heard > quiet) {
    lost();
    again();
  }
  if (live.state !== "live") changed(); // the age of what is shown is shown
}, 1000);

let sleeper = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(sleeper);
  if (document.hidden) {
    sleeper = setTimeout(() => { close(); opened++; become("sleeping"); }, hiddenFor);
  } else if (live.state === "sleeping") {
    become("reconnecting");
    open();
  }
});
