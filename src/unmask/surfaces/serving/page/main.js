// Which view is shown, of which model: the address says it.
import { Api } from "./ask.js";
import { Beside } from "./beside.js";
import { h, select } from "./drawing/dom.js";
import { begin } from "./past.js";
import { address, models, read } from "./state.js";
import * as batch from "./views/batch.js";
import * as dependence from "./views/dependence.js";
import * as fill from "./views/fill.js";
import * as generate from "./views/generate.js";
import * as mutants from "./views/mutants.js";
import * as sample from "./views/sample.js";
import * as score from "./views/score.js";

const VIEWS = { fill, mutants, dependence, sample, generate, score, batch };
const root = document.getElementById("view");
const abouts = new Map();
let leave = null;
let current = null;

// What a model's server says of it; asked once.
async function about(number) {
  if (!abouts.has(number)) {
    const api = new Api(Number(number));
    abouts.set(number, { ...(await api.ask("about")), api, number });
  }
  return abouts.get(number);
}

function head(first) {
  const box = document.getElementById("model");
  if (first.models.length < 2) return box.replaceChildren(h("p", {}, `${first.model} · ${first.vocabulary.toLocaleString("en")} tokens`));
  const names = first.models.map((name, n) => [String(n), name]);
  const go = (name) => (value) => {
    models[name] = value;
    if (models.beside === models.model) models.beside = "";
    const { view, values } = read();
    history.pushState(null, "", address(view, values));
    show();
  };
  return box.replaceChildren(select("Model", models.model, names, go("model")), select("Beside", models.beside, [["", "no other"], ...names.filter(([n]) => n !== models.model)], go("beside")));
}

async function show() {
  const { view: named, values, ...chosen } = read();
  const view = named in VIEWS ? named : "fill";
  leave?.();
  leave = null;
  try {
    const known = (await about("0")).models.length;
    for (const name of ["model", "beside"]) models[name] = Number(chosen[name]) < known ? chosen[name] : name === "model" ? "0" : "";
    const [first, second] = [await about(models.model), models.beside === "" ? null : await about(models.beside)];
    head(first.models.length > 1 ? first : await about("0"));
    document.querySelector("nav a[data-view=mutants]").hidden = !first.by_character;
    begin(first);
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${document.querySelector(`nav a[data-view=${view}]`).textContent} – unmask`;
    root.replaceChildren();
    const open = (pane, of, some) => VIEWS[view].open(pane, of, some) ?? (() => {});
    leave = second ? new Beside(root, view, [first, { ...second, second: true, examples: first.examples }], values, open).leave : open(root, first, values);
    if (current !== null && current !== view) root.focus({ preventScroll: true });
    current = view;
  } catch (error) {
    root.replaceChildren(h("h1", {}, "unmask"), h("p", { class: "error", role: "alert" }, error.message, h("button", { type: "button", onclick: show }, "Retry")));
  }
}

// The address is the state: the link to the view moves the keyboard there, and leaves the address as it is.
document.querySelector("a.skip").addEventListener("click", (event) => { event.preventDefault(); root.focus(); });
addEventListener("hashchange", show);
addEventListener("popstate", () => location.hash || show());
await show();
