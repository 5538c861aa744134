// Fill: the joint of the blanks, beside what independent blanks would say. What is asked, and what a person does with
// the answer; fill/cards.js draws it.
import { h } from "../drawing/dom.js";
import { lasting } from "../drawing/update.js";
import { view } from "../view.js";
import { fillCards } from "./fill/cards.js";

const ALL = "all"; // as a number of candidates

export default view({
  name: "fill",
  title: "Fill",
  verb: "fill",
  options: ["construction", "candidates"],
  heading: () => "What stands in the blanks?",
  hint: (page) => `Click a ${page.word} to blank it; click it again to put it back.`,
  state: () => ({ defaults: { colour: "", cell: "" } }),
  sentence: ({ about }) => {
    const kinds = about.kinds.map((kind) => kind.name);
    // A blank of a whole word needs tokens that tell where words begin.
    const usable = about.whole_words ? kinds : kinds.filter((name) => name !== "word");
    return { hides: true, kinds: usable }; // the words in the blanks are covered
  },

  make(page) {
    const fill = new Fill(page);
    page.forgotten = { cell: "" }; // with another text, or other options, no cell is chosen
    return {
      body: () => fill.body(),
      ask: (question, body) => fill.ask(question, body),
      controls: () => fill.controls(),
      cards: (answer) => fillCards(fill, answer),
      tell: (answer) => answer.drawn.told,
    };
  },
});

// compared      the last answer to a comparison of all constructions; null while there is none for these blanks
// comparedFor   the question that it answers, as JSON
// isLeftOut     whether the comparison that `ask` makes beside a map was stopped, or failed
// readout       the line below the map: the cell that is looked at
class Fill {
  constructor(page) {
    this.page = page;
    this.compared = null;
    this.comparedFor = "";
    this.isLeftOut = false;
    this.readout = lasting(h("p", { class: "readout", "aria-live": "polite" }));
  }

  // ---- the question ----

  // The request, or what is missing for one.
  body() {
    const { sentence, word } = this.page;
    if (sentence.chosen.length > 0) return this.#request();
    return `Click one ${word} to see what could stand there, or two to see how they depend on each other.`;
  }

  #request() {
    return { ...this.#text(), ...this.#options(), ...this.#given() };
  }

  get #isSingle() { return this.page.sentence.chosen.length === 1; }

  // The options that decide something: the server refuses others. Blanks of several lengths have none. A single blank
  // has the same distribution by every construction, and over all tokens unless a number of them is given.
  #options() {
    const { page } = this;
    if (page.sentence.several) return {};
    const options = page.options();
    if (this.#isSingle) {
      delete options.construction;
      if (options.candidates === ALL) delete options.candidates;
    }
    return options;
  }

  // Where the blanks are words of one token each, the whole text is asked with their positions: the answer then says
  // what stands there, too. Otherwise the blanks are written into the text that is asked.
  #text() {
    const { sentence } = this.page;
    const words = sentence.chosen.map((i) => sentence.words[i]);
    const areTokens = words.every((one) => one.known && one.positions.length === 1);
    if (sentence.several || sentence.typed || !areTokens) return { text: sentence.template() };
    return { text: sentence.text, positions: words.flatMap((one) => one.positions) };
  }

  // The word that is pinned, by the number of its blank, counted from 1.
  #given() {
    const { pinned } = this.page.sentence;
    if (!pinned) return {};
    const number = pinned.blank + 1;
    return { given: { [number]: pinned.word } };
  }

  // The question whose answer has every construction: it names none, and has no pin.
  #comparison() {
    const comparison = this.#request();
    delete comparison.construction;
    delete comparison.given;
    return comparison;
  }

  // Asks, and then compares the constructions on two blanks. A comparison of more blanks takes as long as their answer:
  // it has a button.
  async ask(question, body) {
    const { page } = this;
    const comparison = this.#comparison();
    if (this.comparedFor !== JSON.stringify(comparison)) this.compared = null;
    this.isLeftOut = false;
    const answer = await question.slowly("fill", body);
    this.#fillChosen(answer);
    const hasToCompare = answer.drawn.map !== null && this.compared === null;
    this.isLeftOut = hasToCompare && question.stopped; // a person who pressed Stop waits for nothing more
    page.show(answer);
    if (this.isLeftOut) question.isPart = true;
    else if (hasToCompare) await this.#compare(question, comparison);
  }

  // A comparison that is stopped has no answer: `slowly` raises, and nothing is kept.
  async #compare(question, comparison) {
    const { signal } = question;
    question.stale(false); // what is drawn is the answer on these blanks
    question.say("comparing constructions …");
    try {
      this.compared = await question.slowly("compare", comparison);
    } catch (error) {
      const isLatest = signal === question.signal;
      if (isLatest) {
        this.isLeftOut = true;
        this.page.draw(); // with the button
      }
      throw error;
    }
    this.comparedFor = JSON.stringify(comparison);
    this.page.draw();
  }

  // Whether there is a button that asks for a comparison.
  canCompare(answer) {
    if (this.page.sentence.chosen.length < 2) return false;
    if (answer.search) return false; // what was found by a search has one construction
    const isAskedAnyway = answer.drawn.map !== null && !this.isLeftOut; // `ask` compares beside a map
    return this.compared === null && !isAskedAnyway;
  }

  compare() {
    if (this.#isOld) return;
    const comparison = this.#comparison();
    this.page.question.run((question) => this.#compare(question, comparison));
  }

  // ---- the options ----

  controls() {
    const { page } = this;
    const { sentence, word } = page;
    const decidesNothing = sentence.several || sentence.chosen.length === 0; // see `#options`
    if (decidesNothing) return [];
    const capital = word.charAt(0).toUpperCase() + word.slice(1);
    const candidates = page.option("candidates", {
      label: `${capital}s considered`, usual: this.#isSingle ? ALL : undefined,
      change: (value) => this.#setCandidates(value),
    });
    if (this.#isSingle) return [candidates];
    // Where the question names no construction, its answer says which one it has.
    const isNamed = page.state.construction !== "";
    const usual = isNamed ? undefined : page.answer?.construction;
    const meaning = page.meaning("construction");
    return [
      page.option("construction", {
        label: "Construction", usual, change: (construction) => this.setConstruction(construction),
      }),
      candidates,
      meaning && h("p", { class: "note" }, meaning),
    ];
  }

  setConstruction(construction) { this.#askAnother({ construction }); }

  // Without the pin: other candidates may not have the pinned word.
  #setCandidates(candidates) { this.#askAnother({ candidates, pin: "" }); }

  // Asks with other values. The words that were put into the blanks leave the text.
  #askAnother(values) {
    const { page } = this;
    const { sentence } = page;
    sentence.pin = values.pin ?? sentence.pin;
    sentence.filled.clear();
    sentence.draw();
    page.set({ ...values, cell: "" });
  }

  // ---- the map and the pin ----

  // Pins a token in a blank, or unpins it if it is pinned. The next answer is given what is pinned.
  // bar   a bar of the blank, or a head of the map: `id` is the token's number, `token` its spelling
  pin(blank, bar) {
    if (this.#isOld) return;
    const { pinned } = this.page.sentence; // {blank, token, word}; its `token` is the number, as `bar.id` is
    const isPinned = pinned !== null && pinned.blank === blank && pinned.token === bar.id;
    const pin = isPinned ? "" : `${blank}:${bar.id}:${bar.token}`;
    this.#askAnother({ pin });
  }

  unpin() { this.#askAnother({ pin: "" }); }

  // Whether the answer that is drawn is of an older question: its words are not for these blanks.
  get #isOld() { return this.page.stage.classList.contains("stale"); }

  // Puts the words of a cell into the text.
  choose(grid, i, j) {
    if (this.#isOld) return;
    const row = grid.rows[i];
    const column = grid.columns[j];
    this.page.sentence.fillIn([row.token, column.token]);
    this.page.set({ cell: `${row.id}:${column.id}` }, { ask: false });
  }

  // Puts the words of a completion into the text; they need not be those of the cell that was chosen.
  put(words) {
    if (this.#isOld) return;
    this.page.sentence.fillIn(words);
    this.page.set({ cell: "" }, { ask: false });
  }

  // Puts the words of the cell that the address names into the text, where none are put there yet.
  #fillChosen(answer) {
    const { map } = answer.drawn;
    const { sentence } = this.page;
    if (!map || sentence.filled.size > 0) return;
    const chosen = this.chosenCell(map.grid);
    if (chosen === null) return;
    const [i, j] = chosen;
    sentence.fillIn([map.grid.rows[i].token, map.grid.columns[j].token]);
  }

  // [row, column] of the cell that the address names; null if it is not on the map.
  chosenCell(grid) {
    const [first, second] = this.page.state.cell.split(":");
    const row = grid.rows.findIndex((head) => String(head.id) === first);
    const column = grid.columns.findIndex((head) => String(head.id) === second);
    return row >= 0 && column >= 0 ? [row, column] : null;
  }

  // ---- the words that were put into the text ----

  canKeep() {
    const { sentence } = this.page;
    return sentence.filled.size > 0 && !sentence.typed;
  }

  keep() {
    const { sentence } = this.page;
    const { filled, words } = sentence;
    const written = (word) => filled.get(words.indexOf(word)) ?? word.text; // a blank without a word in it has its own
    return sentence.set(sentence.template({ blank: written }));
  }
}
