// A second model beside the first: the same view, asked the same, and the numbers of both with their differences.
import { h, nats } from "./drawing/dom.js";
import { card } from "./files.js";
import { read } from "./state.js";

const [WAIT, LISTED] = [60, 25];
const ONLY_ONE = ["pin", "cell", "pair", "at"];

export class Beside {
  // The modules under beside/ are those of this page, and ask the second model.
  static async open(about) {
    const [{ get }, { follow }] = [await import("./beside/api.js"), await import("./beside/state.js")];
    follow();
    const made = new Beside();
    made.abouts = [about, { ...(await get("about")), examples: about.examples }];
    made.abouts.forEach((one, n) => { one.tell = (numbers) => made.#tell(n, numbers); });
    document.getElementById("model").textContent = made.abouts.map((one) => one.model).join(" and ");
    addEventListener("asked", () => made.#later());
    return made;
  }

  // Two panes and a table of differences; the view of the first model goes into the pane that is returned.
  panes(root, view) {
    this.leave?.();
    this.view = view;
    this.numbers = [null, null];
    this.differences = h("div", { class: "slot" });
    this.second = h("div", { class: "pane second" });
    new MutationObserver(() => this.#name()).observe(this.second, { childList: true, subtree: true });
    const first = h("div", { class: "pane" });
    const pane = (n, inside) => h("section", { "aria-label": this.abouts[n].model }, h("h2", {}, this.abouts[n].model), inside);
    const panes = view === "runs" ? first : h("div", { class: "panes" }, pane(0, first), pane(1, this.second));
    root.append(...(view === "fill" ? [panes, this.differences] : [this.differences, panes]));
    return first;
  }

  // What is asked stands above both.
  lift(root) {
    root.prepend(...root.querySelectorAll(".pane:not(.second) > :is(.intro, .sentence, .asking, .controls)"));
  }

  async show(view, values) {
    if (view === "runs") return;
    const { open } = await import(`./beside/views/${view}.js`);
    this.leave?.();
    this.second.replaceChildren();
    this.numbers[1] = null;
    // Tokens and places of the first model are not those of the second.
    const shared = Object.fromEntries(Object.entries(values).filter(([name]) => !ONLY_ONE.includes(name)));
    this.leave = open(this.second, this.abouts[1], shared) ?? null;
  }

  // No two landmarks of the page have one name.
  #name() {
    const of = `, ${this.abouts[1].model}`;
    for (const one of this.second.querySelectorAll("section[aria-label], [role=region][aria-label]")) if (!one.ariaLabel.endsWith(of)) one.ariaLabel += of;
  }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { const { view, values } = read(); if (view === this.view) this.show(view, values); }, WAIT);
  }

  // numbers: {what: value, by: what a value is}, of one model.
  #tell(n, numbers) {
    this.numbers[n] = numbers;
    const [first, second] = this.numbers;
    if (!first || !second) return;
    const names = [...new Set([...Object.keys(first.values), ...Object.keys(second.values)])].slice(0, LISTED);
    const rows = names.map((name) => [name, first.values[name] ?? null, second.values[name] ?? null]);
    const difference = ([, a, b]) => (a === null || b === null ? null : a - b);
    const models = this.abouts.map((one) => one.model);
    this.differences.replaceChildren(card({ title: `Differences: ${first.by}`, label: "differences", name: "differences", rows: () => [["what", ...models, "difference"], ...rows.map((row) => [...row, difference(row)])], data: () => ({ models, rows }) },
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "both models" }, h("table", { class: "data both" },
        h("thead", {}, h("tr", {}, ["what", ...models, "difference"].map((name, i) => h("th", { scope: "col", class: i ? "n" : "" }, name)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, h("td", { class: "text", dir: "auto" }, row[0]), [row[1], row[2], difference(row)].map((value) => h("td", { class: "n" }, nats(value, 3)))))))),
      rows.some((row) => difference(row) === null) ? h("p", { class: "note" }, "A dash: not among the best of this model.") : null));
  }
}
