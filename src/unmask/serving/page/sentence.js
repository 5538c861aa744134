// A sentence to type, and its words as buttons: pressed ones are blanks. Blanks can be typed, too, as [MASK], [WORD], [GAP:3], <mask> or ___.
import { ask, Latest } from "./api.js";
import { direction, h, shown } from "./drawing/dom.js";
import { arrows } from "./drawing/arrows.js";
import { keeping } from "./focus.js";
import { Status } from "./status.js";

const WAIT = 350;
const KINDS = { token: ["", "[MASK]", "one token"], word: ["w", "[WORD]", "a whole word"], gap: ["g", "[GAP:1-3]", "1 to 3 tokens"] };

// "3,5w" is the fourth word as one token, and the sixth as a whole word.
const parsed = (blanks) => new Map(blanks.split(",").map((part) => part.match(/^(\d+)([wg]?)$/)).filter(Boolean).map(([, i, sign]) => [Number(i), Object.keys(KINDS).find((kind) => KINDS[kind][0] === sign)]));

export class Sentence {
  // change(reason) is called when the text, the words or the pressed ones are others than before; fail(error) when a text is refused.
  // kinds: those that a blank can be made by clicking; hides: whether pressed words are covered.
  constructor({ about, label = "A sentence", text, blanks = "", pin = "", hint, kinds = ["token"], hides = true, change, fail }) {
    Object.assign(this, { text, pressed: parsed(blanks), pin, words: [], filled: new Map(), kinds, hides, change, fail, letters: about.by_character });
    this.latest = new Latest();
    this.status = new Status(hint);
    this.input = h("input", { type: "text", value: text, dir: "auto", maxLength: about.limits.longest_text, spellcheck: false, autocomplete: "off", oninput: () => this.#later() });
    this.list = h("ul", { class: this.letters ? "words letters" : "words", "aria-label": hint });
    this.unknown = h("p", { class: "unsaid", role: "status", hidden: true });
    this.element = h("section", { class: "sentence card" }, h("label", {}, h("span", {}, this.letters ? "A sequence" : label), this.input), this.list, this.unknown, this.status.element);
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
      this.#read("typing");
    }, WAIT);
  }

  async #read(reason) {
    try {
      const before = this.words;
      this.words = this.text.trim() ? (await ask("words", { text: this.text }, this.latest.begin())).words : [];
      if (reason === "typing") this.#carry(before);
      this.pressed = new Map([...this.pressed].filter(([i]) => i < this.words.length));
      this.words.forEach((word, i) => word.blank && this.pressed.set(i, word.blank));
      this.filled.clear();
      if (reason !== "begin") this.pin = "";
      this.draw();
      this.change(reason);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.words = [];
      this.draw();
      this.fail(error);
    }
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
    const found = this.pin.match(/^([01]):(\d+)(?::(.*))?$/s);
    return found && Number(found[1]) < this.pressed.size ? { blank: Number(found[1]), token: Number(found[2]), word: found[3] } : null;
  }

  get #pinnedWord() { return this.pinned?.word === undefined ? null : [this.chosen[this.pinned.blank], this.pinned.word.replace(/^##/, "")]; }

  draw() {
    keeping(this.list, () => this.#draw());
    const strange = [...new Set(this.words.filter((word) => !word.known).map((word) => `“${word.text}”`))];
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
        type: "button", class: marks, "aria-pressed": String(Boolean(kind)), "data-key": `word:${i}`, title: word.known ? `${place}${word.text}${pieces}` : `${word.text}: the model does not know it`,
        "aria-label": `${place}${word.text}${kind ? `, chosen${put ? `, ${put}` : ""}` : ""}`, onclick: () => this.#toggle(i) },
      put ?? covered),
      kind && this.kinds.length > 1 ? h("button", { type: "button", class: "kind", "data-key": `kind:${i}`, title: "Click to make it another kind of blank", "aria-label": `blank ${this.chosen.indexOf(i) + 1}: ${this.#extent(word, kind)}; change its kind`, onclick: () => this.#turn(i, kind) }, this.#extent(word, kind)) : null);
  }

  #extent(word, kind) {
    const [, least, most] = word.text.match(/^\[GAP:\s*(\d+)\s*-?\s*(\d*)/) ?? [];
    if (this.letters && !least) return kind === "gap" ? "1–3" : "1";
    if (kind !== "gap" || !least) return KINDS[kind][2];
    return most && most !== least ? `${least} to ${most} tokens` : least === "1" ? "one token" : `${least} tokens`;
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
    this.text = this.input.value = [...points.slice(0, this.words[i].start), KINDS[next][1], ...points.slice(this.words[i].end)].join("");
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
  template(masks = (word, kind) => KINDS[kind][1], chosen = (i) => this.pressed.has(i), pins = false) {
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
  get blanks() { return this.chosen.filter((i) => !this.words[i]?.blank).map((i) => `${i}${KINDS[this.pressed.get(i)][0]}`).join(","); }
  get several() { return [...this.pressed.values()].some((kind) => kind !== "token"); }
  get typed() { return this.words.some((word) => word.blank); }

  async set(text, blanks = "") {
    this.text = this.input.value = text;
    this.pressed = parsed(blanks);
    await this.#read("set");
  }
}
