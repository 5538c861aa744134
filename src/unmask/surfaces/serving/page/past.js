// Past questions about this model, kept in this browser and nowhere else.
import { closing } from "./cards.js";
import { h } from "./drawing/dom.js";

const MOST = 40;
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
  box.querySelector("div").replaceChildren(
    list.length ? h("ol", {}, list.map(({ view, text, hash }) => h("li", {}, h("a", { href: hash, dir: "auto", onclick: () => { box.open = false; } }, h("b", {}, view), " ", text)))) : h("p", { class: "note" }, "Questions that were answered appear here. They stay in this browser."),
    list.length ? h("button", { type: "button", onclick: () => { keep([]); box.querySelector("summary").focus(); } }, "Clear the list") : "");
}

closing(box);

export function begin(about) {
  key = `unmask:past:${about.given ?? "bundled"}`;
  box.hidden = false;
  draw(kept());
}

// The question that the address asks, once it was answered; the same one again moves to the top.
export function remember(view, asked) {
  if (!key) return;
  const text = asked.length > 90 ? `${asked.slice(0, 88)}…` : asked;
  keep([{ view, text, hash: location.hash || "#/fill" }, ...kept().filter((one) => one.view !== view || one.text !== text)].slice(0, MOST));
}
