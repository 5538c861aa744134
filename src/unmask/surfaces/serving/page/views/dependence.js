// Dependence: arcs between the words of a text, as wide as their mutual information.
import { card } from "../cards.js";
import { arcs } from "../drawing/arcs.js";
import { choices } from "../drawing/controls.js";
import { h } from "../drawing/dom.js";
import { heatmap } from "../drawing/heatmap.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

const OF_PAIR = [38, 22]; // width and height of a cell, in pixels
const PATIENCE = 220; // milliseconds that the pointer rests on an arc before its pair is shown
const COLOURS = ["plain", "off"]; // "off": arcs of pairs whose conditionals are far from any joint have another colour

export default view({
  name: "dependence",
  title: "Dependence",
  verb: "dependence",
  options: ["construction", "others", "candidates"],
  heading: (page) => `Which ${page.word}s depend on each other?`,
  hint: (page) => `Every pair is measured; choose two or more ${page.word}s to measure only those, as blanks.`,
  state: () => ({ defaults: { pair: "", colour: "plain" }, allowed: { colour: COLOURS } }),

  make(page) {
    const { state, sentence } = page;
    page.forgotten = { pair: "" }; // another text or option has other pairs
    let timer = null; // runs while the pointer rests on an arc

    // ---- the question ----

    // The places of the chosen words that are measured: all but the one in whose place another word is pinned. The
    // model reads that word instead.
    function measured() {
      const pinned = sentence.pinnedWord;
      return sentence.chosen.filter((place) => place !== pinned?.place);
    }

    // Whether only some words are measured, and not every pair of the text.
    const isSome = () => sentence.typed || measured().length >= 2;

    // The request, or what is missing for one. It is one of three:
    //
    // 1. every pair of the text, where `others` says what stands in the other places;
    // 2. the pairs of the chosen words, by their positions in the text;
    // 3. the pairs of the blanks of a text. The chosen words become blanks if one of the blanks was typed, or if one of
    //    the words has no position that can be named, as the model does not know it.
    function body() {
      if (sentence.words.length === 0) return `Write a ${page.text}.`;
      const { others, ...options } = page.options(); // `others` is for every pair alone
      if (!isSome()) {
        const given = others === undefined ? {} : { others };
        return { text: sentence.whole, ...given, ...options };
      }
      const canName = measured().every((place) => {
        const { known, positions } = sentence.words[place];
        return known && positions.length > 0;
      });
      if (sentence.typed || !canName) return { text: sentence.masked(), ...options };
      const positions = measured().flatMap((place) => sentence.positions(place));
      const masked = positions.length > 2 ? { others: "masked" } : {}; // beside a single pair nothing else is measured
      return { text: sentence.whole, positions, ...masked, ...options };
    }

    // ---- the chosen pair ----

    // The pair of the address, else the most dependent one.
    function chosenPair(answer) {
      const { pairs } = answer.drawn;
      return pairs.find((pair) => pair.key === state.pair) ?? pairs[0];
    }

    // Whether the answer that is drawn is of an older question. Its pairs are not chosen: in the next answer the same
    // positions may be another pair.
    const isOld = () => page.stage.classList.contains("stale");

    // reason   "quiet": without a step of the browser's history, as the pair was only pointed at
    function pick(pair, reason = "") {
      clearTimeout(timer);
      if (isOld()) return;
      page.set({ pair: pair.key }, { reason, ask: false });
    }

    // The pointer comes onto an arc. Its pair is chosen if the pointer rests, and no other question is asked meanwhile.
    function enter(pair) {
      clearTimeout(timer);
      if (isOld()) return;
      const { signal } = page.question;
      const rested = () => {
        const isSameQuestion = signal === page.question.signal;
        if (isSameQuestion) pick(pair, "quiet");
      };
      timer = setTimeout(rested, PATIENCE);
    }

    function exit() { clearTimeout(timer); }

    // ---- cards ----

    // What the "Save" menu of a card needs: every measured pair, whatever the card shows.
    function filesOfPairs(answer) {
      return { rows: () => rowsOf(answer.drawn.table), data: () => answer, part: answer.drawn.part };
    }

    // The lines below a saved picture.
    function textAndModel(answer) {
      return [`“${answer.text}”`, page.about.model, ...answer.view.about];
    }

    function information(answer, on) {
      const { pieces, pairs } = answer.drawn;
      const { width: widthLegend, off: offLegend, drawn: whichPairs } = answer.drawn; // sentences below the arcs
      const { about, verdict, notices } = answer.view;
      const isColoured = state.colour === "off";
      const colours = [["plain", "Dependence"], ["off", "… and incompatibility", offLegend]];
      const tools = [choices("colour", state.colour, colours, (colour) => page.set({ colour }, { ask: false }))];
      const legend = h("p", { class: "key" },
        h("span", {}, widthLegend),
        isColoured ? h("span", { class: "less" }, offLegend) : null,
        whichPairs === "" ? null : h("span", { class: "plain" }, whichPairs));
      const isOff = (pair) => isColoured && pair.off;
      const title = "Mutual information";
      return card({ title, name: "dependence", ...filesOfPairs(answer), of: () => textAndModel(answer), tools },
        sentences(about), arcs(pieces, pairs, { isOff, enter, exit, pick, on }), legend,
        sentences(verdict, "lead"), sentences(notices));
    }

    // The server's list and its pairs have one order, the most dependent first: a row is the pair of the same number.
    function strongest(answer, on) {
      const { pairs, strongest: table } = answer.drawn;
      const button = (pair, name) => h("button", {
        type: "button", "data-key": `pair:${pair.key}`, "aria-pressed": String(pair === on), onclick: () => pick(pair),
      }, name);
      const cell = (row, column, name) => (column === 0 ? button(pairs[row], name) : null);
      return card({ title: "Strongest pairs", name: "pairs", ...filesOfPairs(answer) },
        drawnTable(table, { label: "pairs by mutual information", cell }));
    }

    function pairCard(answer, on) {
      const files = { data: () => on, of: () => textAndModel(answer) };
      return card({ title: on.name, label: "the chosen pair", name: "pair", ...files },
        h("p", {}, on.caption), heatmap(on.map, { cell: OF_PAIR }));
    }

    function cards(answer) {
      const on = chosenPair(answer);
      const tables = answer.view.tables.map((table) => {
        const how = { title: "As a table", name: "table", rows: () => rowsOf(table), data: () => answer };
        return card(how, drawnTable(table, { label: "every pair" }), sentences(table.notes));
      });
      return [
        information(answer, on),
        h("div", { class: "columns" }, strongest(answer, on),
          h("div", { "aria-live": "polite" }, pairCard(answer, on))),
        ...tables,
      ];
    }

    const considered = page.word === "word" ? "Words considered" : "Residues considered";
    return {
      body,
      controls: () => [
        page.option("construction", { label: "Construction" }),
        isSome() ? null : page.option("others", { label: `Other ${page.word}s` }),
        page.option("candidates", { label: considered }),
      ],
      cards,
      tell: (answer) => answer.drawn.told,
      past: () => page.answer.text,
      leave: () => clearTimeout(timer),
    };
  },
});
