// Stacks as a flame graph: a box for each function, as wide as what it has with its callees. Beside
// another's stacks a box is as red as it has more, and as blue as it has less; where that is not told,
// for it may be among what is too small for the other's tree, it is grey. What only the other has
// stands below. Click or Enter zooms, Escape goes back, arrows walk, a search marks names.

import { mix } from "./theme.js";
import { amount, bytes, share, span } from "./number.js";

const ROW = 19;
const LABEL_MIN = 26;
/** What stands for children that are too small for a tree. At the root it always stands, were it of 0. */
const SMALLER = "(smaller)";
/** How strong the grey is of what is not told. */
const UNTOLD = 0.28;
/** Lines of what only the other has. */
const ONLY_MAX = 12;

/** The kinds' own colours: what a box's package is says its tone. */
function tone(theme, name) {
  if (name === SMALLER) return theme.neutral;
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

/** Nodes in preorder become boxes with their place: `at` and `value` in the profile's unit, and the names from the root. */
function boxes(flame) {
  const ends = [];
  const all = [];
  const open = [];
  let root = 0;
  for (const [depth, value, index] of flame.nodes) {
    open.length = depth;
    const parent = open[depth - 1] ?? null;
    const at = depth === 0 ? root : ends[depth];
    const name = flame.names[index];
    const box = { depth, value, name, path: below(parent, name), at, parent };
    all.push(box);
    open[depth] = box;
    if (depth === 0) root += value;
    ends[depth] = at + value;
    ends[depth + 1] = at;
  }
  return { all, deepest: all.reduce((most, box) => Math.max(most, box.depth), 0) };
}

/** Where a box stands below another, or at the root. */
function below(parent, name) {
  return parent ? `${parent.path}\n${name}` : name;
}

/** What stacks have at each path, and at most where they do not say. */
function told(flame) {
  const { all } = boxes(flame);
  const values = new Map(all.map((one) => [one.path, one.value]));
  const inside = new Map();
  for (const one of all) {
    const place = one.parent?.path;
    inside.set(place, (inside.get(place) ?? 0) + one.value);
  }
  // A tree of an older record does not say what it leaves out: no more than is not its children's.
  const says = flame.names.includes(SMALLER);
  const leftOut = (box) => {
    const rest = (box ? values.get(box.path) : flame.total) - (inside.get(box?.path) ?? 0);
    return Math.max(says ? (values.get(below(box, SMALLER)) ?? 0) : rest, 0);
  };
  /** What is here of a box of another's: `most` is its value where it is `exact`, else it has no more. */
  const of = (one) => {
    if (values.has(one.path)) return { most: values.get(one.path), exact: true };
    let above = one.parent;
    while (above && !values.has(above.path)) above = above.parent;
    const most = leftOut(above);
    return { most, exact: most === 0 };
  };
  return { all, values, of };
}

export function drawFlames(data, theme) {
  const figure = document.querySelector("figure[data-chart=flame]");
  if (!figure || !data.flames.length) return;
  const [of, beside, measure, shape] = ["of", "beside", "measure", "shape"].map((name) => figure.querySelector(`[name=flame-${name}]`));
  const search = figure.querySelector("[name=flame-search]");
  const draw = () => {
    const flame = data.flames[Number(of.value)] ?? data.flames[0];
    // Only what is of the same kind can stand beside it.
    for (const option of beside.options) {
      const other = option.value === "" ? null : data.flames[Number(option.value)];
      option.disabled = other !== null && (other === flame || other.kind !== flame.kind || other.unit !== flame.unit);
    }
    if (beside.selectedOptions[0]?.disabled) beside.value = "";
    const other = beside.value === "" ? null : data.flames[Number(beside.value)];
    figure.querySelector(".scale").hidden = !other;
    if (other) explain(figure, theme);
    drawFlame(figure, flame, {
      theme,
      other: other && { ...other, told: told(other) },
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

/** What grey says, beside what red and blue say. */
function explain(figure, theme) {
  const scale = figure.querySelector(".scale");
  let grey = scale.querySelector(".untold");
  if (!grey) {
    grey = document.createElement("span");
    grey.className = "untold";
    grey.textContent = "not told, for there it may be too small";
    scale.append(" ", grey);
  }
  grey.style.background = mix(theme.paper, theme.neutral, UNTOLD);
}

/** Lines below the picture. */
function list(figure, lines) {
  let place = figure.querySelector(".only");
  if (!place) {
    place = document.createElement("div");
    place.className = "only note";
    figure.append(place);
  }
  place.hidden = !lines.length;
  place.replaceChildren(
    ...lines.map((line) => {
      const paragraph = document.createElement("p");
      paragraph.textContent = line;
      return paragraph;
    }),
  );
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
  const otherOf = (one) => (one.depth < 0 ? { most: other.total, exact: true } : other.told.of(one));
  /** From -1, where the other has all of it, to 1, where it has none of it; null where that is not told. */
  const change = (one) => {
    const { most, exact } = otherOf(one);
    if (!exact || one.name === SMALLER) return null;
    const [now, then] = [measured(one.value, flame), measured(most, other)];
    return now + then > 0 ? (now - then) / (now + then) : 0;
  };

  const isLike = (one) => one.name !== SMALLER && one.name.toLowerCase().includes(search);
  const shown = [];
  const place = (one) => {
    const isAbove = zoomed && one.depth < zoomed.depth && one.at <= zoomed.at && one.at + one.value >= zoomed.at + zoomed.value;
    if (isAbove) return { x: 0, w: width, dim: true };
    const x = ((one.at - from) / whole) * width;
    const w = (one.value / whole) * width;
    return { x: Math.max(x, 0), w: Math.min(w, width - Math.max(x, 0)), dim: false };
  };
  const paint = (one, { x, w, dim }, y) => {
    const isFound = search && isLike(one);
    const by = other ? change(one) : 0;
    const hue = isFound ? theme.ink : !other ? tone(theme, one.name) : by === null ? theme.neutral : by > 0 ? theme.more : theme.less;
    const strength = !other ? 0.28 : by === null ? UNTOLD : 0.06 + 0.54 * Math.abs(by);
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
  /** The largest of what the other alone has, or has more of than may be too small here: where it begins. */
  const onlyThere = () => {
    const here = told(flame);
    const begins = (one) => !here.values.has(one.path) && (!one.parent || here.values.has(one.parent.path));
    const isMore = (one) => measured(one.value, other) > measured(here.of(one).most, flame);
    const only = other.told.all.filter((one) => one.name !== SMALLER && begins(one) && isMore(one));
    only.sort((a, b) => b.value - a.value);
    const lines = only.slice(0, ONLY_MAX).map((one) => {
      const { most, exact } = here.of(one);
      const name = `${shortName(one.name)}${one.parent ? ` in ${shortName(one.parent.name)}` : ""}`;
      const there = inWords(measured(one.value, other));
      return exact ? `Only beside it: ${name}, ${there}.` : `More beside it: ${name}, ${there} there and at most ${words(most)} here.`;
    });
    const more = only.length - lines.length;
    return more > 0 ? [...lines, `${more} more are smaller.`] : lines;
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
        for (let above = one.parent; above; above = above.parent) if (isLike(above)) return false;
        return isLike(one);
      })
    : [];
  const rest = search ? `“${search}”: ${words(found.reduce((sum, one) => sum + one.value, 0))}` : "";
  readout.textContent = rest;
  const beside = (one) => {
    if (one.name === SMALLER) return ", of functions that are too small to be drawn";
    if (!other) return `, ${share(one.value / flame.total)} of all`;
    const { most, exact } = otherOf(one);
    const there = inWords(measured(most, other));
    return exact ? `, ${most ? there : "nothing"} beside it` : `, at most ${there} beside it`;
  };
  const say = (one) => {
    readout.textContent = `${one.name}: ${words(one.value)}${isEach ? " each request" : ""}${beside(one)}`;
  };
  list(figure, other ? onlyThere() : []);
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
  const children = (of) => all.filter((one) => one.value > 0 && (of === root ? one.depth === 0 : one.parent === of));
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
