// A text to type, and its words as buttons: pressed ones are blanks. Blanks can be typed, too.
import { Refused } from "./ask.js";
import { arrows } from "./drawing/arrows.js";
import { h } from "./drawing/dom.js";
import { direction, shown } from "./drawing/text.js";
import { update } from "./drawing/update.js";
import { carried, parsed } from "./pressed.js";
import { kindButton, unknownLine, wordItem } from "./words.js";

const WAIT = 350; // milliseconds after the last letter before the text is read
// What is pinned, as the address has it: the number of the blank, the first or the second; the id of the token; and its
// word, which may be missing, but not empty. "0:2003:cat" is the token 2003, "cat", in the first blank.
const PIN = /^(?<blank>[01]):(?<token>\d+)(?::(?<word>.+))?$/s;

// The fields that views read, besides the methods below:
//
// text      the text that was read last; the field may have later letters
// unread    "" if `words` are those of the latest text. Otherwise nothing is asked, and this line says why: the first
//           text is not read yet, the latest text was refused, or the server is away.
// words     as the server cuts it: {text, start, end, pieces, positions, blank, ...} each; none if it was refused
// pressed   a map from the place of a pressed word to the kind of its blank
// filled    a map from the place of a pressed word to what is shown there
// pin       as the address has it, see PIN
export class Sentence {
  // about      what the server says of the model
  // question   that of the view: it shows why a text cannot be read, and looks whether the server is back
  // label      of the field
  // state      {text, blanks, pin} of the address
  // change     (reason) => called when the text, the words or the pressed ones are others than before; the text may be
  //            one that the server refused. The reason is
  //
  //   begin    the text of the address, or the example, was read
  //   typing   a text that a person typed or pasted was read
  //   set      a text that the page put there was read
  //   words    another word is pressed, or is another kind of blank
  //
  // kinds      of the blanks that can be made by clicking
  // hides      whether pressed words are covered
  // blanked    whether pressed words are not read by the model
  // pins       whether what is pinned is read in place of its word
  constructor({
    about, question, label, state, change, kinds = ["token"], hides = false, blanked = true, pins = true,
  }) {
    this.question = question;
    this.change = change;
    this.kinds = kinds;
    this.hides = hides;
    this.blanked = blanked;
    this.pins = pins;
    this.letters = about.by_character;
    this.known = Object.fromEntries(about.kinds.map((kind) => [kind.name, kind]));
    const { text, blanks = "", pin = "" } = state;
    this.text = text;
    this.pin = pin;
    this.pressed = parsed(blanks, about.kinds);
    this.words = [];
    this.unread = "The text has not been read yet.";
    this.lastWords = null; // of the last text that was not refused: `pressed` counts in these; null until one is read
    this.unknownSentence = ""; // of the server: what happens to unknown words
    this.filled = new Map();
    this.timer = null; // runs while letters are typed that are not read yet
    this.readings = 0; // texts that were read or are being read
    this.controller = null; // ends the request that reads the latest one
    this.isPlaced = false; // whether the first chosen residue was brought into sight
    this.#make(label);
  }

  #make(label) {
    const [usualLabel, units] = this.letters ? ["A sequence", "residues"] : ["A sentence", "words"];
    this.input = h("input", {
      type: "text", value: this.text, dir: "auto", spellcheck: false, autocomplete: "off",
      oninput: () => this.#later(), onpaste: (event) => this.#paste(event),
    });
    this.list = h("ul", { class: this.letters ? "words letters" : "words", "aria-label": units });
    if (this.letters) arrows(this.list);
    this.unknown = h("p", { class: "unsaid", role: "status", hidden: true });
    this.held = h("p", { class: "note", hidden: true });
    this.element = h("section", { class: "sentence card" },
      h("label", {}, h("span", {}, label ?? usualLabel), this.input),
      this.list, this.held, this.unknown, this.question.element);
  }

  async begin() { await this.#read(this.text, "begin"); }

  leave() {
    clearTimeout(this.timer);
    this.controller?.abort();
    this.question.leave();
  }

  // ---- the text ----

  // A field of one line joins the lines of what is pasted: a header of FASTA would become part of the sequence. So a
  // paste of several lines, or of a header, is read in place of what is marked in the field. A record, which begins
  // with a header, is read in place of the whole sequence.
  async #paste(event) {
    const pasted = event.clipboardData.getData("text").trimStart(); // a header is one at the start of its line
    const hasLinesOrHeader = /[\n>]/.test(pasted);
    if (!this.letters || !hasLinesOrHeader) return;
    event.preventDefault();
    const { value, selectionStart, selectionEnd } = this.input;
    const before = value.slice(0, selectionStart);
    const after = value.slice(selectionEnd);
    const isRecord = pasted.startsWith(">");
    const text = isRecord ? withoutOnlyHeader(pasted) : before + pasted + after;
    this.input.readOnly = true; // a letter typed now would be one of the text before, and the paste would be lost
    try {
      await this.#read(text, "typing");
    } finally {
      this.input.readOnly = false;
    }
  }

  #later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#read(this.input.value, "typing"), WAIT);
  }

  // Reads a text in place of any other that is being read, or waits for it. If that fails, the question says why.
  // pressed   the pressed words of a text that the page puts there
  async #read(text, reason, pressed = null) {
    this.readings += 1;
    const number = this.readings;
    try {
      await this.#readNow(text, reason, pressed);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Refused)) throw error; // a fault of the page
      this.question.fail(error, (question) => this.#readAgain(question, number, text, reason, pressed));
    }
  }

  // "Retry" of a text that could not be read. The question runs it: it shows an error that is thrown here, and its
  // signal ends the request. If a later text was typed or read, nothing is read here and no error is thrown.
  // number   what `readings` was at the reading that failed
  async #readAgain({ signal }, number, text, reason, pressed) {
    const isOutdated = () => number !== this.readings || this.timer !== null;
    if (isOutdated()) return;
    try {
      await this.#readNow(text, reason, pressed, [signal]);
    } catch (error) {
      if (!isOutdated()) throw error;
    }
  }

  // signals   others that end the request
  async #readNow(text, reason, pressed, signals = []) {
    clearTimeout(this.timer);
    this.timer = null;
    this.controller?.abort();
    this.controller = new AbortController();
    const signal = AbortSignal.any([this.controller.signal, ...signals]);
    let read;
    try {
      if (reason === "typing") await this.#knowLastWords(signal);
      read = await this.#asked(text, signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.unread = error.message;
      this.#write(text); // what was pasted is not in the field yet
      if (!error.away) this.#haveNoWords(text, reason); // while the server is away, the words of the text before stay
      throw error;
    }
    this.#take(read, this.#pressedIn(read.words, reason, pressed));
    if (reason !== "begin") this.pin = "";
    this.draw();
    this.change(reason);
  }

  // Asks for the words of the address's text if letters were typed before it was read: the blanks of the address count
  // in them.
  async #knowLastWords(signal) {
    if (this.lastWords !== null) return;
    try {
      const { words } = await this.#asked(this.text, signal);
      this.lastWords = words;
    } catch (error) {
      const isRefusedText = error instanceof Refused && !error.away;
      if (!isRefusedText) throw error;
      this.lastWords = []; // its blanks are of no words, and none is pressed in the text that was typed
    }
  }

  // The words of a new text that are pressed, and the blanks that were typed into it. The pressed words are, by reason,
  //
  //   begin    those of the address
  //   set      `given`
  //   typing   those of the text before that are still there
  #pressedIn(words, reason, given) {
    const before = given ?? this.pressed;
    const pressed = reason === "typing" ? carried(before, this.lastWords, words) : before;
    const found = new Map([...pressed].filter(([place]) => place < words.length));
    words.forEach((word, place) => {
      if (word.blank) found.set(place, word.blank);
    });
    return found;
  }

  // What the server says of a text: {text, words, unknown}.
  async #asked(text, signal) {
    if (!text.trim()) return { text, words: [], unknown: "" };
    return this.question.api.ask("words", { text }, signal);
  }

  // Takes a text as the model reads it, with its words.
  #take({ text, words, unknown }, pressed) {
    this.text = text;
    this.unread = "";
    this.words = words;
    this.lastWords = words;
    this.pressed = pressed;
    this.unknownSentence = unknown;
    this.filled.clear();
    this.#write(text);
  }

  // Takes a text that the server refused. Its pressed words stay: they come back when the text is read again.
  #haveNoWords(text, reason) {
    this.text = text;
    this.words = [];
    this.lastWords ??= []; // the text of the address is refused: its blanks are of no words
    this.draw();
    this.change(reason);
  }

  // Writes a text into the field, unless a person has typed more meanwhile: those letters are read next.
  #write(text) {
    const isTyping = this.timer !== null;
    const isThere = text === this.input.value; // to write it again would move the cursor
    if (!isTyping && !isThere) this.input.value = text;
  }

  // Puts another text in the place of this one.
  async set(text, blanks = "") {
    await this.#readInstead(text, parsed(blanks, Object.values(this.known)));
  }

  async #readInstead(text, pressed) {
    this.input.value = text;
    await this.#read(text, "set", pressed);
  }

  // ---- pressed words ----

  #toggle(i) {
    const isTyped = Boolean(this.words[i].blank);
    if (isTyped) return; // it is a blank until its letters are deleted
    if (this.pressed.has(i)) this.pressed.delete(i);
    else this.pressed.set(i, "token");
    this.#changed();
  }

  // Makes a blank the next kind of blank; one that was typed is written anew.
  #turn(i) {
    const place = this.kinds.indexOf(this.pressed.get(i)); // -1: a kind that cannot be made by clicking
    const next = this.kinds[(place + 1) % this.kinds.length]; // after the last one, and after -1, the first
    const isTyped = Boolean(this.words[i].blank);
    if (isTyped) {
      const text = this.#withInstead(i, this.known[next].text);
      this.#readInstead(text, this.pressed);
    } else {
      this.pressed.set(i, next);
      this.#changed();
    }
  }

  #changed() {
    this.filled.clear();
    this.pin = "";
    this.draw();
    this.change("words");
  }

  // The places of the pressed words, from 0.
  get chosen() { return [...this.pressed.keys()].toSorted((one, other) => one - other); }

  // Whether a blank takes more tokens than one, or a number that is open.
  get several() { return [...this.pressed.values()].some((kind) => kind !== "token"); }

  // Whether a blank was typed.
  get typed() { return this.words.some((word) => word.blank); }

  // The blanks that were made by clicking, as the address has them. A text that was refused has none: `pressed` counts
  // in the words of the text before. A model that does not refuse the text may have other words at these places.
  get blanks() {
    if (this.words.length === 0) return "";
    const isClicked = (i) => !this.words[i].blank;
    const written = (i) => `${i}${this.known[this.pressed.get(i)].sign}`;
    return this.chosen.filter(isClicked).map(written).join(",");
  }

  // What is pinned: {blank, token, word}, the blank counted from 0; null without a pin, or without its blank.
  get pinned() {
    const found = this.pins ? this.pin.match(PIN) : null;
    if (!found) return null;
    const blank = Number(found.groups.blank);
    if (blank >= this.pressed.size) return null;
    return { blank, token: Number(found.groups.token), word: found.groups.word };
  }

  // The place of the pinned word and what is pinned in its place; null without a pin, or if it does not say the word.
  get pinnedWord() {
    const { pinned } = this;
    if (pinned === null || pinned.word === undefined) return null;
    return { place: this.chosen[pinned.blank], text: pinned.word.replace(/^##/, "") };
  }

  // Shows words in the blanks, in their order; the text stays as it is.
  fillIn(words) {
    this.filled = new Map(this.chosen.map((place, n) => [place, shown(words[n])]));
    this.draw();
  }

  // ---- what is asked ----

  // The text with a blank in place of each chosen word.
  // blank(word, kind)   what is written for a word
  // isChosen(i)         which words are replaced
  // withPin             whether the pinned word is written instead of its blank
  template({
    blank = (_, kind) => this.known[kind].text,
    isChosen = (i) => this.pressed.has(i),
    withPin = false,
  } = {}) {
    const pin = withPin ? this.pinnedWord : null;
    const written = (word, i) => {
      if (i === pin?.place) return pin.text;
      if (word.blank === "token") return "[MASK]"; // however it was typed
      if (word.blank) return word.text;
      const kind = this.pressed.get(i) ?? "token"; // `isChosen` may choose words that are not pressed
      return blank(word, kind);
    };
    const points = [...this.text]; // the server counts characters as these are counted, not as `slice` of a text does
    let out = "";
    let end = 0; // of the word before
    this.words.forEach((word, i) => {
      if (!isChosen(i)) return;
      out += points.slice(end, word.start).join("") + written(word, i);
      end = word.end;
    });
    return out + points.slice(end).join("");
  }

  // The text with [MASK] for every token of the chosen words, and with the pinned word if it is one of these.
  masked(isChosen = (i) => this.pressed.has(i)) {
    const blank = (word) => Array(word.pieces).fill("[MASK]").join(this.letters ? "" : " ");
    return this.template({ blank, isChosen, withPin: true });
  }

  // The text as a whole, with what is pinned in it.
  get whole() {
    const pin = this.pinnedWord;
    return pin === null ? this.text : this.#withInstead(pin.place, pin.text);
  }

  // The text with something else in place of a word.
  #withInstead(place, text) {
    const points = [...this.text];
    const { start, end } = this.words[place];
    return points.slice(0, start).join("") + text + points.slice(end).join("");
  }

  // Positions of the tokens of a word in `whole`; not of the word in whose place another is pinned. The pinned word is
  // one token there, however many the word in its place has, and the words behind it move by the difference.
  positions(i) {
    const pin = this.pinnedWord;
    const isBehindPin = pin !== null && i > pin.place;
    const shift = isBehindPin ? 1 - this.words[pin.place].pieces : 0;
    return this.words[i].positions.map((position) => position + shift);
  }

  // ---- what is drawn ----

  draw() {
    this.list.dir = direction(this.text);
    const first = this.chosen[0] ?? 0;
    update(this.list, this.words.map((word, i) => this.#item(word, i, first)));
    this.#showFirst(first);
    this.#sayPinned();
    this.#nameUnknown();
  }

  // A word in the list. first: the place of the first chosen word.
  #item(word, i, first) {
    const pin = this.pinnedWord;
    const isPinned = i === pin?.place;
    return wordItem(word, i, {
      letters: this.letters,
      hides: this.hides,
      kind: this.pressed.get(i),
      put: isPinned ? pin.text : this.filled.get(i),
      isPinned,
      isStop: i === first,
      press: () => this.#toggle(i),
      after: this.#turnButton(word, i),
    });
  }

  #turnButton(word, i) {
    if (!this.pressed.has(i) || this.kinds.length < 2) return null;
    const extent = word.extent ?? this.known[this.pressed.get(i)].extent;
    const number = this.chosen.indexOf(i) + 1;
    return kindButton(i, number, extent, () => this.#turn(i));
  }

  // Brings the first chosen residue of a long sequence into sight, when the page draws its first words.
  #showFirst(first) {
    if (!this.letters || !this.words.length || this.isPlaced) return;
    const { offsetTop } = this.list.children[first];
    this.list.scrollTop = Math.max(0, offsetTop - this.list.clientHeight / 2);
    this.isPlaced = true;
  }

  #sayPinned() {
    const pin = this.pinnedWord;
    const word = pin === null ? undefined : this.words[pin.place]; // none of a text that was refused
    this.held.hidden = word === undefined;
    this.held.textContent = word === undefined ? "" : `“${pin.text}” is pinned in place of “${word.text}”.`;
  }

  #nameUnknown() {
    const isRead = (i) => !(this.blanked && this.pressed.has(i));
    const read = this.words.filter((_, i) => isRead(i));
    this.unknown.textContent = unknownLine(this.unknownSentence, read);
    this.unknown.hidden = this.unknown.textContent === "";
  }
}

// A record without its header, as the server reads it: the field can have this in one line. Several records stay as
// they are: the server refuses them. Lines end where they end for Python's splitlines().
function withoutOnlyHeader(record) {
  const [, ...lines] = record.split(/\r\n|[\r\n\v\f\x85\u2028\u2029]/);
  const hasOtherHeader = lines.some((line) => line.startsWith(">"));
  return hasOtherHeader ? record : lines.join("\n");
}

// The template of a sampler: [MASK] for every token of the chosen words, or of all words where none is chosen.
export function maskedTemplate(sentence) {
  const isChosen = (i) => sentence.pressed.size === 0 || sentence.pressed.has(i);
  return sentence.masked(isChosen);
}
