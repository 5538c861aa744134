// Which view is shown, and of which model: the address says it.
import { Api } from "./ask.js";
import { Beside } from "./beside.js";
import { select } from "./drawing/controls.js";
import { h } from "./drawing/dom.js";
import { update } from "./drawing/update.js";
import { begin as beginPast } from "./past.js";
import { address, forAnotherModel, models, read } from "./state.js";
import { VIEWS } from "./views/index.js";

const root = document.getElementById("view");
const nav = document.querySelector("nav");
const abouts = new Map(); // promises of what the server says of a model, by its number
let leaveView = () => {};
let nameOfView = null; // of the one that is shown; null before the first
let turn = 0; // how often `show` was called: a call that is not the last one ends after its wait for the server

// What a model's server says of it; asked once.
function aboutModel(number) {
  if (!abouts.has(number)) {
    const asked = askAbout(number);
    abouts.set(number, asked);
    asked.catch(() => abouts.delete(number)); // "Retry" asks again
  }
  return abouts.get(number);
}

// number   of the model, as text: as the address has it
async function askAbout(number) {
  const api = new Api(Number(number));
  const answer = await api.ask("about");
  return { ...answer, api, number };
}

// Shows what the address says. Of several that wait for the server the last one goes on.
async function show() {
  turn += 1;
  const own = turn;
  const { view: named, values, model, beside } = read();
  leaveView();
  leaveView = () => {}; // if no view is opened below, the next call has none to leave
  try {
    const about = await aboutModel("0"); // its server names all models
    if (own !== turn) return;
    chooseModels({ model, beside }, about.models.length);
    drawHead(about);
    const first = await aboutModel(models.model);
    const second = models.beside === "" ? null : await aboutModel(models.beside);
    if (own !== turn) return;
    open(named, first, second, values);
  } catch (error) {
    if (own !== turn) return;
    const retry = h("button", { type: "button", onclick: show }, "Retry");
    root.replaceChildren(h("h1", {}, "unmask"), h("p", { class: "error", role: "alert" }, error.message, retry));
  }
}

// Opens a view of one model, or of two side by side.
function open(named, first, second, values) {
  const views = VIEWS.filter((view) => view.shown(first));
  const view = views.find(({ name }) => name === named) ?? views[0];
  drawMenu(views, view.name);
  beginPast(first);
  document.title = `${view.title} – unmask`;
  root.replaceChildren();
  if (second === null) {
    leaveView = view.open(root, first, values);
  } else {
    // Both are asked the same, so the second opens with the example of the first, too.
    const aboutSecond = { ...second, second: true, examples: first.examples };
    const panes = new Beside(root, view.name, [first, aboutSecond], values, view.open);
    leaveView = () => panes.leave();
  }
  const isChange = nameOfView !== null && nameOfView !== view.name; // the first view leaves the keyboard where it is
  if (isChange) root.focus({ preventScroll: true });
  nameOfView = view.name;
}

// Sets `models` to what the address names. The first model stands for one that there is not; no model is beside itself.
function chooseModels({ model, beside }, count) {
  const numbers = Array.from({ length: count }, (_, number) => String(number));
  models.model = numbers.includes(model) ? model : "0";
  const isAnother = numbers.includes(beside) && beside !== models.model;
  models.beside = isAnother ? beside : "";
}

// The model, or the choice of one and of another beside it.
function drawHead(about) {
  const box = document.getElementById("model");
  if (about.models.length < 2) {
    update(box, h("p", {}, `${about.model} · ${about.size}`));
    return;
  }
  const choose = (changed) => {
    const { view, values } = read();
    Object.assign(models, changed);
    if (models.beside === models.model) models.beside = "";
    const kept = "model" in changed ? forAnotherModel(values) : values;
    history.pushState(null, "", address(view, kept)); // with the numbers in `models`
    show(); // `pushState` is no "hashchange"
  };
  const numbered = about.models.map((name, number) => [String(number), name]);
  const others = numbered.filter(([number]) => number !== models.model);
  update(box,
    select("Model", models.model, numbered, (model) => choose({ model })),
    select("Beside", models.beside, [["", "no other"], ...others], (beside) => choose({ beside })));
}

// The menu has the views that this model has; `Address` of state.js keeps their links up to date.
function drawMenu(views, current) {
  const links = views.map(({ name, title }) => h("a", {
    href: `#/${name}`, "data-view": name, "data-key": `view:${name}`, "aria-current": name === current ? "page" : null,
  }, title));
  update(nav, links);
}

// The link "Skip to the view" moves the keyboard there, and leaves the address as it is.
document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault();
  root.focus();
});
addEventListener("hashchange", show); // also after Back and Forward
await show();
