// A text to type, and its words as buttons: pressed ones are blanks. Blanks can be typed, too.
import { arrows } from "./drawing/arrows.js";
import { direction, h, shown } from "./drawing/dom.js";
import { update } from "./drawing/update.js";

const WAIT = 350; // milliseconds after the last letter before the text is read
const NAMED = 5; // unknown words that are listed
const COVER = "▁";

export class Sentence {
  // change(reason) is called when the text, the words or the pressed ones are others than before.
  // kinds    those that a blank can be made by clicking
  // hides    whether pressed words are covered
  // blanked  whether pressed words are not read by the model
  // pins     whether what is pinned is read in place of its word
  constructor({ about, question, label, state, change, ...how }) {
    const { text, blanks = "", pin = "" } = state;
    Object.assign(this, { kinds: ["token"], hides: false, blanked: true, pins: true, ...how });
    Object.assign(this, { question, change, text, pin, words: [], filled: new Map(), letters: about.by_character });
    this.known = Object.fromEntries(about.kinds.map((kind) => [kind.name, kind]));
    this.pressed = this.#parsed(blanks);
    const [one, many] = this.letters ? ["A sequence", "residues"] : ["A sentence", "words"];
    this.input = h("input", {
      type: "text", value: text, dir: "auto", spellcheck: false, autocomplete: "off",
      oninput: () => this.#later(), onpaste: (event) => this.#paste(event),
    });
    this.list = h("ul", { class: this.letters ? "words letters" : "words", "aria-label": many });
    if (this.letters) arrows(this.list);
    this.unknown = h("p", { class: "unsaid", role: "status", hidden: true });
    this.held = h("p", { class: "note", hidden: true });
    this.element = h("section", { class: "sentence card" },
      h("label", {}, h("span", {}, label ?? one), this.input), this.list, this.held, this.unknown, question.element);
  }

  // "3,5w" is the fourth word as one token, and the sixth as a whole word.
  #parsed(blanks) {
    const pressed = new Map();
    for (const part of blanks.split(",")) {
      const found = part.match(/^(\d+)([a-z]?)$/);
      if (!found) continue;
      const kind = Object.values(this.known).find(({ sign }) => sign === found[2]);
      pressed.set(Number(found[1]), kind?.name ?? "token");
    }
    return pressed;
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
      const nothing = { text: this.text, words: [] };
      const read = this.text.trim() ? await this.question.api.ask("words", { text: this.text }, signal) : nothing;
      this.words = read.words;
      this.#take(read.text);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (again) throw error;
      this.#refused(error, reason);
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

  // The text as the model reads it, unless more was typed in the meantime.
  #take(text) {
    const { value } = this.input;
    const isSame = text === this.text && value === this.text;
    if (text !== value && !isSame) this.text = this.input.value = text;
  }

  #refused(error, reason) {
    this.question.work = () => this.#read(reason, true);
    this.question.fail(error);
    if (error.away) return;
    this.words = [];
    this.draw();
    this.change("refused");
  }

  // Words that are still there stay pressed: those before the edit by their number from the front, those after it from
  // the end.
  #carry(before) {
    const old = before.map((word) => word.text);
    const now = this.words.map((word) => word.text);
    const both = Math.min(old.length, now.length);
    let front = 0;
    while (front < both && old[front] === now[front]) front++;
    let back = 0;
    while (back < both - front && old.at(-1 - back) === now.at(-1 - back)) back++;
    const moved = now.length - old.length;
    const kept = [...this.pressed].filter(([i]) => i < front || i >= old.length - back);
    this.pressed = new Map(kept.map(([i, kind]) => [i < front ? i : i + moved, kind]));
  }

  // What is pinned: {blank, token, word}, the blank counted from 0.
  get pinned() {
    const found = this.pins && this.pin.match(/^([01]):(\d+)(?::(.*))?$/s);
    if (!found || Number(found[1]) >= this.pressed.size) return null;
    return { blank: Number(found[1]), token: Number(found[2]), word: found[3] };
  }

  // The number of the pinned word and what is pinned in its place; null without a pin.
  get pinnedWord() {
    const { pinned } = this;
    if (pinned?.word === undefined) return null;
    return [this.chosen[pinned.blank], pinned.word.replace(/^##/, "")];
  }

  draw() {
    const [at, pinned] = this.pinnedWord ?? [];
    this.list.dir = direction(this.text);
    const first = this.chosen[0] ?? 0;
    update(this.list, this.words.map((word, i) => this.#item(word, i, {
      put: i === at ? pinned : this.filled.get(i), isPinned: i === at, isStop: i === first,
    })));
    this.#showFirst(first);
    const stood = this.words[at];
    this.held.hidden = stood === undefined;
    this.held.textContent = stood === undefined ? "" : `“${pinned}” is pinned in place of “${stood.text}”.`;
    this.#nameUnknown();
  }

  // Of a long sequence the first chosen residue is in sight, once.
  #showFirst(first) {
    if (!this.letters || !this.words.length || this.placed) return;
    const { offsetTop } = this.list.children[first];
    this.list.scrollTop = Math.max(0, offsetTop - this.list.clientHeight / 2);
    this.placed = true;
  }

  #nameUnknown() {
    const isRead = (i) => !(this.blanked && this.pressed.has(i));
    const strange = this.words.filter((word, i) => !word.known && isRead(i)).map((word) => `“${word.text}”`);
    const each = [...new Set(strange)];
    this.unknown.hidden = !each.length;
    if (!each.length) return;
    const more = each.length > NAMED ? ` and ${each.length - NAMED} more` : "";
    const listed = each.slice(0, NAMED).join(", ");
    this.unknown.textContent = `The model does not know ${listed}${more}, and reads the unknown token instead.`;
  }

  #item(word, i, { put, isPinned, isStop }) {
    const kind = this.pressed.get(i);
    const isMark = /^\p{P}$/u.test(word.text);
    const marks = ["word", put && "filled", isPinned && "pinned", !word.known && "unknown", isMark && "mark"];
    const place = this.letters ? `residue ${i + 1}, ` : "";
    const pieces = word.pieces > 1 ? ` (${word.pieces} tokens)` : "";
    const isNumbered = this.letters && (kind || (i + 1) % 10 === 0 || i === 0);
    const called = `${place}${word.text}`;
    const chosen = kind ? `, chosen${put ? `, ${put}` : ""}` : "";
    const ofGrid = this.letters ? { "data-at": `0,${i}`, tabIndex: isStop ? 0 : -1 } : {};
    return h("li", { class: isNumbered ? "numbered" : "" },
      isNumbered && h("span", { class: "number", "aria-hidden": "true" }, String(i + 1)),
      h("button", {
        type: "button", class: marks.filter(Boolean).join(" "), lang: "", "aria-pressed": String(Boolean(kind)),
        "data-key": `word:${i}`, ...ofGrid, "aria-label": called + chosen,
        title: word.known ? called + pieces : `${word.text}: the model does not know it`,
        onclick: () => this.#toggle(i),
      }, put ?? this.#covered(word, kind)),
      kind && this.kinds.length > 1 && this.#kindButton(word, i, kind));
  }

  #covered(word, kind) {
    if (!kind || !this.hides) return word.text;
    return word.blank || this.letters ? COVER : COVER.repeat(3);
  }

  #kindButton(word, i, kind) {
    const extent = word.extent ?? this.known[kind].extent;
    const number = this.chosen.indexOf(i) + 1;
    return h("button", {
      type: "button", class: "kind", "data-key": `kind:${i}`, title: "Click to make it another kind of blank",
      "aria-label": `${extent}: kind of blank ${number}`, onclick: () => this.#turn(i, kind),
    }, extent);
  }

  #toggle(i) {
    if (this.words[i].blank) return; // a blank that was typed
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
    const { start, end } = this.words[i];
    this.text = [...points.slice(0, start), this.known[next].text, ...points.slice(end)].join("");
    this.input.value = this.text;
    return this.#read("set");
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
    const [at, pinned] = (pins && this.pinnedWord) || [];
    const written = (word, i) => {
      if (i === at) return pinned;
      if (word.blank) return word.blank === "token" ? "[MASK]" : word.text;
      return masks(word, this.pressed.get(i) ?? "token", i);
    };
    let out = "";
    let end = 0;
    this.words.forEach((word, i) => {
      if (!chosen(i)) return;
      out += points.slice(end, word.start).join("") + written(word, i);
      end = word.end;
    });
    return out + points.slice(end).join("");
  }

  // The text as a whole, with what is pinned in it.
  get whole() {
    const [at] = this.pinnedWord ?? [];
    return at === undefined ? this.text : this.template(undefined, (i) => i === at, true);
  }

  // Positions of the tokens of a word in `whole`: a pinned word is one token.
  positions(i) {
    const [at] = this.pinnedWord ?? [];
    const shift = at !== undefined && i > at ? 1 - this.words[at].pieces : 0;
    return this.words[i].positions.map((position) => position + shift);
  }

  get chosen() { return [...this.pressed.keys()].sort((a, b) => a - b); }
  get several() { return [...this.pressed.values()].some((kind) => kind !== "token"); }
  get typed() { return this.words.some((word) => word.blank); }

  // The blanks that were made by clicking, as the address has them.
  get blanks() {
    const clicked = this.chosen.filter((i) => !this.words[i]?.blank);
    return clicked.map((i) => `${i}${this.known[this.pressed.get(i)].sign}`).join(",");
  }

  async set(text, blanks = "") {
    this.text = this.input.value = text;
    this.pressed = this.#parsed(blanks);
    await this.#read("set");
  }
}

// The template of a sampler: [MASK] for every token of the chosen words, or of all words where none is chosen.
export function maskedTemplate(sentence) {
  const masks = (one) => Array(one.pieces).fill("[MASK]").join(sentence.letters ? "" : " ");
  const chosen = (i) => !sentence.pressed.size || sentence.pressed.has(i);
  return sentence.template(masks, chosen, true);
}
