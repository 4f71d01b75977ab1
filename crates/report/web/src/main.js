// Draws the charts of a report from the JSON in the page. Everything else is there
// without script.

import { drawFlames } from "./flame.js";
import { drawLoad } from "./load.js";
import { drawPercentiles } from "./percentiles.js";
import { theme } from "./theme.js";
import { drawTime } from "./time.js";

const data = JSON.parse(document.getElementById("data").textContent);

if (data) {
  document.documentElement.dataset.script = "";
  let chosen = data.chosen;
  const select = document.getElementById("step");

  const drawChosen = () => {
    const colours = theme();
    drawPercentiles(data, colours, chosen);
    drawTime(data, colours, chosen);
  };
  const drawAll = () => {
    drawFlames(data, theme());
    // Of a study's cells the rest is there without script.
    if (!data.steps.length) return;
    drawLoad(data, theme(), choose);
    drawChosen();
  };
  const choose = (index) => {
    if (!data.steps[index]) return;
    chosen = index;
    if (select) select.value = String(index);
    for (const row of document.querySelectorAll("tr[data-step]")) row.classList.toggle("chosen", row.dataset.step === String(index));
    drawChosen();
  };

  select?.addEventListener("change", () => choose(Number(select.value)));
  for (const row of document.querySelectorAll("tr[data-step]")) row.addEventListener("click", () => choose(Number(row.dataset.step)));

  // A step that is linked to opens.
  const open = () => {
    const step = /^#step-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (step) step.open = true;
  };
  addEventListener("hashchange", open);
  open();

  let width = 0;
  let waiting;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, 60);
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // Paper is white.
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.print = "";
    drawAll();
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.print;
    drawAll();
  });
  drawAll();
}

// The command line, to paste.
const command = document.querySelector(".command");
if (command && navigator.clipboard && isSecureContext) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(command.querySelector("code").textContent).then(
      () => (button.textContent = "Copied"),
      () => (button.textContent = "Not allowed"),
    );
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  command.append(button);
}
