// What is wrong now, the worst first: what somebody who has just been woken up
// wants to know before anything else.

import { duration, percent, rough, tokens } from "./words.js";
import { to } from "./place.js";

// Grades, the worst first.
export const grades = ["bad", "warn", "note", "good"];

// of a dependency: {grade, text}, the worst first.
export function troubles(memory) {
  const one = memory.now, found = [];
  const say = (grade, text) => found.push({ grade, text });
  if (one.override) {
    const { mode, expires_in_ms: left, reason, author } = one.override;
    const by = author && author !== "anonymous" ? ` by ${author}` : "";
    say(mode === "pause" ? "bad" : "warn", `${mode === "pause" ? "every retry is refused" : "every retry is granted, without a budget"}${by} for ${rough(left)} more${reason ? `: ${reason}` : ""}`);
  }
  if (one.breaker === "open") say("bad", "the breaker is open");
  if (one.breaker === "half_open") say("warn", "the breaker is half open: probes are out");
  const spent = memory.lately().find(([reason]) => reason === "budget_exhausted");
  if (one.budget) {
    const { tokens: left, capacity } = one.budget;
    if (left < 1) say("bad", `the retry budget is spent (${tokens(Math.max(0, left))} of ${tokens(capacity)} tokens)`);
    else if (left < capacity / 4) say("warn", `the retry budget is down to ${tokens(left)} of ${tokens(capacity)} tokens`);
    else if (spent) say("note", `the retry budget was spent within the last minute, and has ${tokens(left)} tokens again`);
  }
  if (one.degraded) found.push({ grade: "warn", text: "a local rule answers, because the fleet's state is out of reach", degraded: true });
  if (one.cool_down_ms > 0) say("note", `cooling down for ${duration(Math.ceil(one.cool_down_ms / 100) * 100)} more, as the server asked`);
  const { retries, giveUps } = memory.rates();
  if (found.length === 0 && giveUps >= 1 && giveUps > retries) say("note", `${percent(giveUps / (retries + giveUps))} of the failed attempts are given up`);
  return found.sort((a, b) => grades.indexOf(a.grade) - grades.indexOf(b.grade));
}

export const gradeOf = (found) => found.length ? found[0].grade : "good";

// all lists what is wrong, a line for each part of the replica and for each dependency.
export function all(live) {
  const found = [], away = live.snapshot.status.store.state !== "ok";
  for (const each of live.snapshot.components) {
    if (each.state !== "ok") found.push({ grade: each.name === "replicas" ? "warn" : "bad", about: each.name, link: to("replicas"), text: each.means });
  }
  for (const [name, memory] of live.dependencies) {
    const its = troubles(memory).filter((each) => !away || !each.degraded); // the store's own line has said it
    if (its.length) found.push({ grade: gradeOf(its), about: name, link: to("dependency", name), text: its.map((each) => each.text).join("; ") });
  }
  return found.sort((a, b) => grades.indexOf(a.grade) - grades.indexOf(b.grade));
}
