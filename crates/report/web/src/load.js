// Throughput, latency and utilisation against load; a click takes the step.

import { chart, empty, point, scale } from "./chart.js";
import { amount, axis, share, span, spanAxis } from "./number.js";

const dashes = [[], [6, 3], [2, 3], [8, 3, 2, 3]];

/** Steps that have a place on the load axis, in its order. */
function ordered(data) {
  return data.steps
    .map((step, index) => ({ ...step, index }))
    .filter((step) => step.x != null && step.x > 0)
    .sort((a, b) => a.x - b.x);
}

function loadScale(steps) {
  const xs = steps.map((step) => step.x);
  const wide = Math.max(...xs) / Math.min(...xs) >= 12;
  const s = scale(xs, { log: wide, zero: !wide });
  return s;
}

/** Columns over one shared axis: a line for each group and measure. */
function columns(steps, lines) {
  const xs = steps.map((step) => step.x);
  return [xs, ...lines.map(({ group, take }) => steps.map((step) => (group == null || step.group === group ? take(step) ?? null : null)))];
}

export function drawLoad(data, theme, pick) {
  const find = (name) => document.querySelector(`[data-chart="${name}"]`);
  if (!find("throughput")) return;
  const steps = ordered(data);
  const figures = ["throughput", "latency", "utilisation"].map(find).filter(Boolean);
  if (steps.length < 2) {
    figures.forEach((figure) => (figure.hidden = true));
    return;
  }
  const context = { data, theme, steps, x: loadScale(steps), pick: (index) => pick(steps[index].index) };
  context.where = data.axis === "rate" ? (x) => `${amount(x)}/s` : (x) => `${amount(x)} in flight`;
  drawThroughput(find("throughput"), context);
  drawLatency(find("latency"), context);
  if (find("utilisation")) drawUtilisation(find("utilisation"), context);
}

function base({ x, pick }) {
  return { x, xAxis: axis, sync: "load", pick };
}

/** One colour for a group alone; several are told apart by tone, dash and label. */
function groupStyle(theme, group, groups) {
  if (groups === 1) return { colour: theme.ink, dash: [] };
  const colours = [theme.server, theme.client, theme.link, theme.ink];
  return { colour: colours[group % 4], dash: dashes[Math.floor(group / 4) % 4] };
}

function drawThroughput(figure, context) {
  const { data, theme, steps, where } = context;
  const groups = data.groups.length;
  const lines = data.groups.map((name, group) => ({ name, group, take: (step) => step.throughput }));
  const table = columns(steps, lines);
  const reached = Math.max(...table.slice(1).flat().filter((v) => v != null), 0);
  const y = scale([reached], { top: 1.3 });
  const near = groups === 1 ? data.ceilings.filter((c) => c.value <= reached * 3.2) : [];
  const highest = Math.max(0, ...near.map((c) => c.value));
  if (highest > 0) y.max = Math.max(reached * 1.2, highest * 1.12);
  const asked = data.axis === "rate";
  const series = lines.map(({ group }) => {
    const { colour, dash } = groupStyle(theme, group, groups);
    return { stroke: colour, width: 2, dash, spanGaps: true, points: point(colour, theme.paper, steps.length > 15 ? 4 : 6) };
  });
  if (asked) {
    table.push(steps.map((step) => step.x));
    series.push({ stroke: theme.ink3, width: 1, dash: [2, 3], points: { show: false } });
  }
  const labels = groups > 1 ? lines.map(({ name, group }) => ({ series: group + 1, text: clip(name), colour: groupStyle(theme, group, groups).colour })) : [];
  if (asked) labels.push({ series: series.length, text: "asked for", colour: theme.ink3 });
  chart(figure, theme, {
    ...base(context),
    y,
    yAxis: axis,
    data: table,
    series,
    labels,
    knee: data.knee,
    levels: near.map((c) => ({ value: c.value, text: `${c.name} full`, colour: theme[c.kind] ?? theme.ink3 })),
    readout: (index) => (index == null ? "" : `${where(steps[index].x)}: ${amount(steps[index].throughput)}/s`),
  });
}

function clip(text) {
  return text.length > 16 ? `${text.slice(0, 15)}…` : text;
}

function drawLatency(figure, context) {
  const { data, theme, steps, where } = context;
  const groups = data.groups.length;
  let lines;
  let series;
  let labels;
  if (groups === 1) {
    lines = [{ take: (s) => s.p50 }, { take: (s) => s.p99 }, { take: (s) => s.n_over_x }];
    const size = steps.length > 15 ? 4 : 6;
    series = [
      { stroke: theme.ink, width: 2, spanGaps: true, points: { show: false } },
      { stroke: theme.ink, width: 1.5, dash: [6, 4], spanGaps: true, points: { show: false } },
      { stroke: theme.ink3, width: 0, spanGaps: false, points: point(theme.ink2, theme.paper, size) },
    ];
    labels = [
      { series: 1, text: "p50", colour: theme.ink },
      { series: 2, text: "p99", colour: theme.ink },
      { series: 3, text: "N/X ○", colour: theme.ink2 },
    ];
  } else {
    lines = data.groups.map((name, group) => ({ name, group, take: (s) => s.p99 }));
    series = lines.map(({ group }) => {
      const { colour, dash } = groupStyle(theme, group, groups);
      return { stroke: colour, width: 2, dash, spanGaps: true, points: point(colour, theme.paper) };
    });
    labels = lines.map(({ name, group }) => ({ series: group + 1, text: clip(name), colour: groupStyle(theme, group, groups).colour }));
  }
  const table = columns(steps, lines);
  const values = table.slice(1).flat().filter((v) => v != null && v > 0);
  if (!values.length) return empty(figure, "not known");
  labels = labels.filter(({ series }) => table[series].some((v) => v != null));
  const log = Math.max(...values) / Math.min(...values) >= 20;
  chart(figure, theme, {
    ...base(context),
    y: scale(values, { log }),
    yAxis: spanAxis,
    data: table,
    series,
    labels,
    readout: (index) => {
      if (index == null) return groups > 1 ? "p99" : "";
      const step = steps[index];
      return groups > 1
        ? `${where(step.x)}: p99 ${span(step.p99)}`
        : `${where(step.x)}: p50 ${span(step.p50)}, p99 ${span(step.p99)}, N/X ${span(step.n_over_x)}`;
    },
  });
}

function drawUtilisation(figure, context) {
  const { theme, steps, where } = context;
  const lines = [
    { name: "server", colour: theme.server, width: 2, take: (s) => s.server },
    { name: "its max core", colour: theme.server, width: 1, dash: [2, 3], take: (s) => s.server_core },
    { name: "client", colour: theme.client, width: 2, dash: [8, 3], take: (s) => s.client },
    { name: "link", colour: theme.link, width: 2, dash: [3, 2], take: (s) => s.link },
  ];
  // The busiest core says something only where it is not the server's mean.
  const differs = steps.some((s) => s.server != null && s.server_core != null && s.server_core - s.server > 0.06);
  const shown = lines.filter(({ name, take }) => (name !== "its max core" || differs) && steps.some((step) => take(step) != null));
  if (!shown.length) return empty(figure, "not known");
  chart(figure, theme, {
    ...base(context),
    y: { min: 0, max: 1.04 },
    yAxis: share,
    data: columns(steps, shown),
    series: shown.map(({ colour, width, dash }) => ({ stroke: colour, width, dash, spanGaps: true, points: { show: false } })),
    labels: shown.map(({ name, colour }, i) => ({ series: i + 1, text: name, colour })),
    readout: (index) =>
      index == null ? "" : `${where(steps[index].x)}: ${shown.map(({ name, take }) => `${name} ${share(take(steps[index]))}`).join(", ")}`,
  });
}
