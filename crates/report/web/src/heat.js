// Many processors over time in one picture: a row for each, darker is busier. A row's
// number and the readout say what the tone says.

import { linearSplits } from "./chart.js";
import { mix } from "./theme.js";
import { share } from "./number.js";

export function drawHeat(figure, series, { theme, x }) {
  const box = figure.querySelector(".plot");
  const readout = figure.querySelector(".readout");
  const canvas = document.createElement("canvas");
  canvas.className = "heat";
  box.replaceChildren(canvas);
  const ratio = devicePixelRatio || 1;
  const width = box.clientWidth;
  const height = box.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const left = 54;
  const bottom = 22;
  const top = 6;
  const room = { width: width - left - 14, height: height - bottom - top };
  const row = room.height / series.cores.length;
  const place = (at) => left + ((at - x.min) / (x.max - x.min)) * room.width;
  const busy = (core, i) => Math.min(1, core.usr[i] + core.sys[i] + core.softirq[i]);

  series.cores.forEach((core, r) => {
    const hue = core.side === "server" ? theme.server : core.side === "client" ? theme.client : theme.neutral;
    series.at.forEach((at, i) => {
      const from = place(i ? series.at[i - 1] : Math.max(x.min, at - (series.at[1] - series.at[0] || at)));
      context.fillStyle = mix(theme.paper, hue, busy(core, i));
      context.fillRect(from, top + r * row, Math.max(place(at) - from, 0.5) + 0.4, Math.max(row - (row > 5 ? 1 : 0), 0.5));
    });
  });
  context.fillStyle = theme.ink2;
  context.font = `12px ${theme.font}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const every = Math.ceil(14 / row);
  series.cores.forEach((core, r) => {
    if (r % every === 0) context.fillText(`cpu ${core.cpu}`, left - 6, top + (r + 0.5) * row);
  });
  context.textBaseline = "alphabetic";
  const ticks = Math.max(2, Math.floor(room.width / 90));
  context.textAlign = "center";
  for (const at of linearSplits(x.min, x.max, ticks)) context.fillText(`${+at.toFixed(1)} s`, place(at), height - 5);
  const means = series.cores.map((core, r) => [r, series.at.reduce((sum, _, i) => sum + busy(core, i), 0) / Math.max(series.at.length, 1)]);
  const [hottest, mean] = means.reduce((a, b) => (b[1] > a[1] ? b : a));
  const rest = `busiest: cpu ${series.cores[hottest].cpu}, ${share(mean)}`;
  readout.textContent = rest;
  const say = (r, i) => {
    const core = series.cores[r];
    const side = core.side === "both" ? "server and client" : core.side;
    readout.textContent = `cpu ${core.cpu}${side ? ` (${side})` : ""} at ${+series.at[i].toFixed(1)} s: ${share(busy(core, i))} busy, softirq ${share(core.softirq[i])}`;
  };
  let at = null;
  const show = (r, i) => {
    at = [Math.max(0, Math.min(r, series.cores.length - 1)), Math.max(0, Math.min(i, series.at.length - 1))];
    say(...at);
  };
  canvas.onpointermove = (event) => {
    const when = x.min + ((event.offsetX - left) / room.width) * (x.max - x.min);
    const i = series.at.findIndex((end) => end >= when);
    show(Math.floor((event.offsetY - top) / row), i < 0 ? series.at.length - 1 : i);
  };
  canvas.onpointerleave = () => (readout.textContent = rest);
  box.onkeydown = (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [r, i] = at ?? [0, 0];
    show(r + move[0], i + move[1]);
  };
}
