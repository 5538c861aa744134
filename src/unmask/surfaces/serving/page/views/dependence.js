// Dependence: arcs between the words of a text, as wide as their mutual information.
import { card } from "../cards.js";
import { arcs } from "../charts.js";
import { choices, h } from "../drawing/dom.js";
import { heatmap } from "../drawing/heatmap.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

const LISTED = 10;
const PATIENCE = 220; // milliseconds that the pointer rests on an arc before its pair is shown
const COLOURS = ["plain", "off"];

export default view({
  name: "dependence",
  title: "Dependence",
  verb: "dependence",
  options: ["construction", "others", "candidates"],
  intro: (page) => [
    `Which ${page.word}s depend on each other?`,
    `Two ${page.word}s share information if knowing one changes what the model expects of the other.`,
  ],
  hint: (page) => `Every pair is measured; choose two or more ${page.word}s to measure only those, as blanks.`,
  state: () => [{ pair: "", colour: "plain" }, { colour: COLOURS }],

  make(page) {
    const { state, sentence } = page;
    page.forgotten = { pair: "" };
    let timer = null;

    const measured = () => {
      const pinned = sentence.pinned;
      return sentence.chosen.filter((i) => pinned?.word === undefined || i !== sentence.chosen[pinned.blank]);
    };
    const isSome = () => measured().length >= 2 || sentence.typed;
    // Words that the model knows are measured where they stand, the others of them masked; any other word is a blank.
    const standing = () => isSome() && !sentence.typed && measured().every((i) => sentence.words[i].known);

    function body() {
      if (!sentence.words.length) return `Write a ${page.text}.`;
      const options = page.options();
      if (!isSome()) return { text: sentence.whole, ...options };
      delete options.others;
      if (!standing()) {
        const masks = (one) => Array(one.pieces).fill("[MASK]").join(sentence.letters ? "" : " ");
        return { text: sentence.template(masks, undefined, true), ...options };
      }
      const positions = measured().flatMap((i) => sentence.positions(i));
      return { text: sentence.whole, positions, others: "masked", ...options };
    }

    const key = (answer, pair) => `${answer.positions[pair.i]},${answer.positions[pair.j]}`;
    const both = (answer, pair) => `${answer.drawn.pieces[pair.i].name} – ${answer.drawn.pieces[pair.j].name}`;
    const chosen = (answer) =>
      answer.drawn.pairs.find((pair) => pair.map && key(answer, pair) === state.pair) ?? answer.drawn.pairs[0];

    function pick(answer, pair, reason = "") {
      clearTimeout(timer);
      page.set({ pair: key(answer, pair) }, { reason, ask: false });
    }
    function hover(answer, pair) {
      clearTimeout(timer);
      timer = setTimeout(() => pick(answer, pair, "quiet"), PATIENCE);
    }

    function cards(answer) {
      const { pieces, pairs, measured: done, count, far, far_in_words: farInWords } = answer.drawn;
      const { about, tables, verdict } = answer.view;
      const on = chosen(answer);
      const part = done < count ? `${done.toLocaleString("en")} of ${count.toLocaleString("en")} pairs` : "";
      const rows = () => [
        ["first", "second", "first_position", "second_position", "mutual_information", "candidates_mass"],
        ...pairs.map((pair) => [
          pieces[pair.i].name, pieces[pair.j].name, answer.positions[pair.i], answer.positions[pair.j], pair.value,
          pair.mass,
        ]),
      ];
      const files = { rows, data: () => answer, part };
      const of = () => [`“${answer.text}”`, page.about.model, ...about];
      const isOff = state.colour === "off";
      const drawn = pairs.filter((pair) => pair.map).map((pair) => ({
        ...pair, off: isOff && pair.incompatibility > far, title: `${both(answer, pair)}: ${pair.shown} nats`,
      }));
      const colours = [["plain", "Dependence"], ["off", "… and incompatibility", farInWords]];
      const tools = [choices("colour", state.colour, colours, (colour) => page.set({ colour }, { ask: false }))];
      const legend = h("p", { class: "key" },
        h("span", {}, `the wider, the more mutual information: up to ${pairs[0].shown} nats here`),
        isOff && h("span", { class: "less" }, farInWords),
        drawn.length < done && h("span", { class: "plain" }, `the ${drawn.length} strongest of ${done} pairs`));
      const listed = pairs.slice(0, LISTED).map((pair) => h("tr", {},
        h("td", { class: "text" }, h("button", {
          type: "button", "data-key": `pair:${key(answer, pair)}`, "aria-pressed": String(on === pair),
          onclick: () => pick(answer, pair),
        }, both(answer, pair))),
        h("td", { class: "n" }, pair.shown), h("td", { class: "n" }, pair.held)));
      const heads = [["text", `${page.word}s`], ["n", "nats"], ["n", "mass held"]];
      const list = h("div", {
        class: "scroll", tabIndex: 0, role: "region", "aria-label": "pairs by mutual information",
      },
        h("table", { class: "data" },
          h("thead", {}, h("tr", {}, heads.map(([kind, head]) => h("th", { scope: "col", class: kind }, head)))),
          h("tbody", {}, listed)));
      const look = (pair) => hover(answer, pair);
      return [
        card({ title: "Mutual information", name: "dependence", ...files, of, tools },
          sentences(about), arcs(
            pieces, drawn, { look, pick: (pair) => pick(answer, pair), on }), legend, sentences(verdict, "lead")),
        h("div", { class: "columns" },
          card({ title: "Strongest pairs", name: "pairs", ...files }, list),
          h("div", { "aria-live": "polite" }, card({
            title: both(answer, on), label: "the chosen pair", name: "pair", data: () => on, of,
          },
            h("p", {}, `${on.shown} nats; ${on.held} of the mass held`),
            on.map && heatmap(on.map, { small: true, names: [pieces[on.i].name, pieces[on.j].name] })))),
        ...tables.map((table) => card({
          title: "As a table", name: "table", rows: () => rowsOf(table), data: () => answer,
        },
          drawnTable(table, { label: "every pair" }), sentences(table.notes))),
      ];
    }

    return {
      body,
      controls: () => [
        page.option("construction", { label: "Construction" }),
        isSome() ? null : page.option("others", { label: `Other ${page.word}s` }),
        page.option("candidates", { label: `${page.word === "word" ? "Words" : "Residues"} considered` }),
      ],
      cards,
      tell: (answer) => ({
        by: "mutual information, in nats",
        values: Object.fromEntries(answer.drawn.pairs.map((pair) => [both(answer, pair), pair.value])),
      }),
      past: () => page.body().text,
      leave: () => clearTimeout(timer),
    };
  },
});
