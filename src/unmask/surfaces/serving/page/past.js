// Past questions about this model, kept in this browser and nowhere else.
import { closing } from "./menus.js";
import { h } from "./drawing/dom.js";

const MOST = 40; // questions
const LONGEST = 90; // characters of a text in the list
// Values of an address: what is asked about, and how the answer is drawn. Two addresses that differ only in how an
// answer is drawn ask the same question.
const OF_THE_TEXT = ["text", "blanks", "second"];
const OF_THE_DRAWING = ["cell", "pair", "at", "colour", "number", "show", "speed"];
const box = document.getElementById("past");
let key = ""; // of the storage: each model has its own list

function kept() {
  try {
    const list = JSON.parse(localStorage.getItem(key));
    return Array.isArray(list) ? list : [];
  } catch { // a browser that keeps nothing
    return [];
  }
}

function keep(list) {
  try {
    if (list.length) localStorage.setItem(key, JSON.stringify(list));
    else localStorage.removeItem(key);
  } catch { /* a browser that keeps nothing, or has no room: the list is shown until the next question or a reload */ }
  draw(list);
}

function draw(list) {
  const summary = box.querySelector("summary");
  summary.textContent = list.length ? `Past (${list.length})` : "Past";
  const close = () => { box.open = false; };
  const clear = () => {
    keep([]);
    summary.focus(); // the button that had the keyboard is gone
  };

  function item({ view, text, hash }) {
    const options = optionsOf(hash);
    const small = options === "" ? null : h("small", {}, ` ${options}`);
    return h("li", {}, h("a", { href: hash, dir: "auto", onclick: close }, h("b", {}, view), " ", text, small));
  }

  const nothing = h("p", { class: "note" }, "Questions that were answered appear here. They stay in this browser.");
  const questions = [h("ol", {}, list.map(item)), h("button", { type: "button", onclick: clear }, "Clear the list")];
  box.querySelector("div").replaceChildren(...(list.length ? questions : [nothing]));
}

closing(box);

export function begin(about) {
  const model = about.given ?? "bundled"; // the name or folder that the server was given; none of the bundled model
  key = `unmask:past:${model}`;
  box.hidden = false;
  draw(kept());
}

// The view of an address, and its values except those with these names.
function without(hash, names) {
  const [view, query] = hash.split("?");
  const values = new URLSearchParams(query);
  for (const name of names) values.delete(name);
  return { view, values };
}

// What an address asks, however the answer is drawn: equal for equal questions.
function questionOf(hash) {
  const { view, values } = without(hash, OF_THE_DRAWING);
  values.sort();
  return `${view}?${values}`;
}

// What an address asks beside its text: the values that are not the default, such as a construction or a pin.
function optionsOf(hash) {
  const { values } = without(hash, [...OF_THE_TEXT, ...OF_THE_DRAWING]);
  return [...values].map(([name, value]) => `${name} ${value}`).join(", ");
}

// Keeps the question of the address, once it was answered. The same question again moves to the top.
// view       the title of the view
// question   what it is called in the list, which has the beginning of a long one
export function remember(view, question) {
  if (!key) return;
  const points = [...question]; // not cut within a surrogate pair
  const text = points.length > LONGEST ? `${points.slice(0, LONGEST - 1).join("")}…` : question;
  const hash = location.hash || "#/fill"; // where an address without a view leads
  const others = kept().filter((one) => questionOf(one.hash) !== questionOf(hash));
  keep([{ view, text, hash }, ...others].slice(0, MOST));
}
