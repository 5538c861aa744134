// Mutants: the effect of every single change of a sequence, and of two changes together.
import { keeping, Question } from "../ask.js";
import { card, copying, table } from "../cards.js";
import { choices, h, nats, select } from "../drawing/dom.js";
import { heat } from "../drawing/heatmap.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

const NUMBERS = [["effect", "Effect", "log-probability of the mutant minus that of the sequence"], ["singles", "Singles", "the sum of the effects of each change alone"], ["epistasis", "Epistasis", "the effect minus the singles: 0 where the changes add up"], ["interaction", "Interaction", "the same difference inside the joint"]];
const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${nats(Math.abs(value))}`;

export function open(root, about, values) {
  const example = about.examples.mutants ?? { text: "", blanks: "" };
  const address = new Address(about, "mutants", values, { text: example.text, blanks: example.blanks, pin: "", construction: "balanced", number: "epistasis", pair: "" }, { construction: about.constructions.map((one) => one.name), number: NUMBERS.map(([name]) => name) });
  const { state } = address;
  const slot = () => h("div", { class: "slot" });
  const [single, double] = [slot(), slot()];
  const question = new Question(about.api, [double, single], "Choose two residues to see their double mutants; every single mutant is below.");
  let singles = null;
  let doubles = null;
  let scanned = "";

  const sentence = new Sentence({
    about, question, state, blanked: false,
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin, pair: "" });
      address.save(reason === "begin" ? "quiet" : reason);
      if (reason !== "refused") ask();
    } });
  const residues = () => sentence.chosen.map((i) => i + 1);
  const pairs = () => residues().flatMap((a, n) => residues().slice(n + 1).map((b) => [a, b]));
  const pair = () => pairs().find((one) => one.join("-") === state.pair) ?? pairs()[0];
  const body = () => ({ sequence: sentence.text, positions: pair() ?? sentence.words.map((_, i) => i + 1), changes: pair() ? 2 : 1, construction: state.construction });

  function ask() {
    about.asks?.();
    if (!sentence.text.trim()) return question.clear(h("p", { class: "empty" }, "Write a sequence."));
    if (sentence.typed) return question.clear(h("p", { class: "empty" }, "Mutants are of a whole sequence: write the residue in place of the blank."));
    return question.run(async () => {
      const whole = `${sentence.text} ${state.construction}`;
      const both = pair();
      doubles = both ? { pair: both, ...(await question.slowly("mutants", body())) } : null;
      drawDoubles();
      if (scanned !== whole) {
        question.job = null;
        singles = await question.slowly("mutants", { sequence: sentence.text, positions: sentence.words.map((_, i) => i + 1), changes: 1, construction: state.construction });
        scanned = question.stopped ? "" : whole;
      }
      drawSingles();
      about.tell?.({ by: "effects of mutants, in nats", values: Object.fromEntries([...(doubles?.mutants ?? []), ...singles.mutants].sort((a, b) => b.effect - a.effect).map((one) => [one.mutant, one.effect])) });
      if (!about.second) remember("Mutants", `${residues().join(", ")} of ${sentence.text}`);
    });
  }

  const rowsOf = (found) => () => [["mutant", "changes", "log_prob", "effect", "singles", "epistasis", "interaction"], ...found.mutants.map((one) => [one.mutant, one.changes, one.log_prob, one.effect, one.singles, one.epistasis, one.interaction])];
  const of = () => [sentence.text, `${about.model}, construction ${singles?.construction ?? state.construction}`];

  // Values by name as coloured cells on a linear scale: warm is worse than the sequence, blue better.
  function cells({ rows, columns, value, name, press, label, corner, readout, cell, least, part = () => false }) {
    const all = rows.map((_, i) => columns.map((_, j) => value(i, j)));
    const most = Math.max(1e-9, ...all.flat().filter((v) => v !== null).map(Math.abs));
    const written = (i, j) => `${name(i, j)}: ${all[i][j] === null ? (part(j) ? "not measured" : "as in the sequence") : `${signed(all[i][j])} nats`}`;
    return heat({
      rows, columns, shares: all.map((row) => row.map((v) => (v === null ? null : [Math.abs(v) / most, v < 0]))), name: written, press, look: (i, j) => { readout.textContent = written(i, j); }, corner, label, cell, least,
      key: { signed: true, label: "nats", ticks: [[0, signed(-most)], [0.5, "0"], [1, signed(most)]] } });
  }

  function drawSingles() {
    const effects = new Map(singles.mutants.map((one) => [one.mutant, one.effect]));
    const done = new Set(singles.mutants.map((one) => Number(one.mutant.match(/\d+/)[0]) - 1));
    const { wild_type: wild, alphabet } = singles;
    const named = (i, j) => `${wild[j]}${j + 1}${alphabet[i]}`;
    const part = singles.measured < singles.count ? `${singles.measured} of ${singles.count} residues` : "";
    const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at a cell for its mutant; a click chooses the residue.");
    const head = (label, n) => ({ id: n, label, number: n === 0 || (n + 1) % 10 === 0 ? String(n + 1) : "", pressed: sentence.pressed.has(n) });
    keeping(single, () => single.replaceChildren(card({ title: "Every single mutant", name: "singles", rows: rowsOf(singles), data: () => singles, of, part },
      cells({ rows: alphabet.map((label, id) => ({ id, label })), columns: wild.map(head), value: (i, j) => effects.get(named(i, j)) ?? null, name: named, press: (i, j) => sentence.list.querySelectorAll("button.word")[j].click(), label: "effects of single changes", corner: ["new residue", "residue of the sequence"], readout, cell: [16, 14], least: 8.5, part: (j) => !done.has(j) }),
      readout, h("p", { class: "note" }, "The effect of one change, all else as in the sequence: its log-probability minus that of the residue there."))));
  }

  function drawDoubles() {
    if (!doubles) return double.replaceChildren();
    const { alphabet, wild_type: wild, pair: [a, b] } = doubles;
    const found = new Map(doubles.mutants.map((one) => [one.mutant, one]));
    const change = (place, to) => (wild[place - 1] === to ? [] : [`${wild[place - 1]}${place}${to}`]);
    const named = (i, j) => [...change(a, alphabet[i]), ...change(b, alphabet[j])].join("+") || "the sequence";
    const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at a cell for its mutant.");
    const best = doubles.mutants.filter((one) => one.changes === 2).sort((x, y) => y.effect - x.effect).slice(0, 10);
    const which = pairs().length > 1 ? select("Pair", `${a}-${b}`, pairs().map((one) => [one.join("-"), one.map((n) => `${wild[n - 1]}${n}`).join(" and ")]), (next) => { state.pair = next; address.save(); ask(); }) : null;
    const [, number, meaning] = NUMBERS.find(([name]) => name === state.number);
    const heads = alphabet.map((label, id) => ({ id, label }));
    keeping(double, () => double.replaceChildren(h("div", { class: "columns" },
      card({ title: `Double mutants of ${wild[a - 1]}${a} and ${wild[b - 1]}${b}`, label: "double mutants", name: "doubles", rows: rowsOf(doubles), data: () => doubles, of, tools: [which, choices("number", state.number, NUMBERS, (next) => { state.number = next; address.save(); drawDoubles(); })].filter(Boolean) },
        cells({ rows: heads, columns: heads, value: (i, j) => found.get(named(i, j))?.[state.number] ?? null, name: named, label: "map of double mutants", corner: [`${wild[a - 1]}${a} becomes`, `${wild[b - 1]}${b} becomes`], readout, cell: [24, 18] }),
        readout, h("p", { class: "note" }, `${number}: ${meaning}.`)),
      card({ title: "Best double mutants", name: "best-doubles", rows: rowsOf({ mutants: best }), data: () => best },
        table("numbers of the best double mutants", ["mutant", "#effect", "#singles", "#epistasis"], best.map((one) => [one.mutant, ...["effect", "singles", "epistasis"].map((name) => signed(one[name]))]))))));
    return undefined;
  }

  root.append(
    h("section", { class: "intro" }, h("h1", {}, "What does a change do?"), h("p", {}, "Log-probabilities of mutants under the model, and epistasis: where two changes do not add up.")),
    sentence.element, h("div", { class: "controls" }, select("Construction", state.construction, about.constructions.map((c) => [c.name, c.label, c.meaning]), (construction) => { state.construction = construction; address.save(); ask(); })), question.problem, double, single,
    copying(() => about.api.ask("mutants/copy", body())));
  sentence.begin();
  return () => sentence.leave();
}
