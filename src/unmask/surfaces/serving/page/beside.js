// A second model beside the first: the same view, asked the same, and the numbers of both with their differences.
import { card } from "./cards.js";
import { h } from "./drawing/dom.js";
import { update } from "./drawing/update.js";
import { drawnTable, rowsOf, sentences } from "./result.js";
import { read } from "./state.js";

const WAIT = 60; // milliseconds after a question to the first model, before the second is asked
// Values of the address that name tokens and places of the first model: the second one has others.
const ONLY_FIRST = ["pin", "cell", "pair", "at"];
const ABOVE_BOTH = [".intro", ".sentence", ".asking", ".controls"]; // parts of the first view: they ask both models

// models        the names of both
// abouts        what the server says of each, with two functions that its view calls: see #telling
// told          what the latest answer of each told, {by, values}; null while there is none
// comparison    what the differences were asked for last, {models, told}; null while an answer is missing
// differences   the box of their table
// leaveFirst    closes the first view; `leaveSecond` the second one: null while that is not open
// timer         of the second model's question
export class Beside {
  // Two panes and a table of differences.
  // open   (pane, about, values) => opens the view of one model, and returns what closes it
  constructor(root, view, abouts, values, open) {
    this.models = abouts.map((about) => about.model);
    this.told = [null, null];
    this.comparison = null;
    this.timer = null;
    this.api = abouts[0].api;
    this.abouts = abouts.map((about, n) => this.#telling(about, n));
    this.open = open;
    this.observer = new MutationObserver(() => this.#nameSecond());
    this.#place(root, view);
    this.leaveFirst = open(this.first, this.abouts[0], values);
    this.#moveAbove(root);
    this.leaveSecond = null;
    this.#openSecond(values);
    // `Address` says "asked" when the view of the first model changes the address; that of the second leaves it alone.
    this.later = () => this.#openLater();
    addEventListener("asked", this.later);
  }

  // A view tells what its answer is (`tell`), and when it asks another question (`asks`).
  #telling(about, n) {
    return { ...about, tell: (told) => this.#tell(n, told), asks: () => this.#tell(n, null) };
  }

  #place(root, view) {
    this.first = h("div", { class: "pane" });
    this.second = h("div", { class: "pane second" });
    this.differences = h("div", { class: "slot" });
    const sections = [this.first, this.second].map((pane, n) =>
      h("section", { "aria-label": this.models[n] }, h("h2", {}, this.models[n]), pane));
    const panes = h("div", { class: "panes" }, sections);
    // In Fill the maps come first: its table of differences is long.
    const parts = view === "fill" ? [panes, this.differences] : [this.differences, panes];
    root.append(...parts);
    this.observer.observe(this.second, { childList: true, subtree: true, attributeFilter: ["aria-label"] });
  }

  // Moves the parts of the first view that ask both models out of its pane, to the head of the page.
  #moveAbove(root) {
    const selector = ABOVE_BOTH.map((part) => `:scope > ${part}`).join(", ");
    root.prepend(...this.first.querySelectorAll(selector));
  }

  // No two landmarks of the page have one name: those of the second pane end in the name of its model. The observer
  // calls this again for the names that it has changed, which then have that end.
  #nameSecond() {
    const end = `, ${this.models[1]}`;
    for (const landmark of this.second.querySelectorAll("section[aria-label], [role=region][aria-label]")) {
      const name = landmark.getAttribute("aria-label");
      if (!name.endsWith(end)) landmark.setAttribute("aria-label", name + end);
    }
  }

  #openSecond(values) {
    const shared = { ...values };
    for (const name of ONLY_FIRST) delete shared[name];
    this.#closeSecond();
    this.second.replaceChildren();
    this.leaveSecond = this.open(this.second, this.abouts[1], shared);
  }

  #closeSecond() {
    this.leaveSecond?.();
    this.leaveSecond = null;
  }

  // The first model is asked something else. What the second one has told is of the question before; its view is
  // closed, so that it tells no more of it.
  #openLater() {
    this.#closeSecond();
    this.#tell(1, null);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#openSecond(read().values), WAIT);
  }

  // Ends both views; their elements go with the contents of `root`.
  leave() {
    removeEventListener("asked", this.later);
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.comparison = null;
    this.leaveFirst();
    this.#closeSecond();
  }

  // Takes what a model told, null where it is asked anew, and compares if both have told.
  #tell(n, told) {
    this.told[n] = told;
    const isBoth = !this.told.includes(null);
    this.differences.classList.add("stale"); // until the differences of the answers that are told now are there
    this.comparison = isBoth ? { models: this.models, told: [...this.told] } : null;
    if (isBoth) this.#compare(this.comparison);
  }

  // A comparison of answers that are no longer the latest is not shown.
  async #compare(comparison) {
    const shown = await this.#compared(comparison);
    if (comparison !== this.comparison) return;
    update(this.differences, shown);
    this.differences.classList.remove("stale");
  }

  // The table of differences, or why there is none.
  async #compared(comparison) {
    try {
      const { table } = await this.api.ask("differences", comparison);
      return differencesCard(table, comparison);
    } catch (error) {
      return h("p", { class: "error", role: "alert" }, error.message);
    }
  }
}

function differencesCard(table, comparison) {
  const how = {
    title: table.title, label: "differences", name: "differences", rows: () => rowsOf(table),
    data: () => ({ ...comparison, table }),
  };
  return card(how, drawnTable(table, { label: "both models" }), sentences(table.notes));
}
