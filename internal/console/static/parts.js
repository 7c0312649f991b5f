// The small parts that several views draw.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { curl, keyed } from "./ask.js";
import { clock, count, duration, rate, reasons, retryReasons, protective, spaced, tokens, zone } from "./words.js";
import { to } from "./place.js";

export const Chip = ({ kind, children, title }) => html`<span class=${`chip ${kind || ""}`} title=${title}>${children}</span>`;

export const Decision = ({ decision }) =>
  html`<${Chip} kind=${decision === "retry" ? "retry" : "give-up"}>${decision === "retry" ? "↻ retry" : "✕ give up"}<//>`;

export const Reason = ({ reason }) =>
  html`<span class=${`reason ${retryReasons.has(reason) ? "" : protective.has(reason) ? "protective" : "plain"}`} title=${reasons[reason]}>${spaced(reason)}</span>`;

export const Breaker = ({ state }) => {
  const [kind, sign] = { open: ["bad", "● "], half_open: ["warn", "◐ "], closed: ["good", "○ "], off: ["off", ""] }[state] || ["off", ""];
  return html`<${Chip} kind=${kind}>${sign}${spaced(state)}<//>`;
};

// Tokens is the live budget: a meter for the eye, the numbers for everybody.
export const Tokens = ({ budget, name, large }) => {
  if (!budget) return html`<span class="faint">no budget</span>`;
  const { capacity, source } = budget, left = Math.min(budget.tokens, capacity);
  return html`<span class=${`tokens ${large ? "large" : ""}`}>
    <meter min="0" max=${capacity} low=${capacity * 0.25} high=${capacity * 0.5} optimum=${capacity} value=${left} aria-label=${`budget of ${name}`}
      title=${`${left} of ${capacity} tokens, ${source}`}>${tokens(left)} of ${tokens(capacity)}</meter>
    <span class="num">${tokens(left)}<span class="faint"> / ${tokens(capacity)}</span></span>
    ${source === "local" ? html`<${Chip} kind="warn" title="This replica's share, while the store is out of reach.">local<//>` : null}
  </span>`;
};

export const Override = ({ override, short }) => {
  if (!override) return null;
  const text = `${override.mode === "pause" ? "paused" : "allowed"} · ${duration(Math.ceil(override.expires_in_ms / 1000) * 1000)} left`;
  const title = `${override.reason || "no reason given"}${override.author ? `, by ${override.author}` : ""}${override.since ? ` at ${clock(override.since)}` : ""}`;
  return html`<${Chip} kind=${override.mode === "pause" ? "bad" : "warn"} title=${title}>${text}<//>${short ? null : html` <span>${title}</span>`}`;
};

// Spark is two minutes at a glance: give-ups stand on retries.
export const Spark = ({ series, name }) => {
  const { retries, giveUps } = series, n = retries.length;
  const most = Math.max(1, ...retries.map((each, i) => each + giveUps[i]));
  const height = 26, y = (value) => (height - value / most * (height - 1)).toFixed(1);
  const area = (below, above) => {
    let up = "", down = "";
    for (let i = 0; i < n; i++) {
      up += `${i ? "L" : "M"}${i} ${y(above(i))}`;
      down = `L${i} ${y(below(i))}${down}`;
    }
    return `${up}${down}Z`;
  };
  const asked = retries.reduce((a, b) => a + b, 0), gaveUp = giveUps.reduce((a, b) => a + b, 0);
  return html`<span class="sparkline"><svg class="spark" viewBox=${`0 0 ${n - 1} ${height}`} preserveAspectRatio="none" role="img"
    aria-label=${`${name}, the last two minutes: ${asked} retries and ${gaveUp} give-ups, at most ${most} a second`}>
    <path class="retries" d=${area(() => 0, (i) => retries[i])} /><path class="give-ups" d=${area((i) => retries[i], (i) => retries[i] + giveUps[i])} />
  </svg><span class="num faint" title="the busiest second" aria-hidden="true">${asked + gaveUp ? `${count(most)}/s` : ""}</span></span>`;
};

export const Rates = ({ rates }) => html`<td class="num">${rates.retries ? html`<span class="is-retry">${rate(rates.retries)}</span>` : html`<span class="faint">0</span>`}</td>
  <td class="num">${rates.giveUps ? html`<span class="is-give-up">${rate(rates.giveUps)}</span>` : html`<span class="faint">0</span>`}</td>`;

// Copy copies a text. Where the browser keeps the clipboard from pages that did
// not come over TLS, the old way serves.
export const Copy = ({ text, children }) => {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("copied");
    } catch {
      say(selectAndCopy(text) ? "copied" : "not copied");
    }
    setTimeout(() => say(""), 2000);
  };
  return html`<button type="button" class="quiet" onClick=${copy}>${children || "copy"}</button><span role="status" class="said">${said}</span>`;
};

// CopyCurl copies a call, as the server would answer it.
export const CopyCurl = ({ method, path, body }) => {
  const [withKey, setWithKey] = useState(false);
  useEffect(() => { keyed().then(setWithKey); }, []);
  return html`<${Copy} text=${curl(method, path, body, withKey)}>copy as curl<//>`;
};

function selectAndCopy(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "off-screen";
  document.body.append(area);
  area.select();
  const ok = document.execCommand("copy");
  area.remove();
  return ok;
}

// Typed is a text box whose value is taken at Enter, or when it is left. What is
// typed until then is its own: the page is drawn anew each second.
export const Typed = ({ value, take, ...more }) => {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  return html`<input ...${more} value=${draft} autocomplete="off" onInput=${(event) => setDraft(event.target.value)} onChange=${(event) => take(event.target.value.trim())} />`;
};

// Why is the reason and the sentence, without what the row says already.
export const Why = ({ decision }) => {
  const said = decision.message.replace(/^Give up: /, "").replace(/^Retry in \d+ ms as /, "");
  return html`<${Reason} reason=${decision.reason} /> <span class="message" title=${decision.message}>${said}</span>`;
};

// DecisionTable lists decisions as they are told, the newest first.
export const DecisionTable = ({ decisions, caption, brief, now }) => html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table class="decisions">
  <caption class="off-screen">${caption}</caption>
  <thead><tr><th scope="col">time</th>${brief === "dependency" ? null : html`<th scope="col">dependency</th>`}<th scope="col">caller</th><th scope="col">attempt</th>
    <th scope="col">decision</th><th scope="col" class="num">delay</th><th scope="col">why</th><th scope="col"><span class="off-screen">explain</span></th></tr></thead>
  <tbody>${decisions.map((d) => html`<tr key=${d.key}>
    <td class="time" title=${d.at}>${clock(d.at, true)}</td>
    ${brief === "dependency" ? null : html`<td class="name"><a href=${to("dependency", d.dependency)}>${d.dependency}</a></td>`}
    <td class="nowrap">${d.caller || html`<span class="faint">unnamed</span>`}</td>
    <td class="nowrap"><code>${d.method} ${d.failure}</code> <span class="faint">#${d.attempt}</span></td>
    <td class="nowrap"><${Decision} decision=${d.decision} />${d.degraded ? html` <${Chip} kind="warn" title="A local rule answered.">degraded<//>` : null}</td>
    <td class="num">${d.decision === "retry" ? duration(d.delay_ms) : ""}</td>
    <td class="why"><${Why} decision=${d} /></td>
    <td><a href=${to("explain", "", explainQuery(d))} aria-label=${`explain the decision of ${clock(d.at)}`}>explain</a></td>
  </tr>`)}</tbody>
</table>${decisions.length ? null : html`<p class="empty">Nothing yet.</p>`}</div>`;

// explainQuery fills the explain form from a decision.
export function explainQuery(d) {
  const ending = /^\d+$/.test(d.failure) ? "status" : /^[A-Z_]+$/.test(d.failure) ? "grpc_status" : "outcome";
  return { dependency: d.dependency, method: d.method, [ending]: d.failure, attempt: d.attempt > 1 ? d.attempt : "", caller: d.caller };
}

// color is a colour of the style sheet as a canvas can use it.
function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const faded = (rgb, alpha) => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

// Chart is uPlot over the last two minutes; lines are {label, color, fill, values},
// and shown(data, i) where the legend says something else than the line's height.
export const Chart = ({ label, seconds, lines, top, unit }) => {
  const box = useRef(null), plot = useRef(null), scheme = useRef(""), least = useRef(1);
  least.current = top || 1;
  const data = [seconds, ...lines.map((line) => line.values)];
  useEffect(() => {
    const theme = getComputedStyle(document.documentElement).colorScheme + matchMedia("(prefers-color-scheme: dark)").matches + zone.utc;
    if (plot.current && scheme.current === theme) {
      plot.current.setData(data);
      return;
    }
    if (plot.current) plot.current.destroy();
    scheme.current = theme;
    plot.current = new uPlot(options(box.current, lines, least, unit || ""), data, box.current);
  });
  useEffect(() => {
    const watch = new ResizeObserver(() => { if (plot.current) plot.current.setSize({ width: box.current.clientWidth, height: chartHeight }); });
    watch.observe(box.current);
    return () => { watch.disconnect(); if (plot.current) plot.current.destroy(); plot.current = null; };
  }, []);
  return html`<div class="chart" role="img" aria-label=${label} ref=${box}></div>`;
};

const chartHeight = 150;

function options(box, lines, least, unit) {
  const axis = { stroke: color("faint"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), width: 1, size: 4 }, font: "11px system-ui" };
  const last = (u, i) => i === null || i === undefined ? u.data[0].length - 1 : i; // without a cursor, what is now
  return {
    width: box.clientWidth, height: chartHeight, padding: [8, 28, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { size: 5 } },
    scales: { y: { range: (_, __, most) => [0, Math.max(least.current, most * 1.08)] } },
    axes: [
      { ...axis, size: 26, values: (_, ticks) => ticks.map((tick) => clock(tick * 1000)), space: 90 },
      { ...axis, size: 44, space: 28, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) },
    ],
    series: [
      { label: "at", value: (u, _, __, i) => clock(u.data[0][last(u, i)] * 1000) },
      ...lines.map((line, n) => ({
        label: line.label, stroke: color(line.color), width: 1.5, fill: line.fill ? faded(color(line.color), line.fill) : undefined, points: { show: false }, spanGaps: true,
        value: (u, _, __, i) => {
          const at = last(u, i), value = line.shown ? line.shown(u.data, at) : u.data[n + 1][at];
          return value === null || value === undefined ? "–" : `${rate(value)}${unit}`;
        },
      })),
    ],
  };
}

// DecisionsChart draws give-ups on top of retries.
export const DecisionsChart = ({ label, series }) => html`<${Chart} label=${label} seconds=${series.seconds} unit="/s" lines=${[
  { label: "give up", color: "give-up", fill: 0.55, values: series.retries.map((n, i) => n + series.giveUps[i]), shown: (data, i) => data[1][i] - data[2][i] },
  { label: "retry", color: "retry", fill: 0.75, values: series.retries },
]} />`;
