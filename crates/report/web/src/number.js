// Numbers as the page's tables print them.

const unknown = "–";

export function amount(value) {
  if (value == null || !Number.isFinite(value)) return unknown;
  if (Math.abs(value) >= 99.95) return Math.round(value).toLocaleString("en-US");
  return String(+value.toFixed(Math.abs(value) >= 9.995 ? 1 : 2));
}

/** Short, for axes: 20k, 1.5M. */
export function axis(value) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) return `${+(value / size).toPrecision(3)}${unit}`;
  }
  return String(+value.toPrecision(3));
}

const spans = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

function spanUnit(ns) {
  return spans.find(([size]) => ns >= size * 0.9995) ?? spans[3];
}

export function span(ns) {
  if (ns == null || !Number.isFinite(ns)) return unknown;
  const [size, unit] = spanUnit(ns);
  const value = ns / size;
  const digits = size === 1 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${unit}`;
}

export function spanAxis(ns) {
  if (ns === 0) return "0";
  const [size, unit] = spanUnit(ns);
  return `${+(ns / size).toPrecision(3)} ${unit}`;
}

export function share(value) {
  if (value == null || !Number.isFinite(value)) return unknown;
  const percent = value * 100;
  return `${percent !== 0 && Math.abs(percent) < 0.995 ? +percent.toFixed(1) : Math.round(percent)} %`;
}

export function bits(value) {
  if (value == null || !Number.isFinite(value)) return unknown;
  for (const [size, unit] of [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]]) {
    if (value >= size * 0.9995) return `${+(value / size).toPrecision(3)} ${unit}`;
  }
  return `${Math.round(value)} bit/s`;
}

export function bytes(value) {
  if (value == null || !Number.isFinite(value)) return unknown;
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "KB"]]) {
    if (value >= size * 0.9995) return `${+(value / size).toPrecision(3)} ${unit}`;
  }
  return `${+value.toFixed(1)} B`;
}
