// A text to type, and its words as buttons: pressed ones are blanks. Blanks can be typed, too.
import { direction, h, shown } from "./drawing/dom.js";
import { arrows } from "./drawing/arrows.js";
import { keeping } from "./ask.js";

const WAIT = 350;

export class Sentence {
  // change(reason) is called when the text, the words or the pressed ones are others than before.
  // kinds: those that a blank can be made by clicking; hides: whether pressed words are covered; blanked: whether they are not read;
  // pins: whether what is pinned is read in place of its word.
  constructor({ about, question, label, state, kinds = ["token"], hides = false, blanked = true, pins = true, change }) {
    const { text, blanks = "", pin = "" } = state;
    Object.assign(this, { question, text, pin, words: [], filled: new Map(), kinds, hides, blanked, pins, change, letters: about.by_character });
    this.known = Object.fromEntries(about.kinds.map((kind) => [kind.name, kind]));
    this.pressed = this.#parsed(blanks);
    this.input = h("input", { type: "text", value: text, dir: "auto", spellcheck: false, autocomplete: "off", oninput: () => this.#later(), onpaste: (event) => this.#paste(event) });
    this.list = h("ul", { class: this.letters ? "words letters" : "words", "aria-label": this.letters ? "residues" : "words" });
    this.unknown = h("p", { class: "unsaid", role: "status", hidden: true });
    this.held = h("p", { class: "note", hidden: true });
    this.element = h("section", { class: "sentence card" }, h("label", {}, h("span", {}, label ?? (this.letters ? "A sequence" : "A sentence")), this.input), this.list, this.held, this.unknown, question.element);
  }

  // "3,5w" is the fourth word as one token, and the sixth as a whole word.
  #parsed(blanks) {
    return new Map(blanks.split(",").map((part) => part.match(/^(\d+)([a-z]?)$/)).filter(Boolean).map(([, i, sign]) => [Number(i), Object.values(this.known).find((kind) => kind.sign === sign)?.name ?? "token"]));
  }

  async begin() { await this.#read("begin"); }

  leave() {
    clearTimeout(this.timer);
    this.controller?.abort();
    this.question.leave();
  }

  // A record of FASTA, whose lines a field of one line would join.
  #paste(event) {
    const text = event.clipboardData.getData("text");
    if (!this.letters || !/[\n>]/.test(text)) return;
    event.preventDefault();
    this.text = text;
    this.#read("typing");
  }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.text = this.input.value;
      this.#read("typing");
    }, WAIT);
  }

  async #read(reason, again = false) {
    this.controller?.abort();
    const { signal } = (this.controller = new AbortController());
    const before = this.words;
    try {
      const read = this.text.trim() ? await this.question.api.ask("words", { text: this.text }, signal) : { text: this.text, words: [] };
      this.words = read.words;
      if (read.text !== this.input.value && (read.text !== this.text || this.input.value !== this.text)) this.text = this.input.value = read.text;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (again) throw error;
      this.question.work = () => this.#read(reason, true);
      this.question.fail(error);
      if (!error.away) { this.words = []; this.draw(); this.change("refused"); }
      return;
    }
    if (reason === "typing") this.#carry(before);
    this.pressed = new Map([...this.pressed].filter(([i]) => i < this.words.length));
    this.words.forEach((word, i) => word.blank && this.pressed.set(i, word.blank));
    this.filled.clear();
    if (reason !== "begin") this.pin = "";
    this.draw();
    this.change(reason);
  }

  // Words that are still there stay pressed: those before the edit by their number from the front, those after it from the end.
  #carry(before) {
    const [old, now] = [before.map((w) => w.text), this.words.map((w) => w.text)];
    let front = 0;
    while (front < Math.min(old.length, now.length) && old[front] === now[front]) front++;
    let back = 0;
    while (back < Math.min(old.length, now.length) - front && old.at(-1 - back) === now.at(-1 - back)) back++;
    const kept = [...this.pressed].filter(([i]) => i < front || i >= old.length - back);
    this.pressed = new Map(kept.map(([i, kind]) => [i < front ? i : i + now.length - old.length, kind]));
  }

  // Of the n-th blank, what is pinned there: {blank, id, word}.
  get pinned() {
    const found = this.pins && this.pin.match(/^([01]):(\d+)(?::(.*))?$/s);
    return found && Number(found[1]) < this.pressed.size ? { blank: Number(found[1]), token: Number(found[2]), word: found[3] } : null;
  }

  get #pinnedWord() { return this.pinned?.word === undefined ? null : [this.chosen[this.pinned.blank], this.pinned.word.replace(/^##/, "")]; }

  draw() {
    keeping(this.list, () => this.#draw());
    const [at, word] = this.#pinnedWord ?? [];
    const stood = at === undefined ? undefined : this.words[at];
    this.held.hidden = stood === undefined;
    this.held.textContent = stood === undefined ? "" : `“${word}” is pinned in place of “${stood.text}”.`;
    const strange = [...new Set(this.words.filter((word, i) => !word.known && !(this.blanked && this.pressed.has(i))).map((word) => `“${word.text}”`))];
    this.unknown.hidden = !strange.length;
    this.unknown.textContent = strange.length ? `The model does not know ${strange.slice(0, 5).join(", ")}${strange.length > 5 ? ` and ${strange.length - 5} more` : ""}, and reads the unknown token instead.` : "";
  }

  #draw() {
    const [at, word] = this.#pinnedWord ?? [];
    this.list.dir = direction(this.text);
    this.list.replaceChildren(...this.words.map((one, i) => this.#item(one, i, i === at ? word : this.filled.get(i), i === at)));
    if (this.letters && this.words.length) {
      const row = [...this.list.querySelectorAll("button.word")];
      const first = row[this.chosen[0]] ?? row[0];
      arrows([row])(first);
      if (!this.placed) this.list.scrollTop = Math.max(0, first.parentElement.offsetTop - this.list.clientHeight / 2);
      this.placed = true;
    }
  }

  #item(word, i, put, pinned) {
    const kind = this.pressed.get(i);
    const marks = ["word", put && "filled", pinned && "pinned", !word.known && "unknown", /^\p{P}$/u.test(word.text) && "mark"].filter(Boolean).join(" ");
    const place = this.letters ? `residue ${i + 1}, ` : "";
    const pieces = word.pieces > 1 ? ` (${word.pieces} tokens)` : "";
    const covered = kind && this.hides ? (word.blank ? "▁" : this.letters ? "▁" : "▁▁▁") : word.text;
    const numbered = this.letters && (kind || (i + 1) % 10 === 0 || i === 0);
    return h("li", { class: numbered ? "numbered" : "" },
      numbered ? h("span", { class: "number", "aria-hidden": "true" }, String(i + 1)) : null,
      h("button", {
        type: "button", class: marks, lang: "", "aria-pressed": String(Boolean(kind)), "data-key": `word:${i}`, title: word.known ? `${place}${word.text}${pieces}` : `${word.text}: the model does not know it`,
        "aria-label": `${place}${word.text}${kind ? `, chosen${put ? `, ${put}` : ""}` : ""}`, onclick: () => this.#toggle(i) },
      put ?? covered),
      kind && this.kinds.length > 1 ? h("button", { type: "button", class: "kind", "data-key": `kind:${i}`, title: "Click to make it another kind of blank", "aria-label": `${word.extent ?? this.known[kind].extent}: kind of blank ${this.chosen.indexOf(i) + 1}`, onclick: () => this.#turn(i, kind) }, word.extent ?? this.known[kind].extent) : null);
  }

  #toggle(i) {
    if (this.words[i].blank) return;
    if (!this.pressed.delete(i)) this.pressed.set(i, "token");
    this.#changed();
  }

  #turn(i, kind) {
    const next = this.kinds[(this.kinds.indexOf(kind) + 1) % this.kinds.length];
    if (!this.words[i].blank) {
      this.pressed.set(i, next);
      return this.#changed();
    }
    const points = [...this.text];
    this.text = this.input.value = [...points.slice(0, this.words[i].start), this.known[next].text, ...points.slice(this.words[i].end)].join("");
    this.#read("set");
    return undefined;
  }

  #changed() {
    this.filled.clear();
    this.pin = "";
    this.draw();
    this.change("words");
  }

  // Words put into the blanks, in their order, to look at; they are not part of the text until `keep`.
  fillIn(words) {
    this.filled = new Map(this.chosen.map((i, n) => [i, shown(words[n])]));
    this.draw();
  }

  // The text with a blank in place of each chosen word, and what is pinned in place of its blank.
  template(masks = (word, kind) => this.known[kind].text, chosen = (i) => this.pressed.has(i), pins = false) {
    const points = [...this.text];
    const [at, pinned] = (pins && this.#pinnedWord) || [];
    let out = "";
    let end = 0;
    this.words.forEach((word, i) => {
      if (!chosen(i)) return;
      const written = i === at ? pinned : word.blank === "token" ? "[MASK]" : word.blank ? word.text : masks(word, this.pressed.get(i) ?? "token", i);
      out += points.slice(end, word.start).join("") + written;
      end = word.end;
    });
    return out + points.slice(end).join("");
  }

  // The text as a whole, with what is pinned in it.
  get whole() {
    const [at] = this.#pinnedWord ?? [];
    return at === undefined ? this.text : this.template(undefined, (i) => i === at, true);
  }

  get chosen() { return [...this.pressed.keys()].sort((a, b) => a - b); }
  get blanks() { return this.chosen.filter((i) => !this.words[i]?.blank).map((i) => `${i}${this.known[this.pressed.get(i)].sign}`).join(","); }
  get several() { return [...this.pressed.values()].some((kind) => kind !== "token"); }
  get typed() { return this.words.some((word) => word.blank); }

  async set(text, blanks = "") {
    this.text = this.input.value = text;
    this.pressed = this.#parsed(blanks);
    await this.#read("set");
  }
}
