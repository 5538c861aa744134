// Which view is shown: the address says it.
import { get } from "./api.js";
import { failure, h } from "./drawing/dom.js";
import { Beside } from "./beside.js";
import { begin } from "./past.js";
import { read } from "./state.js";

const TITLES = { fill: "Fill", mutants: "Mutants", dependence: "Dependence", sample: "Sample", score: "Score", runs: "Runs" };
const root = document.getElementById("view");
let leave = null;
let current = null;
let about = null;
let beside = null;

async function show() {
  const { view: named, values } = read();
  const view = named in TITLES ? named : "fill";
  leave?.();
  leave = null;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[view]} – unmask`;
  const { open } = await import(`./views/${view}.js`);
  root.replaceChildren();
  const pane = beside ? beside.panes(root, view) : root;
  leave = open(pane, about, values) ?? null;
  beside?.lift(root);
  beside?.show(view, values);
  if (current !== null && current !== view) root.focus({ preventScroll: true });
  current = view;
}

try {
  about = await get("about");
  document.getElementById("model").textContent = `${about.model} · ${about.vocabulary.toLocaleString("en")} tokens`;
  document.querySelector("nav a[data-view=mutants]").hidden = !about.by_character;
  begin(about);
  if (about.beside) beside = await Beside.open(about);
  addEventListener("hashchange", show);
  await show();
} catch (error) {
  root.replaceChildren(h("h1", {}, "unmask"), failure(error));
}
