// A blank's distribution as bars: what it is now, and a mark where it was before a word was pinned.
import { h } from "./dom.js";

// of     `BlankBars` of the answer (serving/drawings/fill.py)
// pick   (bar) => a click on its token
export function bars(of, pick) {
  return h("ol", { class: "bars" }, of.bars.map((bar) => item(of.blank, bar, pick)));
}

function item(blank, bar, pick) {
  const hasMark = bar.before !== null;
  const mark = hasMark && h("b");
  const shares = { "--p": bar.now, "--q": bar.before }; // `--q` is the place of the mark
  return h("li", { "data-key": `item:${blank}:${bar.id}` },
    h("button", {
      type: "button", "aria-pressed": String(bar.pinned), "data-key": `bar:${blank}:${bar.id}`, title: bar.token,
      onclick: () => pick(bar),
    }, bar.label),
    h("span", { class: "bar", ...shares }, h("i"), mark),
    h("span", { class: "n" }, bar.text));
}
