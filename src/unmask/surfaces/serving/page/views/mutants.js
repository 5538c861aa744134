// Mutants: the effect of every single change of a sequence, and of two changes together.
import { card } from "../cards.js";
import { choices, select } from "../drawing/controls.js";
import { h } from "../drawing/dom.js";
import { heatmap, layerOf } from "../drawing/heatmap.js";
import { lasting } from "../drawing/update.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

// Width and height of a cell, in pixels; `least` is the width to which a long sequence narrows it.
const SIZE_OF_SINGLES = { cell: [16, 14], least: 8.5 };
const SIZE_OF_DOUBLES = { cell: [24, 18] };
const SEQUENCE_AXIS = 1; // of the map of single changes, as `heatmap` numbers axes: the columns
const HINT_OF_SINGLES = "Point at a cell for its mutant; a click chooses the residue.";
const HINT_OF_DOUBLES = "Point at a cell for its mutant.";

export default view({
  name: "mutants",
  title: "Mutants",
  verb: "mutants",
  shown: (about) => about.by_character,
  options: ["construction"],
  heading: () => "What does a change do?",
  hint: () => "Choose two residues to see their double mutants; every single mutant is below.",
  sentence: () => ({ blanked: false }),
  state: () => ({ defaults: { number: "", pair: "" } }),

  make(page) {
    const mutants = new Mutants(page);
    page.forgotten = { pair: "" }; // another sequence or construction begins with the first pair
    return {
      body: () => mutants.body(),
      ask: (question, body) => mutants.ask(question, body),
      controls: () => [page.option("construction", { label: "Construction" })],
      cards: ({ doubles, singles }) => mutants.cards(doubles, singles),
      tell: ({ doubles, singles }) => (doubles ?? singles)?.drawn.told,
      past: () => calledInPast(page.answer),
    };
  },
});

const newReadout = () => lasting(h("p", { class: "readout", "aria-live": "polite" }));

// What the list of past questions calls an answer: the pair that was measured, where there is one, and the sequence.
function calledInPast({ doubles, singles }) {
  return doubles === null ? singles.sequence : `${doubles.pair.join(", ")} of ${doubles.sequence}`;
}

// Records of an answer for a file. All records have the same keys, which are the heads.
function rowsOfRecords(records) {
  if (records.length === 0) return [];
  const heads = Object.keys(records[0]);
  return [heads, ...records.map((record) => heads.map((head) => record[head]))];
}

// singles            the answer of every single change of the sequence; null before there is one
// scanned            the question that `singles` answers, as JSON
// readoutOfSingles   the line below the map of single changes: the cell that was looked at last, or what to do
// readoutOfDoubles   the same of double changes
class Mutants {
  constructor(page) {
    this.page = page;
    this.singles = null;
    this.scanned = "";
    this.readoutOfSingles = newReadout();
    this.readoutOfDoubles = newReadout();
  }

  // ---- the questions ----

  // Each two of the residues that are chosen, by their places, counted from 1.
  #pairs() {
    const places = this.page.sentence.chosen.map((i) => i + 1);
    const pairs = [];
    for (const [n, first] of places.entries()) {
      for (const second of places.slice(n + 1)) pairs.push([first, second]);
    }
    return pairs;
  }

  // The pair that is measured: that which the address names, else the first one; null where fewer than two residues
  // are chosen.
  #pair() {
    const pairs = this.#pairs();
    const named = pairs.find((pair) => addressOf(pair) === this.page.state.pair);
    return named ?? pairs[0] ?? null;
  }

  body() {
    const { page } = this;
    const { sentence } = page;
    if (!sentence.text.trim()) return "Write a sequence.";
    if (sentence.typed) return "Mutants are of a whole sequence: write the residue in place of the blank.";
    const pair = this.#pair();
    if (pair === null) return this.#bodyOfSingles();
    return { sequence: sentence.text, positions: pair, changes: 2, ...page.options() };
  }

  #bodyOfSingles() {
    const { sentence } = this.page;
    const every = sentence.words.map((_, i) => i + 1);
    return { sequence: sentence.text, positions: every, ...this.page.options() };
  }

  // The double mutants are asked for first, and shown as soon as they are there. The single ones are asked for once for
  // a sequence and a construction: another pair changes the double mutants alone.
  async ask(question, body) {
    const { page } = this;
    const pairs = this.#pairs();
    const pair = this.#pair();
    const scan = this.#bodyOfSingles();
    const isScanned = this.scanned === JSON.stringify(scan);
    if (!isScanned) this.singles = null; // they are of another sequence or construction
    let doubles = null;
    if (pair !== null) {
      const answer = await question.slowly("mutants", body);
      doubles = { ...answer, pairs, pair };
      this.readoutOfDoubles.replaceChildren(HINT_OF_DOUBLES);
      page.show({ doubles, singles: this.singles });
      question.stale(false); // all that is drawn is the answer, also while the single mutants are asked for
    }
    const isComplete = this.singles !== null && this.singles.drawn.part === "";
    if (!isComplete && question.stopped) { // a person who pressed Stop waits for nothing more
      question.isPart = true;
      return;
    }
    if (!isComplete) await this.#scan(question, scan);
    page.show({ doubles, singles: this.singles });
  }

  async #scan(question, scan) {
    this.singles = await question.slowly("mutants", scan);
    this.scanned = JSON.stringify(scan);
    this.readoutOfSingles.replaceChildren(HINT_OF_SINGLES);
  }

  // ---- the cards ----

  cards(doubles, singles) {
    return [doubles && this.#doublesCards(doubles), singles && this.#singlesCard(singles)];
  }

  // The lines below a picture that is saved: what it shows.
  #linesOf(answer) { return [answer.sequence, this.page.about.model, ...answer.view.about]; }

  #singlesCard(singles) {
    const { page, readoutOfSingles } = this;
    const { title, grid, part } = singles.drawn;
    const { sentence } = page;
    const layer = layerOf(grid, grid.shown); // the only one
    const drawn = heatmap(grid, {
      ...SIZE_OF_SINGLES,
      head: (axis, { id }) => ({ pressed: axis === SEQUENCE_AXIS && sentence.pressed.has(id) }), // `id`: place from 0
      press: (row, column) => this.#pressResidue(singles, column),
      look: (i, j) => readOut(readoutOfSingles, grid.cells[i][j]),
    });
    const how = {
      title, name: "singles", part, rows: () => rowsOfRecords(singles.mutants), data: () => singles,
      of: () => this.#linesOf(singles),
    };
    return card(how,
      sentences(singles.view.about), drawn, readoutOfSingles, sentences([layer.meaning]),
      sentences(singles.view.verdict, "lead"));
  }

  // Chooses the residue of a column of the map, as a click on it in the sequence does: every residue has a column, in
  // the order of the sequence. A map of an earlier sequence chooses nothing.
  #pressResidue(singles, column) {
    const { sentence } = this.page;
    if (singles.sequence !== sentence.text) return;
    const buttons = sentence.list.querySelectorAll("button.word");
    buttons[column].click();
  }

  #doublesCards(doubles) {
    const { page, readoutOfDoubles } = this;
    const { title, grid, part } = doubles.drawn;
    const layer = layerOf(grid, page.state.number);
    const drawn = heatmap(grid, {
      ...SIZE_OF_DOUBLES, layer: layer.name, look: (i, j) => readOut(readoutOfDoubles, grid.cells[i][j]),
    });
    const how = {
      title, label: "double mutants", name: "doubles", part, rows: () => rowsOfRecords(doubles.mutants),
      data: () => answerOf(doubles), of: () => this.#linesOf(doubles),
      tools: [this.#pairMenu(doubles), this.#layerButtons(grid, layer)],
    };
    const map = card(how, drawn, readoutOfDoubles, sentences([layer.meaning]));
    return h("div", { class: "columns" }, map, this.#bestCard(doubles));
  }

  #bestCard(doubles) {
    const { about, tables, verdict } = doubles.view;
    const { part } = doubles.drawn;
    const [table] = tables;
    const how = {
      title: "Best mutants", name: "best-doubles", part, rows: () => rowsOf(table), data: () => answerOf(doubles),
    };
    return card(how,
      sentences(about), drawnTable(table, { label: "numbers of the best double mutants" }),
      sentences([...table.notes, ...verdict]));
  }

  // Where more than two residues were chosen: which two.
  #pairMenu({ pairs, pair, drawn }) {
    if (pairs.length < 2) return null;
    const nameOf = (places) => places.map((place) => drawn.residues[place - 1]).join(" and ");
    const offered = pairs.map((places) => [addressOf(places), nameOf(places)]);
    return select("Pair", addressOf(pair), offered, (next) => this.page.set({ pair: next }));
  }

  #layerButtons(grid, shown) {
    const offered = grid.layers.map((layer) => [layer.name, layer.label, layer.meaning]);
    return choices("number", shown.name, offered, (number) => this.page.set({ number }, { ask: false }));
  }
}

// A pair as the address has it.
function addressOf(pair) { return pair.join("-"); }

// The answer of the server, without what was asked.
function answerOf({ pairs, pair, ...answer }) { return answer; }

function readOut(line, { name, numbers }) {
  line.replaceChildren(h("strong", {}, name), ` ${numbers}`);
}
