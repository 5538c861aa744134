// A second model beside the first: the same view, asked the same, and the numbers of both with their differences.
import { card } from "./cards.js";
import { h, nats } from "./drawing/dom.js";
import { update } from "./drawing/update.js";
import { drawnTable, rowsOf } from "./result.js";
import { read } from "./state.js";

const [WAIT, LISTED] = [60, 25];
const ONLY_ONE = ["pin", "cell", "pair", "at"];

export class Beside {
  // Two panes and a table of differences; open(pane, about, values) opens the view of one model.
  constructor(root, view, abouts, values, open) {
    this.models = abouts.map((one) => one.model);
    this.numbers = [null, null];
    this.differences = h("div", { class: "slot" });
    const [first, second] = [h("div", { class: "pane" }), h("div", { class: "pane second" })];
    const pane = (n, inside) => h("section", { "aria-label": this.models[n] }, h("h2", {}, this.models[n]), inside);
    const panes = h("div", { class: "panes" }, pane(0, first), pane(1, second));
    root.append(...(view === "fill" ? [panes, this.differences] : [this.differences, panes]));
    new MutationObserver(() => this.#name(second)).observe(second, { childList: true, subtree: true });
    const of = abouts.map((one, n) => {
      const tell = (numbers) => this.#tell(n, numbers);
      return { ...one, tell, asks: () => tell(null) };
    });
    const shown = [open(first, of[0], values), null];
    // What is asked stands above both.
    root.prepend(...root.querySelectorAll(".pane:not(.second) > :is(.intro, .sentence, .asking, .controls)"));
    // Tokens and places of the first model are not those of the second.
    const shared = (some) => Object.fromEntries(Object.entries(some).filter(([name]) => !ONLY_ONE.includes(name)));
    const again = (some) => { shown[1]?.(); second.replaceChildren(); shown[1] = open(second, of[1], shared(some)); };
    again(values);
    let timer = null;
    const later = () => { clearTimeout(timer); timer = setTimeout(() => again(read().values), WAIT); };
    addEventListener("asked", later);
    this.leave = () => { removeEventListener("asked", later); clearTimeout(timer); shown.forEach((one) => one?.()); };
  }

  // No two landmarks of the page have one name.
  #name(second) {
    const of = `, ${this.models[1]}`;
    for (const one of second.querySelectorAll("section[aria-label], [role=region][aria-label]")) {
      if (!one.ariaLabel.endsWith(of)) one.ariaLabel += of;
    }
  }

  // numbers: {values: {what: value}, by: what a value is}, of one model; null while it is asked.
  #tell(n, numbers) {
    this.numbers[n] = numbers;
    const [first, second] = this.numbers;
    this.differences.classList.toggle("stale", !first || !second);
    if (!first || !second) return;
    const names = [...new Set([...Object.keys(first.values), ...Object.keys(second.values)])].slice(0, LISTED);
    const rows = names.map((name) => {
      const values = [first.values[name] ?? null, second.values[name] ?? null];
      const isBoth = !values.includes(null);
      return [name, ...values, isBoth ? values[0] - values[1] : null];
    });
    const columns = ["what", ...this.models, "difference"].map((head, n) => ({ head, text: n === 0 }));
    const shown = rows.map(([name, ...values]) => [name, ...values.map((value) => nats(value, 3))]);
    const table = { title: `Differences: ${first.by}`, columns, rows, shown, notes: [] };
    const data = () => ({ models: this.models, rows });
    const isMissing = rows.some((row) => row.at(-1) === null);
    const dash = isMissing && h("p", { class: "note" }, "A dash: not among the best of this model.");
    const files = { name: "differences", rows: () => rowsOf(table), data };
    update(this.differences, card({ title: table.title, label: "differences", ...files },
      drawnTable(table, { label: "both models" }), dash));
  }
}
