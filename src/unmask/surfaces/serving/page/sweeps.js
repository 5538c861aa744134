// The sweeps of a run of chains: the numbers of the one where the replay stands, and curves of all so far. The server
// gives the numbers as texts, and the values and axes of the curves.
//
// A sweep is {sweep, facts, values, axes}: its number, [[name, text], ...], and by the name of a picture the values of
// the chains and the axis.
import { trace } from "./drawing/curves.js";
import { h } from "./drawing/dom.js";
import { lasting, update } from "./drawing/update.js";

export class Sweeps {
  constructor() {
    this.facts = lasting(h("dl", { class: "facts" }));
    this.figures = lasting(h("div", { class: "columns" }));
    this.begin({ pictures: [], starts: null, ends: null });
  }

  // A run begins.
  // pictures   [{name, caption, label}]: what the curves are
  // starts     sweep 0: that of the texts before the first step
  // ends       of the horizontal axis; a view changes the field with the answer, whose run may have been stopped
  begin({ pictures, starts, ends }) {
    this.pictures = pictures;
    this.ends = ends;
    this.sweeps = [starts];
    this.drawnFor = ""; // what the figures were drawn from, to leave them where that is the same
  }

  // The number of the latest sweep.
  get last() { return this.sweeps.length - 1; }

  add(sweep) { this.sweeps.push(sweep); }

  // Draws all sweeps so far, with a mark at sweep `at`, and the numbers of that one.
  draw(at) {
    const marked = this.sweeps[at];
    const facts = marked.facts.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)));
    update(this.facts, facts);
    const drawnFor = JSON.stringify([this.last, at, this.ends]);
    if (drawnFor === this.drawnFor) return;
    this.drawnFor = drawnFor;
    update(this.figures, this.pictures.map((picture) => this.#figure(picture, marked.sweep)));
  }

  #figure({ name, caption, label }, now) {
    const points = this.sweeps.map((one) => ({ sweep: one.sweep, values: one.values[name] }));
    const { axes } = this.sweeps[this.last]; // each sweep's axes are wide enough for all before it
    const curves = trace(points, { label, axis: axes[name], ends: this.ends, now });
    return h("figure", { "data-key": `curves:${name}` }, h("figcaption", {}, caption), curves);
  }
}
