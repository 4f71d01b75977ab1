// One step over time: throughput, latency, each processor, the link.

import { chart, drop, empty, scale } from "./chart.js";
import { drawHeat } from "./heat.js";
import { amount, axis, bits, share, span, spanAxis } from "./number.js";
import { mix } from "./theme.js";

/** Processors that get a plot of their own; more become one picture. */
const plotted = 8;

const seconds = (value) => `${+value.toFixed(1)} s`;

export function drawTime(data, theme, chosen) {
  const step = data.steps[chosen];
  if (!step) return;
  const ends = [...(step.time?.at ?? []), ...(step.telemetry?.at ?? [])];
  const x = { min: 0, max: Math.max(0.1, ...ends) };
  const context = { theme, x, xAxis: seconds, sync: "time", shadeUntil: step.time?.warmup ?? 0 };
  drawIntervals(step, context);
  drawTelemetry(step, context);
}

/** What the charts share; where they stand below each other, their margins too. */
function common({ x, xAxis, sync, shadeUntil }) {
  const column = innerWidth < 720 ? { left: 64, right: 62 } : {};
  return { x, xAxis, sync, shadeUntil, ...column };
}

function drawIntervals(step, context) {
  const { theme } = context;
  const throughput = document.querySelector('[data-chart="time-throughput"]');
  const latency = document.querySelector('[data-chart="time-latency"]');
  if (!throughput) return;
  for (const figure of [throughput, latency]) figure.querySelector(".plot").hidden = false;
  const time = step.time;
  if (!time) {
    empty(throughput, "not recorded for this step");
    empty(latency, "not recorded for this step");
    return;
  }
  const failures = time.failed.some((count) => count > 0);
  const spans = time.at.map((at, i) => at - (i ? time.at[i - 1] : 0));
  const failed = time.failed.map((count, i) => (spans[i] > 0 ? count / spans[i] : null));
  chart(throughput, theme, {
    ...common(context),
    y: scale([...time.throughput, ...(failures ? failed : [])], { top: 1.15 }),
    yAxis: axis,
    data: [time.at, time.throughput, ...(failures ? [failed] : [])],
    series: [
      { stroke: theme.ink, width: 1.5, points: { show: false } },
      ...(failures ? [{ stroke: theme.client, width: 1.5, dash: [3, 3], points: { show: false } }] : []),
    ],
    labels: failures
      ? [
          { series: 1, text: "answered", colour: theme.ink },
          { series: 2, text: "failed", colour: theme.client },
        ]
      : [],
    readout: (i) =>
      i == null
        ? time.warmup > 0 ? "shaded: warm-up" : ""
        : `${seconds(time.at[i])}: ${amount(time.throughput[i])}/s${time.failed[i] ? `, ${amount(time.failed[i])} failed` : ""}, ${amount(time.in_flight[i])} in flight`,
  });
  const values = [...time.p50, ...time.p99].filter((v) => v != null && v > 0);
  if (!values.length) return empty(latency, "not recorded for this step");
  const log = Math.max(...values) / Math.min(...values) >= 30;
  chart(latency, theme, {
    ...common(context),
    y: scale(values, { log }),
    yAxis: spanAxis,
    data: [time.at, time.p50, time.p99],
    series: [
      { stroke: theme.ink, width: 1.5, points: { show: false } },
      { stroke: theme.ink2, width: 1.25, dash: [5, 3], points: { show: false } },
    ],
    labels: [
      { series: 1, text: "p50", colour: theme.ink },
      { series: 2, text: "p99", colour: theme.ink2 },
    ],
    readout: (i) => (i == null ? "" : `${seconds(time.at[i])}: p50 ${span(time.p50[i])}, p99 ${span(time.p99[i])}`),
  });
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text != null) made.textContent = text;
  return made;
}

/** A figure like those of the template. */
function figure(title, more, label, size) {
  const made = element("figure");
  const caption = element("figcaption");
  caption.append(element("b", "", title), element("span", "sub", more), element("span", "readout"));
  const plot = element("div", `plot ${size}`);
  plot.setAttribute("role", "img");
  plot.setAttribute("tabindex", "0");
  plot.setAttribute("aria-label", label);
  made.append(caption, plot);
  return made;
}

function drawTelemetry(step, context) {
  const place = document.querySelector('[data-charts="cores"]');
  if (!place) return;
  for (const old of place.children) drop(old);
  const series = step.telemetry;
  if (!series) {
    place.replaceChildren(element("p", "note", "Processors and link over time were not recorded for this step."));
    return;
  }
  const { cores } = series;
  const figures = [];
  if (cores.length <= plotted) {
    for (const core of cores) figures.push([coreFigure(core), (made) => drawCore(made, core, series, context)]);
  } else {
    const more = series.cores_more ? ` the busiest ${cores.length} of ${cores.length + series.cores_more}` : "";
    const made = figure("CPU by core", `busy share${more}`, "Busy share of each processor over time", "tall");
    figures.push([made, (made) => drawHeat(made, series, context)]);
  }
  if (series.down.some((v) => v != null)) {
    const made = figure("Link", "as the server sees it", "Bits per second on the link over time", cores.length <= plotted ? "low" : "");
    figures.push([made, (made) => drawLink(made, series, context)]);
  }
  place.replaceChildren(...figures.map(([made]) => made));
  for (const [made, draw] of figures) draw(made);
}

const sides = { server: "server", client: "client", both: "server and client", "": "" };

function coreFigure(core) {
  const side = sides[core.side];
  return figure(`CPU ${core.cpu}`, side ? `of the ${side}` : "", `How processor ${core.cpu}${side ? ` (${side})` : ""} spent its time`, "low");
}

/** User, kernel, interrupts and steal, one upon the other. */
function drawCore(made, core, series, { theme, ...context }) {
  const hue = core.side === "server" ? theme.server : core.side === "client" ? theme.client : theme.neutral;
  const layers = [
    { name: "user", values: core.usr, fill: mix(theme.paper, hue, 0.3) },
    { name: "kernel", values: core.sys, fill: mix(theme.paper, hue, 0.55) },
    { name: "softirq", values: core.softirq, fill: mix(theme.paper, hue, 0.85) },
    { name: "steal", values: core.steal, fill: theme.ink },
  ].filter(({ name, values }) => name !== "steal" || Math.max(...values) > 0.02);
  const sums = [];
  let below = series.at.map(() => 0);
  for (const { values } of layers) {
    below = below.map((sum, i) => sum + values[i]);
    sums.push(below);
  }
  const labels = layers
    .map(({ name, values }, i) => ({ name, i, mean: average(values) }))
    .filter(({ mean }) => mean > 0.01);
  chart(made, theme, {
    ...common(context),
    y: { min: 0, max: 1 },
    yAxis: share,
    data: [series.at, ...sums],
    series: layers.map((_, i) => ({ stroke: i === layers.length - 1 ? hue : theme.paper, width: 1, points: { show: false }, ...(i === 0 ? { fill: layers[0].fill } : {}) })),
    bands: layers.slice(1).map(({ fill }, i) => ({ series: [i + 2, i + 1], fill })),
    // A label stands where the middle of its layer is on average.
    labels: labels.map(({ name, i, mean }) => ({ value: average(sums[i]) - mean / 2, text: name, colour: theme.ink2 })),
    points: { show: false },
    readout: (i) =>
      i == null ? "" : `${seconds(series.at[i])}: ${layers.map(({ name, values }) => `${name} ${share(values[i])}`).join(", ")}`,
  });
}

function average(values) {
  return values.reduce((a, b) => a + b, 0) / Math.max(values.length, 1);
}

function drawLink(made, series, { theme, ...context }) {
  const rate = series.rate_bits;
  const values = [...series.down, ...series.up].filter((v) => v != null);
  const top = Math.max(1, ...values);
  const y = scale([top], { top: 1.3, ceil: rate && rate < top * 4 ? rate : undefined });
  // Loopback counts every packet as sent and as received.
  const same = series.down.every((value, i) => value === series.up[i]);
  const lines = [
    { values: series.down, name: same ? "each way" : "down", width: 1.75 },
    ...(same ? [] : [{ values: series.up, name: "up", width: 1.25, dash: [4, 3] }]),
  ];
  chart(made, theme, {
    ...common(context),
    y,
    yAxis: bits,
    data: [series.at, ...lines.map(({ values }) => values)],
    series: lines.map(({ width, dash }) => ({ stroke: theme.link, width, dash, points: { show: false } })),
    labels: lines.map(({ name }, i) => ({ series: i + 1, text: name, colour: theme.link })),
    levels: rate && rate <= y.max ? [{ value: rate, text: `its rate, ${bits(rate)}`, colour: theme.ink3 }] : [],
    readout: (i) => (i == null ? "" : `${seconds(series.at[i])}: ${lines.map(({ name, values }) => `${bits(values[i])} ${name}`).join(", ")}`),
  });
}
