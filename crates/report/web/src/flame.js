// Stacks as a flame graph: a box for each function, as wide as what it has with its callees. Beside
// another's stacks a box is as red as it has more, and as blue as it has less.
// Click or Enter zooms, Escape goes back, arrows walk, a search marks names.

import { mix } from "./theme.js";
import { amount, bytes, share, span } from "./number.js";

const ROW = 19;
const LABEL_MIN = 26;

/** The kinds' own colours: what a box's package is says its tone. */
function tone(theme, name) {
  if (/^(runtime|internal\/runtime|gogo)[./]/.test(name)) return theme.neutral;
  if (/^(syscall|internal\/poll|internal\/syscall|os)\./.test(name)) return theme.link;
  if (/^main\.|^wallfinder\.dev\//.test(name)) return theme.client;
  return theme.server;
}

function shortName(name) {
  const types = name.indexOf("[");
  const slash = name.lastIndexOf("/", types < 0 ? name.length : types);
  return name.slice(slash + 1);
}

/** Nodes in preorder become boxes with their place: `at` and `value` in the profile's unit. */
function boxes(flame) {
  const ends = [];
  const all = [];
  const open = [];
  let root = 0;
  for (const [depth, value, name] of flame.nodes) {
    open.length = depth;
    const parent = open[depth - 1] ?? null;
    const at = depth === 0 ? root : ends[depth];
    const box = { depth, value, name: flame.names[name], at, parent };
    all.push(box);
    open[depth] = box;
    if (depth === 0) root += value;
    ends[depth] = at + value;
    ends[depth + 1] = at;
  }
  return { all, deepest: all.reduce((most, box) => Math.max(most, box.depth), 0) };
}

/** Where a box stands: the names from the root. */
function pathOf(box) {
  const names = [];
  for (let one = box; one; one = one.parent) names.push(one.name);
  return names.reverse().join("\n");
}

/** What the other's stacks have at each path. */
function byPath(flame) {
  const found = new Map();
  for (const one of boxes(flame).all) found.set(pathOf(one), (found.get(pathOf(one)) ?? 0) + one.value);
  return found;
}

export function drawFlames(data, theme) {
  const figure = document.querySelector("figure[data-chart=flame]");
  if (!figure || !data.flames.length) return;
  const [of, beside, measure, shape] = ["of", "beside", "measure", "shape"].map((name) => figure.querySelector(`[name=flame-${name}]`));
  const search = figure.querySelector("[name=flame-search]");
  const draw = () => {
    const flame = data.flames[Number(of.value)] ?? data.flames[0];
    // Only what counts the same can stand beside it.
    for (const option of beside.options) {
      const other = option.value === "" ? null : data.flames[Number(option.value)];
      option.disabled = other !== null && (other === flame || other.unit !== flame.unit);
    }
    if (beside.selectedOptions[0]?.disabled) beside.value = "";
    const other = beside.value === "" ? null : data.flames[Number(beside.value)];
    figure.querySelector(".scale").hidden = !other;
    drawFlame(figure, flame, {
      theme,
      other: other && { ...other, at: byPath(other) },
      perRequest: measure.value === "request",
      up: shape.value === "flame",
      search: search.value.trim().toLowerCase(),
    });
  };
  for (const control of [of, beside, measure, shape]) control.onchange = () => {
    figure.zoomed = null;
    draw();
  };
  search.oninput = draw;
  draw();
}

function drawFlame(figure, flame, options) {
  const { theme, other, perRequest, up, search } = options;
  const box = figure.querySelector(".plot");
  const readout = figure.querySelector(".readout");
  const { all, deepest } = boxes(flame);
  const zoomed = all.find((one) => figure.zoomed && same(one, figure.zoomed)) ?? null;
  const from = zoomed ? zoomed.at : 0;
  const whole = zoomed ? zoomed.value : flame.total;
  const canvas = document.createElement("canvas");
  box.replaceChildren(canvas);
  const ratio = devicePixelRatio || 1;
  const width = box.clientWidth;
  const height = (deepest + 2) * ROW;
  box.style.height = `${height}px`;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.font = `12px ${theme.font}`;
  context.textBaseline = "middle";
  const rowOf = (depth) => (up ? height - (depth + 2) * ROW : (depth + 1) * ROW);
  const isEach = perRequest && flame.answered > 0 && (!other || other.answered > 0);
  const measured = (value, of) => value / (isEach ? of.answered : of.total);
  const inWords = (value) => {
    if (!isEach) return share(value);
    return flame.unit === "nanoseconds" ? span(value) : flame.unit === "bytes" ? bytes(value) : amount(value);
  };
  const words = (value) => inWords(measured(value, flame));
  const otherOf = (one) => measured(one.depth < 0 ? other.total : (other.at.get(pathOf(one)) ?? 0), other);
  /** From -1, where the other has all of it, to 1, where it has none of it. */
  const change = (one) => {
    const [now, then] = [measured(one.value, flame), otherOf(one)];
    return now + then > 0 ? (now - then) / (now + then) : 0;
  };

  const shown = [];
  const place = (one) => {
    const isAbove = zoomed && one.depth < zoomed.depth && one.at <= zoomed.at && one.at + one.value >= zoomed.at + zoomed.value;
    if (isAbove) return { x: 0, w: width, dim: true };
    const x = ((one.at - from) / whole) * width;
    const w = (one.value / whole) * width;
    return { x: Math.max(x, 0), w: Math.min(w, width - Math.max(x, 0)), dim: false };
  };
  const paint = (one, { x, w, dim }, y) => {
    const isFound = search && one.name.toLowerCase().includes(search);
    const by = other ? change(one) : 0;
    const hue = isFound ? theme.ink : !other ? tone(theme, one.name) : by > 0 ? theme.more : theme.less;
    const strength = other ? 0.06 + 0.54 * Math.abs(by) : 0.28;
    context.fillStyle = mix(theme.paper, hue, dim ? 0.12 : isFound ? 0.75 : strength);
    context.fillRect(x, y, Math.max(w - 0.7, 0.4), ROW - 1);
    if (w < LABEL_MIN) return;
    context.save();
    context.beginPath();
    context.rect(x, y, w - 4, ROW);
    context.clip();
    context.fillStyle = isFound ? theme.paper : dim ? theme.ink2 : theme.ink;
    context.fillText(`${shortName(one.name)}  ${words(one.value)}`, x + 4, y + ROW / 2);
    context.restore();
  };
  const root = { name: "all", value: flame.total, depth: -1, at: 0, parent: null };
  for (const one of [root, ...all]) {
    const where = one === root ? { x: 0, w: width, dim: Boolean(zoomed) } : place(one);
    if (where.w < 0.3 || where.x >= width || (!where.dim && zoomed && one.depth < zoomed.depth)) continue;
    const y = rowOf(one.depth);
    paint(one, where, y);
    shown.push({ one, ...where, y });
  }
  const found = search
    ? all.filter((one) => {
        for (let above = one.parent; above; above = above.parent) if (above.name.toLowerCase().includes(search)) return false;
        return one.name.toLowerCase().includes(search);
      })
    : [];
  const rest = search ? `“${search}”: ${words(found.reduce((sum, one) => sum + one.value, 0))}` : "";
  readout.textContent = rest;
  const say = (one) => {
    const beside = other ? `, ${inWords(otherOf(one))} beside it` : `, ${share(one.value / flame.total)} of all`;
    readout.textContent = `${one.name}: ${words(one.value)}${isEach ? " each request" : ""}${beside}`;
  };
  const zoom = (one) => {
    figure.zoomed = one && one !== root ? one : null;
    drawFlame(figure, flame, options);
  };
  const under = (event) => shown.find(({ x, w, y }) => event.offsetX >= x && event.offsetX < x + w && event.offsetY >= y && event.offsetY < y + ROW)?.one;
  canvas.onpointermove = (event) => {
    const one = under(event);
    canvas.style.cursor = one ? "pointer" : "default";
    one ? say(one) : (readout.textContent = rest);
  };
  canvas.onpointerleave = () => (readout.textContent = rest);
  canvas.onclick = (event) => zoom(under(event) ?? null);

  let current = zoomed ?? root;
  const children = (of) => all.filter((one) => (of === root ? one.depth === 0 : one.parent === of));
  box.onkeydown = (event) => {
    const siblings = current === root ? [root] : children(current.parent ?? root);
    const at = siblings.indexOf(current);
    const to = {
      ArrowRight: () => siblings[at + 1],
      ArrowLeft: () => siblings[at - 1],
      [up ? "ArrowUp" : "ArrowDown"]: () => children(current)[0],
      [up ? "ArrowDown" : "ArrowUp"]: () => (current === root ? null : (current.parent ?? root)),
    }[event.key];
    if (to) {
      event.preventDefault();
      current = to() ?? current;
      say(current);
    } else if (event.key === "Enter") zoom(current);
    else if (event.key === "Escape") zoom(null);
  };
}

function same(one, other) {
  return one.depth === other.depth && one.at === other.at && one.name === other.name;
}
