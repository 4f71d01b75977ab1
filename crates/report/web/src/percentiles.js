// Latency by percentile, on an axis of one answer in how many.

import { chart, empty, point, scale } from "./chart.js";
import { amount, span, spanAxis } from "./number.js";
import { mix } from "./theme.js";

const most = 6;

function percentile(x) {
  if (x <= 1) return "min";
  const q = 100 - 100 / x;
  const decimals = x > 100 ? Math.ceil(Math.log10(x)) - 2 : 0;
  return `p${+q.toFixed(decimals)}`;
}

/** The percentiles that people speak of, as many as fit. */
function splits(max, most) {
  const nines = [1, 10];
  for (let x = 100; x <= max * 1.001; x *= 10) nines.push(x);
  const more = [...nines, 2, 4, 20].sort((a, b) => a - b);
  const some = [...nines, 2].sort((a, b) => a - b);
  return [more, some, nines].find((list) => list.length + 1 <= most) ?? nines.filter((_, i) => i % 2 === 1);
}

/** The chosen step, the first, the last, and some between them. */
function pickSteps(data, chosen) {
  const usable = data.steps.map((step, index) => ({ step, index })).filter(({ step }) => step.curves.some((c) => c.kind === "latency"));
  if (usable.length <= most) return usable;
  const picked = new Set([usable.find(({ index }) => index === chosen) ?? usable[0]]);
  for (let k = 0; picked.size < most && k < most; k++) picked.add(usable[Math.round((k * (usable.length - 1)) / (most - 1))]);
  return usable.filter((one) => picked.has(one));
}

export function drawPercentiles(data, theme, chosen) {
  const figure = document.querySelector('[data-chart="percentiles"]');
  if (!figure) return;
  const what = figure.querySelector(".sub");
  const one = data.steps.length === 1;
  let lines;
  if (one) {
    const styles = {
      latency: { colour: theme.ink, width: 2 },
      service: { colour: theme.server, width: 1.5, dash: [7, 4] },
      "first byte": { colour: theme.link, width: 1.5, dash: [2, 3] },
      "worker late": { colour: theme.client, width: 1.5, dash: [9, 3, 2, 3] },
    };
    lines = data.steps[0].curves.map((curve) => ({ name: curve.kind, curve, ...styles[curve.kind] }));
    what.textContent = lines.length > 1 ? "on each clock" : "";
  } else {
    const picked = pickSteps(data, chosen);
    lines = picked.map(({ step, index }, i) => ({
      name: stepName(data, step),
      curve: step.curves.find((c) => c.kind === "latency"),
      colour: index === chosen ? theme.ink : setting(theme, step) ?? tone(theme, i, picked.length, 0.2),
      label: index === chosen ? theme.ink : setting(theme, step) ?? tone(theme, i, picked.length, 0.65),
      width: index === chosen ? 2.5 : 1.5,
    }));
    what.textContent = picked.length < data.steps.length ? `of ${picked.length} of ${data.steps.length} steps` : "of each step";
  }
  const longest = Math.max(0, ...lines.map(({ curve }) => curve.ns.length));
  if (!longest) return empty(figure, "not known");
  const xs = data.grid.slice(0, longest);
  const columns = lines.map(({ curve }) => xs.map((_, i) => curve.ns[i] ?? null));
  const values = columns.flat().filter((v) => v != null && v > 0);
  if (!values.length) return empty(figure, "not known");
  const log = Math.max(...values) / Math.min(...values) >= 20;
  chart(figure, theme, {
    x: { log: true, min: 1, max: Math.max(10, xs[longest - 1]) },
    xSplits: (u, room) => splits(u.scales.x.max, room),
    y: scale(values, { log }),
    xAxis: percentile,
    yAxis: spanAxis,
    data: [xs, ...columns],
    series: lines.map(({ colour, width, dash, curve }) => ({
      stroke: colour,
      width,
      dash,
      spanGaps: true,
      points: curve.sparse ? point(colour, theme.paper) : { show: false },
    })),
    labels: lines.map(({ name, colour, label }, i) => ({ series: i + 1, text: name, colour: label ?? colour })),
    readout: (index) => {
      if (index == null) return "";
      const shown = lines.map(({ name }, i) => [name, columns[i][index]]).filter(([, ns]) => ns != null);
      const some = shown.length > 3 && !one ? [shown[0], shown[shown.length - 1]] : shown;
      return `${percentile(xs[index])}: ${some.map(([name, ns]) => `${name} ${span(ns)}`).join(", ")}`;
    },
  });
}

/** From little load, pale, to much: the labels say which. */
function tone(theme, index, count, palest) {
  return mix(theme.strong, theme.server, count > 1 ? palest + ((1 - palest) * index) / (count - 1) : 1);
}

/** Two settings in turn have a colour each; the labels say which is which. */
function setting(theme, step) {
  return step.round == null ? null : [theme.client, theme.server][step.group];
}

function stepName(data, step) {
  if (step.round != null) return `${data.groups[step.group]} ${step.round}`;
  const unit = data.axis === "rate" ? "/s" : " in flight";
  const place = step.x == null ? step.name : `${amount(step.x)}${unit}`;
  return data.groups.length > 1 ? `${data.groups[step.group].slice(0, 12)} ${amount(step.x)}` : place;
}
