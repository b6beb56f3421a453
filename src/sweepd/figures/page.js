"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const tooltip = document.getElementById("tooltip");
const panel = document.getElementById("curve");

/** Shows the fields of what is under the pointer; texts of trials are never read as HTML. */
function show(handler, event, item, value) {
  tooltip.hidden = value === null || value === undefined || value === "";
  if (tooltip.hidden) return;
  const table = document.createElement("table");
  for (const [name, told] of Object.entries(typeof value === "object" ? value : { "": value })) {
    if (told === null || told === "" || told === "null") continue;
    const row = table.insertRow();
    const head = document.createElement("th");
    head.textContent = name;
    row.append(head);
    row.insertCell().textContent = told;
  }
  tooltip.replaceChildren(table);
  const room = document.documentElement.clientWidth - tooltip.offsetWidth - 8;
  const below = event.clientY + 16 + tooltip.offsetHeight < window.innerHeight;
  tooltip.style.left = `${Math.max(8, Math.min(event.clientX + 12, room))}px`;
  tooltip.style.top = `${below ? event.clientY + 16 : event.clientY - tooltip.offsetHeight - 8}px`;
}

const options = {
  mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: show,
  logLevel: 1, // errors; an empty layer is none
  loader: { load: () => Promise.reject(new Error("this page loads nothing")) },
};

/** Draws a figure; a click on a cell of the grid shows its learning curves. */
async function draw(element) {
  const { view } = await vegaEmbed(element, data.figures[element.dataset.figure], options);
  if (!data.curves) return;
  element.toggleAttribute("data-clicks", true);
  view.addEventListener("click", (event, item) => {
    const cell = item && item.datum && item.datum.cell;
    if (cell !== undefined && data.curves[cell]) showCurves(cell);
  });
}

async function showCurves(cell) {
  const { told, trials } = data.curves[cell];
  const rows = trials.flatMap(([id, seed, steps, scores]) =>
    steps.map((step, i) => ({ trial: id, seed, step, score: scores[i] })));
  panel.querySelector("h2").textContent = told;
  panel.querySelector("p").textContent = trials.map(([id]) => `sweepd logs ${id.slice(0, 8)}`).join(" · ");
  panel.hidden = false;
  const curve = structuredClone(data.figures.curve);
  curve.datasets.curve = rows;
  await vegaEmbed(panel.querySelector(".chart"), curve, options);
  panel.querySelector("button").focus();
}

function close() { panel.hidden = true; }
panel.querySelector("button").addEventListener("click", close);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
for (const button of document.querySelectorAll("button[data-cell]"))
  button.addEventListener("click", () => showCurves(button.dataset.cell));

Promise.all([...document.querySelectorAll("[data-figure]")].map(draw))
  .then(() => { document.documentElement.dataset.drawn = "yes"; });
