// A uPlot with the page's manners: hairlines, labels beside their lines, a readout in the
// caption, arrow keys, and a size that follows its box. Text reaches the page as text only.

import uPlot from "uplot";

const fontSize = 12;

/** Round numbers from `min` to `max`: at most about `most` of them. */
export function linearSplits(min, max, most) {
  const raw = (max - min) / Math.max(most, 1);
  if (!(raw > 0)) return [min];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const splits = [];
  for (let k = Math.ceil(min / step - 1e-9); k * step <= max * (1 + 1e-9); k++) splits.push(+(k * step).toPrecision(12));
  return splits;
}

/** 1, 2, 5, 10 ... or 1, 10, 100 ... from `min` to `max`. */
function logSplits(min, max, most) {
  const decades = [];
  for (let e = Math.floor(Math.log10(min)); 10 ** e <= max; e++) decades.push(10 ** e);
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const splits = decades.flatMap((d) => digits.map((m) => +(d * m).toPrecision(12))).filter((v) => v >= min * 0.999 && v <= max * 1.001);
    if (splits.length <= most) return splits;
  }
  const every = Math.ceil(decades.length / Math.max(most, 1));
  return decades.filter((v, i) => v >= min * 0.999 && i % every === 0);
}

/** A scale over finite values: from zero, or logarithmic. */
export function scale(values, { log = false, zero = true, top = 1.08, floor, ceil } = {}) {
  const known = values.filter((v) => v != null && Number.isFinite(v) && (!log || v > 0));
  let low = known.length ? Math.min(...known) : log ? 1 : 0;
  let high = known.length ? Math.max(...known) : 1;
  if (ceil != null) high = Math.max(high, ceil);
  if (log) {
    if (floor != null) low = Math.min(low, floor);
    if (low === high) [low, high] = [low / 2, high * 2];
    const pad = (high / low) ** 0.04;
    return { log, min: floor != null ? low : low / pad, max: high * (top === 1 ? 1 : pad) };
  }
  if (zero) low = Math.min(0, low);
  if (low === high) high = low + 1;
  return { log, min: low, max: low + (high - low) * top };
}

/** The most values that `Math.min` and `Math.max` may be spread over stay small here. */
export function flat(lists) {
  return lists.flatMap((list) => list ?? []);
}

/** Places at least `gap` apart, each as near to its wish as the others allow. */
function apart(wishes, gap, low, high) {
  const order = wishes.map((wish, index) => ({ wish, index })).sort((a, b) => a.wish - b.wish);
  let last = -Infinity;
  for (const one of order) {
    one.at = Math.max(one.wish, last + gap, low);
    last = one.at;
  }
  let next = Infinity;
  for (const one of order.reverse()) {
    one.at = Math.min(one.at, next - gap, high);
    next = one.at;
  }
  const places = [];
  for (const one of order) places[one.index] = one.at;
  return places;
}

/** Names at the right end of their lines. */
function drawLabels(u, labels, theme) {
  const ratio = uPlot.pxRatio;
  const { ctx, bbox } = u;
  const shown = [];
  for (const label of labels) {
    const { series, text, value } = label;
    if (series != null) {
      const data = u.data[series];
      const xs = u.data[0];
      let last = data.length - 1;
      while (last >= 0 && (data[last] == null || xs[last] > u.scales.x.max)) last--;
      if (last < 0) continue;
      shown.push({ text, colour: label.colour, y: u.valToPos(data[last], "y", true) });
    } else {
      shown.push({ text, colour: label.colour, y: u.valToPos(value, "y", true) });
    }
  }
  const inside = shown.filter(({ y }) => Number.isFinite(y));
  const gap = (fontSize + 1) * ratio;
  const places = apart(inside.map(({ y }) => y), gap, bbox.top, bbox.top + bbox.height);
  ctx.save();
  ctx.font = `${fontSize * ratio}px ${theme.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  inside.forEach(({ text, colour }, i) => {
    ctx.fillStyle = colour;
    ctx.fillText(text, bbox.left + bbox.width + 7 * ratio, places[i]);
  });
  ctx.restore();
}

/** Lines across the whole plot, such as ceilings, named above their left end. */
function drawLevels(u, levels, theme) {
  const ratio = uPlot.pxRatio;
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 14 * ratio, bbox.width, bbox.height + 14 * ratio);
  ctx.clip();
  ctx.font = `${fontSize * ratio}px ${theme.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  let lastText = Infinity;
  for (const level of [...levels].sort((a, b) => a.value - b.value)) {
    if (level.value > u.scales.y.max) continue;
    const y = u.valToPos(level.value, "y", true);
    ctx.strokeStyle = level.colour;
    ctx.lineWidth = ratio;
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    const text = Math.min(y - 4 * ratio, lastText - (fontSize + 2) * ratio);
    ctx.fillStyle = level.colour;
    ctx.fillText(level.text, bbox.left + 4 * ratio, text);
    lastText = text;
  }
  ctx.restore();
}

/** Where more stops to help. */
function drawKnee(u, knee, theme) {
  if (knee == null || knee < u.scales.x.min || knee > u.scales.x.max) return;
  const ratio = uPlot.pxRatio;
  const { ctx, bbox } = u;
  const x = u.valToPos(knee, "x", true);
  const bottom = bbox.top + bbox.height;
  ctx.save();
  ctx.strokeStyle = theme.ink2;
  ctx.fillStyle = theme.ink2;
  ctx.lineWidth = ratio;
  ctx.beginPath();
  ctx.moveTo(x, bottom);
  ctx.lineTo(x, bottom - 16 * ratio);
  ctx.stroke();
  ctx.font = `${fontSize * ratio}px ${theme.font}`;
  ctx.textBaseline = "alphabetic";
  const left = x > bbox.left + bbox.width * 0.8;
  ctx.textAlign = left ? "right" : "left";
  ctx.fillText("knee", x + (left ? -5 : 5) * ratio, bottom - 6 * ratio);
  ctx.restore();
}

function drawShade(u, until, theme) {
  const { ctx, bbox } = u;
  const right = Math.min(u.valToPos(until, "x", true), bbox.left + bbox.width);
  if (right <= bbox.left) return;
  ctx.save();
  ctx.fillStyle = theme.shade;
  ctx.fillRect(bbox.left, bbox.top, right - bbox.left, bbox.height);
  ctx.restore();
}

function textWidth(texts, theme) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `${fontSize}px ${theme.font}`;
  return Math.max(0, ...texts.map((text) => context.measureText(text).width));
}

const live = new Map();

/**
 * Draws into `figure .plot`.
 *   x, y       scales of `scale()`
 *   xAxis, yAxis  value to text
 *   data       [xs, ys, ...]
 *   series     uPlot series without the first
 *   labels     [{ series, text, colour }] beside the right ends
 *   levels     [{ value, text, colour }] across
 *   knee       x of the knee, marked on the axis
 *   shadeUntil x up to which the plot is shaded
 *   readout    index of the point under the cursor to text; null to the resting text
 *   sync       key of charts whose cursors move together
 *   xSplits    places of the horizontal axis's labels, where they are not round numbers
 *   left, right   room beside the plot, where charts below each other are to be in line
 */
export function chart(figure, theme, options) {
  const box = figure.querySelector(".plot");
  const readout = figure.querySelector(".readout");
  drop(figure);
  const { x, y, labels = [], levels = [] } = options;
  const right = options.right ?? (labels.length ? Math.ceil(textWidth(labels.map((l) => l.text), theme)) + 12 : 14);
  const height = box.clientHeight;
  const width = Math.max(box.clientWidth, 120);
  const yMost = Math.max(2, Math.floor(height / 44));
  const xMost = (u) => Math.max(2, Math.floor((u.bbox.width / uPlot.pxRatio) / 58));
  const ySplits = (y.log ? logSplits : linearSplits)(y.min, y.max, y.log ? yMost + 1 : yMost);
  const yText = (v) => options.yAxis(v);
  const axis = {
    stroke: theme.ink2,
    font: `${fontSize}px ${theme.font}`,
    grid: { stroke: theme.rule, width: 1 },
    ticks: { show: false },
    border: { show: false },
    gap: 6,
  };
  const rest = () => (options.readout ? options.readout(null) ?? "" : "");
  const u = new uPlot(
    {
      width,
      height,
      padding: [levels.length ? 12 : 8, right, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, distr: x.log ? 3 : 1, range: [x.min, x.max] },
        y: { distr: y.log ? 3 : 1, range: [y.min, y.max] },
      },
      axes: [
        {
          ...axis,
          grid: { show: false },
          ticks: { show: true, stroke: theme.strong, width: 1, size: 4 },
          border: { show: true, stroke: theme.strong, width: 1 },
          size: 30,
          gap: 3,
          splits: (u) => options.xSplits?.(u, xMost(u)) ?? (x.log ? logSplits : linearSplits)(x.min, x.max, xMost(u)),
          filter: (u, splits) => splits,
          values: (u, splits) => splits.map((v) => options.xAxis(v)),
        },
        {
          ...axis,
          size: Math.max(options.left ?? 0, Math.ceil(textWidth(ySplits.map(yText), theme)) + 8),
          splits: () => ySplits,
          filter: (u, splits) => splits,
          values: (u, splits) => splits.map(yText),
        },
      ],
      series: [{}, ...options.series],
      bands: options.bands,
      cursor: {
        y: false,
        drag: { x: false, y: false, setScale: false },
        points: options.points ?? { size: 7, width: 1.5 },
        sync: options.sync ? { key: options.sync } : undefined,
      },
      hooks: {
        drawClear: options.shadeUntil > x.min ? [(u) => drawShade(u, options.shadeUntil, theme)] : [],
        draw: [(u) => drawKnee(u, options.knee, theme), (u) => drawLevels(u, levels, theme), (u) => drawLabels(u, labels, theme), ...(options.draw ? [options.draw] : [])],
        setCursor: [
          (u) => {
            const index = u.cursor.left >= 0 ? u.cursor.idx : null;
            readout.textContent = index == null ? rest() : options.readout?.(index) ?? "";
            figure.classList.toggle("reading", index != null);
          },
        ],
      },
    },
    options.data,
    box,
  );
  readout.textContent = rest();
  box.onkeydown = (event) => walk(event, u);
  box.onblur = () => u.setCursor({ left: -10, top: -10 });
  if (options.pick) {
    box.style.cursor = "pointer";
    u.over.addEventListener("click", () => u.cursor.idx != null && options.pick(u.cursor.idx));
  }
  live.set(figure, u);
  return u;
}

/** Left and right move the cursor from point to point; escape takes it away. */
function walk(event, u) {
  const xs = u.data[0];
  const now = u.cursor.left >= 0 ? u.cursor.idx : null;
  let index;
  if (event.key === "ArrowRight") index = now == null ? 0 : Math.min(now + 1, xs.length - 1);
  else if (event.key === "ArrowLeft") index = now == null ? xs.length - 1 : Math.max(now - 1, 0);
  else if (event.key === "Home") index = 0;
  else if (event.key === "End") index = xs.length - 1;
  else if (event.key === "Escape") return u.setCursor({ left: -10, top: -10 });
  else return;
  event.preventDefault();
  u.setCursor({ left: u.valToPos(xs[index], "x"), top: u.over.clientHeight / 2 }, true, true);
}

/** Takes a figure's chart away. */
export function drop(figure) {
  live.get(figure)?.destroy();
  live.delete(figure);
}

/** Says that there is nothing to draw. */
export function empty(figure, why) {
  drop(figure);
  const box = figure.querySelector(".plot");
  figure.querySelector(".readout").textContent = why;
  box.replaceChildren();
  box.hidden = true;
}

export const point = (colour, fill, size = 6, show = true) => ({ show, size, width: 1.5, stroke: colour, fill });
