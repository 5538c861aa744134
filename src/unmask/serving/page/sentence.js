// A sentence to type, and its words as buttons: pressed ones are blanks (or held, as the view says).
import { ask, Latest } from "./api.js";
import { h } from "./drawing/dom.js";

const WAIT = 350;

export class Sentence {
  // change(reason) is called when the text, the words or the pressed ones are others than before; fail(error) when a text is refused.
  constructor({ label, text, pressed, hint, change, fail }) {
    Object.assign(this, { text, pressed: new Set(pressed), words: [], filled: new Map(), change, fail });
    this.latest = new Latest();
    this.input = h("input", { type: "text", value: text, maxLength: 2000, spellcheck: false, autocomplete: "off", oninput: () => this.#later() });
    this.list = h("ul", { class: "words", "aria-label": hint });
    this.element = h("section", { class: "sentence card" }, h("label", {}, label, this.input), this.list, h("p", { class: "note" }, hint));
  }

  async begin() { await this.#read("begin"); }

  leave() {
    clearTimeout(this.timer);
    this.latest.stop();
  }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.text = this.input.value;
      this.#read("text");
    }, WAIT);
  }

  async #read(reason) {
    if (!this.text.trim()) {
      this.words = [];
      this.draw();
      this.change("empty");
      return;
    }
    try {
      const before = this.words;
      this.words = (await ask("words", { text: this.text }, this.latest.begin())).words;
      if (reason === "text") this.#carry(before);
      this.pressed = new Set([...this.pressed].filter((i) => i < this.words.length));
      this.words.forEach((word, i) => word.blank && this.pressed.add(i));
      this.filled.clear();
      this.draw();
      this.change(reason);
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    }
  }

  // Words that are still there stay pressed: those before the edit by their number from the front, those after it from the end.
  #carry(before) {
    const [old, now] = [before.map((w) => w.text), this.words.map((w) => w.text)];
    let front = 0;
    while (front < Math.min(old.length, now.length) && old[front] === now[front]) front++;
    let back = 0;
    while (back < Math.min(old.length, now.length) - front && old.at(-1 - back) === now.at(-1 - back)) back++;
    const kept = [...this.pressed].filter((i) => i < front || i >= old.length - back);
    this.pressed = new Set(kept.map((i) => (i < front ? i : i + now.length - old.length)));
  }

  draw() {
    const focused = [...this.list.querySelectorAll("button")].indexOf(document.activeElement);
    this.list.replaceChildren(...this.words.map((word, i) => {
      const on = this.pressed.has(i);
      const put = this.filled.get(i);
      const kind = [put && "filled", !word.known && "unknown", /^\p{P}$/u.test(word.text) && "mark"].filter(Boolean).join(" ");
      const pieces = word.pieces > 1 ? ` (${word.pieces} tokens)` : "";
      return h("li", {}, h("button", {
        type: "button", class: kind, "aria-pressed": String(on), title: word.known ? `${word.text}${pieces}` : `${word.text}: the model does not know it`,
        "aria-label": on ? `${word.text}, chosen${put ? `, ${put}` : ""}` : word.text, onclick: () => this.#toggle(i) },
        put ?? (on && this.hides !== false ? (word.blank ? "▁" : "▁▁▁") : word.text)));
    }));
    if (focused >= 0) this.list.querySelectorAll("button")[focused]?.focus();
  }

  #toggle(i) {
    if (this.words[i].blank) return;
    if (!this.pressed.delete(i)) this.pressed.add(i);
    this.filled.clear();
    this.draw();
    this.change("words");
  }

  // Words put into the blanks, in their order, to look at; they are not part of the text until `keep`.
  fillIn(words) {
    this.filled = new Map([...this.pressed].sort((a, b) => a - b).map((i, n) => [i, words[n]]));
    this.draw();
  }

  // The text with `blank(word)` in place of each chosen word; by default one [MASK].
  template(blank = () => "[MASK]", chosen = (i) => this.pressed.has(i)) {
    let out = "";
    let end = 0;
    this.words.forEach((word, i) => {
      if (!chosen(i)) return;
      out += this.text.slice(end, word.start) + (word.blank ? "[MASK]" : blank(word));
      end = word.end;
    });
    return out + this.text.slice(end);
  }

  get chosen() { return [...this.pressed].sort((a, b) => a - b); }

  async set(text, pressed = []) {
    this.text = this.input.value = text;
    this.pressed = new Set(pressed);
    await this.#read("set");
  }
}
