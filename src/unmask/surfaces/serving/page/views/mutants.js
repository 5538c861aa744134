// Mutants: the effect of every single change of a sequence, and of two changes together.
import { card } from "../cards.js";
import { choices, h, nats, select } from "../drawing/dom.js";
import { heat } from "../drawing/heatmap.js";
import { lasting } from "../drawing/update.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${nats(Math.abs(value))}`;
const numbersOf = (about) => Object.entries(about.mutant_numbers);

export default view({
  name: "mutants",
  title: "Mutants",
  verb: "mutants",
  shown: (about) => about.by_character,
  options: ["construction"],
  intro: () => [
    "What does a change do?",
    "Log-probabilities of mutants under the model, and epistasis: where two changes do not add up.",
  ],
  hint: () => "Choose two residues to see their double mutants; every single mutant is below.",
  sentence: () => ({ blanked: false }),
  state: (page) => [{ number: "epistasis", pair: "" }, { number: Object.keys(page.about.mutant_numbers) }],

  make(page) {
    const { state, sentence, about } = page;
    page.forgotten = { pair: "" };
    let singles = null;
    let doubles = null;
    let scanned = ""; // the question whose single mutants are known

    const residues = () => sentence.chosen.map((i) => i + 1);
    const pairs = () => residues().flatMap((a, n) => residues().slice(n + 1).map((b) => [a, b]));
    const pair = () => pairs().find((one) => one.join("-") === state.pair) ?? pairs()[0];
    const every = () => sentence.words.map((_, i) => i + 1);
    const ofSingles = () => ({ sequence: sentence.text, positions: every(), ...page.options() });

    function body() {
      if (!sentence.text.trim()) return "Write a sequence.";
      if (sentence.typed) return "Mutants are of a whole sequence: write the residue in place of the blank.";
      if (!pair()) return ofSingles();
      return { sequence: sentence.text, positions: pair(), changes: 2, ...page.options() };
    }

    async function ask(question, asked) {
      const both = pair();
      doubles = both ? { pair: both, ...(await question.slowly("mutants", asked)) } : null;
      const whole = JSON.stringify(ofSingles());
      if (doubles && singles) page.show({ doubles, singles });
      if (scanned !== whole) {
        question.job = null;
        singles = await question.slowly("mutants", ofSingles());
        scanned = question.stopped ? "" : whole;
      }
      page.show({ doubles, singles });
    }

    const rowsOfMutants = (rows) => () => [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row))];
    const of = () => [sentence.text, about.model, ...singles.view.about];

    // Values by name as coloured cells on a linear scale: warm is worse than the sequence, blue better.
    function cells({ rows, columns, value, name, missing = () => "as in the sequence", readout, ...how }) {
      const all = rows.map((_, i) => columns.map((_, j) => value(i, j)));
      const most = Math.max(1e-9, ...all.flat().filter((one) => one !== null).map(Math.abs));
      const written = (i, j) => `${name(i, j)}: ${all[i][j] === null ? missing(j) : `${signed(all[i][j])} nats`}`;
      return heat({
        rows, columns, ...how, name: written,
        shares: all.map((row) => row.map((one) => (one === null ? null : [Math.abs(one) / most, one < 0]))),
        look: (i, j) => { readout.textContent = written(i, j); },
        key: { signed: true, label: "nats", ticks: [[0, signed(-most)], [0.5, "0"], [1, signed(most)]] },
      });
    }

    const newReadout = (text) => lasting(h("p", { class: "readout", "aria-live": "polite" }, text));
    const ofSingle = newReadout("Point at a cell for its mutant; a click chooses the residue.");
    const ofDouble = newReadout("Point at a cell for its mutant.");

    function singlesCard() {
      const effects = new Map(singles.mutants.map((one) => [one.mutant, one.effect]));
      const done = new Set(singles.mutants.map((one) => Number(one.mutant.match(/\d+/)[0]) - 1));
      const { alphabet, drawn: { wild_type: wild, measured, count } } = singles;
      const name = (i, j) => `${wild[j]}${j + 1}${alphabet[i]}`;
      const head = (label, n) => ({
        id: n, label, number: n === 0 || (n + 1) % 10 === 0 ? String(n + 1) : "", pressed: sentence.pressed.has(n),
      });
      const part = measured < count ? `${measured} of ${count} residues` : "";
      return card({
        title: "Every single mutant", name: "singles", rows: rowsOfMutants(singles.mutants), data: () => singles, of,
        part,
      },
        sentences(singles.view.about),
        cells({
          rows: alphabet.map((label, id) => ({ id, label })), columns: wild.map(head), name, readout: ofSingle,
          value: (i, j) => effects.get(name(i, j)) ?? null,
          missing: (j) => (done.has(j) ? "as in the sequence" : "not measured"),
          press: (i, j) => sentence.list.querySelectorAll("button.word")[j].click(),
          label: "effects of single changes", corner: [
            "new residue", "residue of the sequence",
          ], cell: [16, 14], least: 8.5,
        }),
        ofSingle, h(
          "p", { class: "note" }, `effect: ${about.mutant_numbers.effect}.`), sentences(singles.view.verdict, "lead"));
    }

    function doublesCards() {
      const { alphabet, drawn: { wild_type: wild }, pair: [a, b] } = doubles;
      const found = new Map(doubles.mutants.map((one) => [one.mutant, one]));
      const change = (place, to) => (wild[place - 1] === to ? [] : [`${wild[place - 1]}${place}${to}`]);
      const name = (i, j) => [...change(a, alphabet[i]), ...change(b, alphabet[j])].join("+") || "the sequence";
      const heads = alphabet.map((label, id) => ({ id, label }));
      const named = (one) => one.map((n) => `${wild[n - 1]}${n}`).join(" and ");
      const which = pairs().length > 1
        && select(
          "Pair", `${a}-${b}`, pairs().map((one) => [one.join("-"), named(one)]), (next) => page.set({ pair: next }));
      const offered = numbersOf(about).map(([number, meaning]) => [number, number, meaning]);
      const tools = [which, choices("number", state.number, offered, (number) => page.set({ number }, { ask: false }))];
      const [table] = doubles.view.tables;
      return h("div", { class: "columns" },
        card({
          title: `Double mutants of ${named([a, b])}`, label: "double mutants", name: "doubles",
          rows: rowsOfMutants(doubles.mutants), data: () => doubles, of, tools,
        },
          cells({
            rows: heads, columns: heads, name, readout: ofDouble,
            value: (i, j) => found.get(name(i, j))?.[state.number] ?? null,
            label: "map of double mutants", corner: [
              `${wild[a - 1]}${a} becomes`, `${wild[b - 1]}${b} becomes`,
            ], cell: [24, 18],
          }),
          ofDouble, h("p", { class: "note" }, `${state.number}: ${about.mutant_numbers[state.number]}.`)),
        card({ title: "Best mutants", name: "best-doubles", rows: () => rowsOf(table), data: () => doubles },
          sentences(doubles.view.about), drawnTable(table, { label: "numbers of the best double mutants" }),
          sentences([...table.notes, ...doubles.view.verdict])));
    }

    return {
      body,
      ask,
      controls: () => [page.option("construction", { label: "Construction" })],
      cards: () => [doubles && doublesCards(), singles && singlesCard()],
      tell: () => {
        const mutants = [...(doubles?.mutants ?? []), ...singles.mutants].sort((a, b) => b.effect - a.effect);
        return {
          by: "effects of mutants, in nats",
          values: Object.fromEntries(mutants.map((one) => [one.mutant, one.effect])),
        };
      },
      past: () => `${residues().join(", ")} of ${sentence.text}`,
    };
  },
});
