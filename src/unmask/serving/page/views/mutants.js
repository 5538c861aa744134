// Mutants: the effect of every single change of a sequence, and of two changes together.
import { askSlowly, Latest } from "../api.js";
import { call, command, copying } from "../copy.js";
import { choices, failure, h, nats, select } from "../drawing/dom.js";
import { corner, heatTable, scale } from "../drawing/heatmap.js";
import { card } from "../files.js";
import { keeping } from "../focus.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

const NUMBERS = [["effect", "Effect", "log-probability of the mutant minus that of the sequence"], ["singles", "Singles", "the sum of the effects of each change alone"], ["epistasis", "Epistasis", "the effect minus the singles: 0 where the changes add up"], ["interaction", "Interaction", "the same difference inside the joint"]];

export function open(root, about, values) {
  const example = about.examples.mutants ?? { text: "", blanks: "" };
  const address = new Address("mutants", values, { text: example.text, blanks: example.blanks, pin: "", joint: "balanced", number: "epistasis", pair: "" });
  const { state } = address;
  const [latest, doubling] = [new Latest(), new Latest()];
  const slot = () => h("div", { class: "slot" });
  const [single, double, problem] = [slot(), slot(), slot()];
  let singles = null;
  let doubles = null;
  let scanned = "";

  const sentence = new Sentence({
    about, text: state.text, blanks: state.blanks, pin: state.pin, hides: false, hint: "Choose two residues to see their double mutants; every single mutant is below.",
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin, pair: "" });
      address.save(reason === "begin" ? "quiet" : reason);
      question();
    },
    fail: (error) => { state.text = sentence.text; address.save("typing"); clear(failure(error)); } });
  const { status } = sentence;
  const residues = () => sentence.chosen.map((i) => i + 1);
  const pairs = () => residues().flatMap((a, n) => residues().slice(n + 1).map((b) => [a, b]));
  const pair = () => pairs().find((one) => one.join("-") === state.pair) ?? pairs()[0];

  function clear(...said) {
    scanned = "";
    singles = doubles = null;
    status.say("");
    status.stoppable(null);
    problem.replaceChildren(...said);
    single.replaceChildren();
    double.replaceChildren();
  }

  async function question() {
    if (!sentence.text.trim()) return clear(h("p", { class: "empty" }, "Write a sequence."));
    if (sentence.typed) return clear(h("p", { class: "empty" }, "Mutants are of a whole sequence: write the residue in place of the blank."));
    try {
      if (scanned !== sentence.text) clear();
      doubles = null;
      if (pair()) doubles = await answered({ sequence: sentence.text, positions: pair(), changes: 2, joint: state.joint }, doubling);
      drawDoubles();
      if (scanned !== sentence.text) {
        const all = sentence.words.map((_, i) => i + 1);
        singles = await answered({ sequence: sentence.text, positions: all, joint: state.joint }, latest);
        scanned = sentence.text;
      }
      drawSingles();
      about.tell?.({ by: "effects of mutants, in nats", values: Object.fromEntries([...(doubles?.mutants ?? []), ...singles.mutants].sort((a, b) => b.effect - a.effect).map((one) => [one.mutant, one.effect])) });
      remember("Mutants", `${residues().join(", ")} of ${sentence.text}`);
    } catch (error) {
      if (error.name !== "AbortError") clear(failure(error));
    }
    return undefined;
  }

  async function answered(body, asking) {
    const signal = asking.begin();
    status.stoppable(() => { asking.stop(); status.say("Stopped."); status.stoppable(null); });
    status.say("asking the model …");
    const found = await askSlowly("mutants", body, signal, (share, line) => status.say(line, share));
    status.say("");
    status.stoppable(null);
    return found;
  }

  const rowsOf = (found) => () => [["mutant", "changes", "log_prob", "effect", "singles", "epistasis", "interaction"], ...found.mutants.map((one) => [one.mutant, one.changes, one.log_prob, one.effect, one.singles, one.epistasis, one.interaction])];
  const signed = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${nats(Math.abs(value))}`;

  // Values by name as a table of coloured cells: warm is worse than the sequence, blue better.
  function table({ rows, columns, value, name, press, label, axes, readout, kind, numbered = false }) {
    const cells = rows.map((_, i) => columns.map((_, j) => value(i, j)));
    const most = Math.max(1e-9, ...cells.flat().filter((v) => v !== null).map(Math.abs));
    const head = (text, n) => ({ id: n, element: h("span", {}, text), edge: numbered && (n === 0 || (n + 1) % 10 === 0) ? h("small", { class: "number" }, String(n + 1)) : null });
    return [
      h("div", { class: "scroll", role: "region", "aria-label": label }, heatTable({
        rows: rows.map((text, n) => ({ ...head(text, n), edge: null })), columns: columns.map(head), shares: cells.map((row) => row.map((v) => (v === null ? null : [Math.sqrt(Math.abs(v) / most), v < 0]))),
        name: (i, j) => (cells[i][j] === null ? `${name(i, j)}: as in the sequence` : `${name(i, j)}: ${signed(cells[i][j])} nats`), press,
        look: (i, j) => { readout.textContent = cells[i][j] === null ? `${name(i, j)}: as in the sequence` : `${name(i, j)}: ${signed(cells[i][j])} nats`; }, corner: corner(...axes), kind })),
      h("div", { class: "key" }, h("span", { class: "plain" }, "nats"), scale(most, true, signed))];
  }

  function drawSingles() {
    const effects = new Map(singles.mutants.map((one) => [one.mutant, one.effect]));
    const { wild_type: wild, alphabet } = singles;
    const named = (i, j) => `${wild[j]}${j + 1}${alphabet[i]}`;
    const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at a cell for its mutant; a click chooses the residue.");
    keeping(single, () => single.replaceChildren(card({ title: "Every single mutant", name: "singles", rows: rowsOf(singles), data: () => singles },
      ...table({ rows: alphabet, columns: wild, numbered: true, value: (i, j) => effects.get(named(i, j)) ?? null, name: named, press: (i, j) => sentence.list.querySelectorAll("button.word")[j].click(), label: "effects of single changes", axes: ["new residue", "residue"], readout, kind: "letters small scan" }),
      readout, h("p", { class: "note" }, "The effect of one change, all else as in the sequence: its log-probability minus that of the residue there."))));
  }

  function drawDoubles() {
    if (!doubles) return double.replaceChildren();
    const [a, b] = pair();
    const { alphabet, wild_type: wild } = doubles;
    const found = new Map(doubles.mutants.map((one) => [one.mutant, one]));
    const change = (place, to) => (wild[place - 1] === to ? [] : [`${wild[place - 1]}${place}${to}`]);
    const named = (i, j) => [...change(a, alphabet[i]), ...change(b, alphabet[j])].join("+") || "the sequence";
    const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at a cell for its mutant.");
    const best = doubles.mutants.filter((one) => one.changes === 2).sort((x, y) => y.effect - x.effect).slice(0, 10);
    const which = pairs().length > 1 ? select("Pair", `${a}-${b}`, pairs().map((one) => [one.join("-"), one.map((n) => `${wild[n - 1]}${n}`).join(" and ")]), (next) => { state.pair = next; address.save(); question(); }) : null;
    keeping(double, () => double.replaceChildren(h("div", { class: "columns" },
      card({ title: `Double mutants of ${wild[a - 1]}${a} and ${wild[b - 1]}${b}`, label: "double mutants", name: "doubles", rows: rowsOf(doubles), data: () => doubles, tools: [which, choices("number", state.number, NUMBERS, (number) => { state.number = number; address.save(); drawDoubles(); })].filter(Boolean) },
        ...table({ rows: alphabet, columns: alphabet, value: (i, j) => found.get(named(i, j))?.[state.number] ?? null, name: named, label: "map of double mutants", axes: [`${wild[a - 1]}${a}`, `${wild[b - 1]}${b}`], readout, kind: "letters small" }),
        readout, h("p", { class: "note" }, `${NUMBERS.find(([name]) => name === state.number)[1]}: ${NUMBERS.find(([name]) => name === state.number)[2]}.`)),
      card({ title: "Best double mutants", name: "best-doubles", rows: rowsOf({ mutants: best }), data: () => best }, h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "numbers of the best double mutants" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, ["mutant", "effect", "singles", "epistasis"].map((name, n) => h("th", { scope: "col", class: n ? "n" : "" }, name)))),
        h("tbody", {}, best.map((one) => h("tr", {}, h("td", {}, one.mutant), ["effect", "singles", "epistasis"].map((name) => h("td", { class: "n" }, signed(one[name]))))))))))));
    return undefined;
  }

  root.append(
    h("section", { class: "intro" }, h("h1", {}, "What does a change do?"), h("p", {}, "Log-probabilities of mutants under the model, and epistasis: where two changes do not add up.")),
    sentence.element, h("div", { class: "controls" }, select("Joint", state.joint, about.constructions.map((c) => [c.name, c.label, c.meaning]), (joint) => { state.joint = joint; address.save(); question(); })), problem, double, single,
    copying(() => {
      const options = { positions: pair() ?? "all", changes: pair() ? 2 : 1, joint: state.joint };
      return { python: `print(${call(about, "mutants", [sentence.text], options)}.to_frame())`, command: command(about, "mutants", [sentence.text], options) };
    }));
  sentence.begin();
  return () => { latest.stop(); doubling.stop(); sentence.leave(); };
}
