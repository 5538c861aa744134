// Which view is shown, of which model: the address says it.
import { Api } from "./ask.js";
import { Beside } from "./beside.js";
import { h, select } from "./drawing/dom.js";
import { begin } from "./past.js";
import { VIEWS } from "./views/index.js";
import { address, models, read } from "./state.js";

const root = document.getElementById("view");
const nav = document.querySelector("nav");
const abouts = new Map();
let leave = null;
let shown = null; // the name of the view

// What a model's server says of it; asked once.
async function about(number) {
  if (!abouts.has(number)) {
    const api = new Api(Number(number));
    abouts.set(number, { ...(await api.ask("about")), api, number });
  }
  return abouts.get(number);
}

// The model, or the choice of one and of another beside it.
function head(first) {
  const box = document.getElementById("model");
  if (first.models.length < 2) {
    const size = `${first.vocabulary.toLocaleString("en")} tokens`;
    return box.replaceChildren(h("p", {}, `${first.model} · ${size}`));
  }
  const names = first.models.map((name, n) => [String(n), name]);
  const go = (name) => (value) => {
    models[name] = value;
    if (models.beside === models.model) models.beside = "";
    const { view, values } = read();
    history.pushState(null, "", address(view, values));
    show();
  };
  const others = [["", "no other"], ...names.filter(([n]) => n !== models.model)];
  return box.replaceChildren(
    select("Model", models.model, names, go("model")), select("Beside", models.beside, others, go("beside")));
}

// The menu has the views that this model has; links that were there stay as they are.
function menu(about, current) {
  const links = VIEWS.filter((view) => view.shown(about)).map(({ name, title }) => {
    const link = nav.querySelector(`a[data-view=${name}]`) ?? h("a", { href: `#/${name}`, "data-view": name }, title);
    if (name === current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    return link;
  });
  nav.replaceChildren(...links);
}

// Numbers of the models in the address that this server has.
async function chooseModels(chosen) {
  const known = (await about("0")).models.length;
  models.model = Number(chosen.model) < known ? chosen.model : "0";
  models.beside = chosen.beside !== "" && Number(chosen.beside) < known ? chosen.beside : "";
}

async function show() {
  const { view: named, values, ...chosen } = read();
  const view = VIEWS.find(({ name }) => name === named) ?? VIEWS[0];
  leave?.();
  leave = null;
  try {
    await chooseModels(chosen);
    const first = await about(models.model);
    const second = models.beside === "" ? null : await about(models.beside);
    head(first.models.length > 1 ? first : await about("0"));
    menu(first, view.name);
    begin(first);
    document.title = `${view.title} – unmask`;
    root.replaceChildren();
    const open = (pane, of, some) => view.open(pane, of, some);
    if (second) {
      const both = [first, { ...second, second: true, examples: first.examples }];
      leave = new Beside(root, view.name, both, values, open).leave;
    } else leave = open(root, first, values);
    if (shown !== null && shown !== view.name) root.focus({ preventScroll: true });
    shown = view.name;
  } catch (error) {
    const retry = h("button", { type: "button", onclick: show }, "Retry");
    root.replaceChildren(h("h1", {}, "unmask"), h("p", { class: "error", role: "alert" }, error.message, retry));
  }
}

// The address is the state: the link to the view moves the keyboard there, and leaves the address as it is.
document.querySelector("a.skip").addEventListener("click", (event) => { event.preventDefault(); root.focus(); });
addEventListener("hashchange", show);
addEventListener("popstate", () => location.hash || show());
await show();
