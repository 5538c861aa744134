// Past questions about this model, kept in this browser and nowhere else.
import { closing } from "./cards.js";
import { h } from "./drawing/dom.js";

const MOST = 40;
const OF_THE_TEXT = ["text", "blanks", "second", "cell", "pair", "at", "colour"];
const box = document.getElementById("past");
let key = "";

function kept() {
  try { return JSON.parse(localStorage.getItem(key) ?? "[]"); } catch { return []; }
}

function keep(list) {
  try {
    if (list.length) localStorage.setItem(key, JSON.stringify(list));
    else localStorage.removeItem(key);
  } catch { /* a browser that keeps nothing: the list is that of no question */ }
  draw(list);
}

function draw(list) {
  box.querySelector("summary").textContent = list.length ? `Past (${list.length})` : "Past";
  const close = () => { box.open = false; };
  const clear = () => {
    keep([]);
    box.querySelector("summary").focus();
  };
  const nothing = h("p", { class: "note" }, "Questions that were answered appear here. They stay in this browser.");
  const items = list.map(({ view, text, hash }) =>
    h("li", {}, h("a", { href: hash, dir: "auto", onclick: close }, h("b", {}, view), " ", text, asked(hash))));
  const listed = [h("ol", {}, items), h("button", { type: "button", onclick: clear }, "Clear the list")];
  const inside = list.length ? listed : [nothing];
  box.querySelector("div").replaceChildren(...inside);
}

closing(box);

export function begin(about) {
  key = `unmask:past:${about.given ?? "bundled"}`;
  box.hidden = false;
  draw(kept());
}

// What a question asks beside its text: its options that are not the default.
function asked(hash) {
  const values = new URLSearchParams(hash.split("?")[1]);
  for (const name of OF_THE_TEXT) values.delete(name);
  const options = [...values].map(([name, value]) => `${name} ${value}`).join(", ");
  return options ? h("small", {}, ` ${options}`) : null;
}

// The question that the address asks, once it was answered; the same one again moves to the top.
export function remember(view, question) {
  if (!key) return;
  const text = question.length > 90 ? `${question.slice(0, 88)}…` : question;
  const hash = location.hash || "#/fill";
  keep([{ view, text, hash }, ...kept().filter((one) => one.hash !== hash)].slice(0, MOST));
}
