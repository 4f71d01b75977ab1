// Stacks as a flame graph: a box for each function, as wide as what it has with its callees.
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

export function drawFlames(data, theme) {
  const figure = document.querySelector("figure[data-chart=flame]");
  if (!figure || !data.flames.length) return;
  const [kind, measure, shape] = ["kind", "measure", "shape"].map((name) => figure.querySelector(`[name=flame-${name}]`));
  const search = figure.querySelector("[name=flame-search]");
  const draw = () => {
    const flame = data.flames.find((one) => one.kind === kind.value) ?? data.flames[0];
    drawFlame(figure, flame, { theme, perRequest: measure.value === "request", up: shape.value === "flame", search: search.value.trim().toLowerCase() });
  };
  for (const control of [kind, measure, shape]) control.onchange = () => {
    figure.zoomed = null;
    draw();
  };
  search.oninput = draw;
  draw();
}

function drawFlame(figure, flame, { theme, perRequest, up, search }) {
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
  const words = (value) => {
    const part = share(value / flame.total);
    if (!perRequest || !flame.answered) return part;
    const each = value / flame.answered;
    return flame.unit === "nanoseconds" ? span(each) : flame.unit === "bytes" ? bytes(each) : amount(each);
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
    const hue = isFound ? theme.ink : tone(theme, one.name);
    context.fillStyle = mix(theme.paper, hue, dim ? 0.12 : isFound ? 0.75 : 0.28);
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
  const say = (one) => (readout.textContent = `${one.name}: ${words(one.value)}${perRequest && flame.answered ? " each request" : ""}, ${share(one.value / flame.total)} of all`);
  const zoom = (one) => {
    figure.zoomed = one && one !== root ? one : null;
    drawFlame(figure, flame, { theme, perRequest, up, search });
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
