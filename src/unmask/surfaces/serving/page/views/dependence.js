// Dependence: arcs between the words of a text, as wide as their mutual information.
import { keeping, Question } from "../ask.js";
import { card, copying, table } from "../cards.js";
import { arcs } from "../charts.js";
import { choices, h, nats, select, shown } from "../drawing/dom.js";
import { heatmap } from "../drawing/heatmap.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

// FAR: over 40 pairs of blanks in sentences of English Web Treebank, 39 verdicts are those of the number used before.
const [LISTED, PATIENCE, FAR] = [10, 220, 1.4];

export function open(root, about, values) {
  const [word, example] = [about.by_character ? "residue" : "word", about.examples.dependence ?? { text: "", blanks: "" }];
  const address = new Address(about, "dependence", values, { text: example.text, blanks: example.blanks, pin: "", construction: "pseudo_gibbs", others: "text", candidates: "", pair: "", colour: "plain" }, { construction: about.constructions.map((one) => one.name), others: ["text", "masked"], colour: ["plain", "off"] });
  const { state } = address;
  const slot = () => h("div", { class: "slot" });
  const [picture, listing, panel] = [slot(), slot(), h("div", { class: "slot", "aria-live": "polite" })];
  const columns = h("div", { class: "stack" }, picture, h("div", { class: "columns" }, listing, panel));
  const question = new Question(about.api, [picture, listing, panel], `Every pair is measured; choose two or more ${word}s to measure only those, as blanks.`);
  const controls = h("div", { class: "controls" });
  let answer = null;
  let on = null;
  let timer = null;

  const sentence = new Sentence({
    about, question, state,
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin, pair: "" });
      address.save(reason === "begin" ? "quiet" : reason);
      if (reason !== "refused") ask();
    } });
  const measured = () => sentence.chosen.filter((i) => sentence.pinned?.word === undefined || i !== sentence.chosen[sentence.pinned.blank]);
  const some = () => measured().length >= 2 || sentence.typed;
  // Words that the model knows are measured where they stand; any other is a blank.
  const placed = () => some() && !sentence.typed && measured().every((i) => sentence.words[i].known);
  const masks = (one) => Array(one.pieces).fill("[MASK]").join(about.by_character ? "" : " ");
  const text = () => (some() && !placed() ? sentence.template(masks, undefined, true) : sentence.whole);
  const body = () => ({ text: text(), chosen: placed() ? measured() : null, construction: state.construction, others: some() ? null : state.others, candidates: state.candidates === "" ? null : Number(state.candidates) });

  function ask() {
    about.asks?.();
    drawControls();
    if (!sentence.words.length) return question.clear(h("p", { class: "empty" }, `Write a ${about.by_character ? "sequence" : "sentence"}.`));
    return question.run(async () => {
      answer = await question.slowly("dependence", body());
      const at = state.pair.split(",").map(Number);
      on = answer.pairs.find((pair) => pair.map && answer.positions[pair.i] === at[0] && answer.positions[pair.j] === at[1]) ?? answer.pairs[0];
      drawControls();
      draw();
      about.tell?.({ by: "mutual information, in nats", values: Object.fromEntries(answer.pairs.map((pair) => [both(pair), pair.value])) });
      if (!about.second) remember("Dependence", text());
    });
  }

  const key = (pair) => `${answer.positions[pair.i]},${answer.positions[pair.j]}`;
  const name = (n) => answer.pieces[n].name;
  const both = (pair) => `${name(pair.i)} – ${name(pair.j)}`;
  const others = () => (some() ? (answer.pieces.length > 2 ? `, the other ${placed() ? `chosen ${word}s` : "blanks"} masked` : "") : answer.others === "masked" ? `, all other ${word}s masked` : `, all other ${word}s as they stand`);
  const of = () => [`“${answer.text}”`, `${about.model}, construction ${answer.construction}${others()}`];

  function files() {
    const part = answer.measured < answer.count ? `${answer.measured.toLocaleString("en")} of ${answer.count.toLocaleString("en")} pairs` : "";
    const rows = () => [["first", "second", "first_position", "second_position", "mutual_information", "candidates_mass"], ...answer.pairs.map((pair) => [name(pair.i), name(pair.j), answer.positions[pair.i], answer.positions[pair.j], pair.value, pair.mass])];
    return { rows, data: () => answer, part };
  }

  function draw() {
    const drawn = answer.pairs.filter((pair) => pair.map).map((pair) => ({ ...pair, off: state.colour === "off" && pair.incompatibility > FAR, title: `${both(pair)}: ${nats(pair.value, 3)} nats` }));
    const colours = [["plain", "Dependence"], ["off", "… and incompatibility", "How far the model’s conditionals of a pair are from any joint"]];
    keeping(columns, () => {
      picture.replaceChildren(card({ title: "Mutual information", name: "dependence", ...files(), of, tools: [choices("colour", state.colour, colours, (colour) => { state.colour = colour; address.save(); draw(); })] },
        arcs(answer.pieces, drawn, { look: hover, pick, on }),
        h("p", { class: "key" }, h("span", {}, `the wider, the more mutual information: up to ${nats(answer.pairs[0].value)} nats here`), state.colour === "off" ? h("span", { class: "less" }, `conditionals more than ${FAR} nats (root mean square) from any joint`) : null, drawn.length < answer.measured ? h("span", { class: "plain" }, `the ${drawn.length} strongest of ${answer.measured} pairs`) : null),
        h("p", { class: "note held" }, answer.note)));
      listing.replaceChildren(card({ title: "Strongest pairs", name: "pairs", ...files() },
        table("pairs by mutual information", [`${word}s`, "#nats", "#mass held"], answer.pairs.slice(0, LISTED).map((pair) => [[{}, h("button", { type: "button", "data-key": `pair:${key(pair)}`, "aria-pressed": String(on.i === pair.i && on.j === pair.j), onclick: () => pick(pair) }, both(pair))], nats(pair.value, 3), pair.held]))));
      panel.replaceChildren(card({ title: both(on), label: "the chosen pair", name: "pair", data: () => on, of },
        h("p", {}, `${nats(on.value, 3)} nats; the ${word}s considered hold ${on.held} of the mass${others()}.`), h("p", { class: "note" }, `${on.summary}${on.map.axes[0].stands === null ? "" : " Underlined: what stands there."}`),
        heatmap(on.map, { small: true, names: [name(on.i), name(on.j)] })));
    });
  }

  function hover(pair) {
    clearTimeout(timer);
    timer = setTimeout(() => pick(pair, "quiet"), PATIENCE);
  }

  function pick(pair, reason = "") {
    on = answer.pairs.find((one) => one.i === pair.i && one.j === pair.j);
    state.pair = key(on);
    address.save(reason);
    draw();
  }

  function drawControls() {
    const change = (name) => (value) => { state[name] = value; address.save(); ask(); };
    const sizes = [...new Set([...(answer?.sizes ?? []), Number(state.candidates)])].filter(Boolean).sort((a, b) => a - b);
    const usual = [["", answer ? `as the command, ${answer.usual} each` : "as the command"]];
    keeping(controls, () => controls.replaceChildren(...[
      select("Construction", state.construction, about.constructions.map((c) => [c.name, c.label, c.meaning]), change("construction")),
      some() ? null : select(`Other ${word}s`, state.others, [["text", "as they stand"], ["masked", "masked"]], change("others")),
      select(`${word === "word" ? "Words" : "Residues"} considered`, state.candidates, [...usual, ...sizes.map((n) => [String(n), `${n} each`])], change("candidates"))].filter(Boolean)));
  }

  root.append(
    h("section", { class: "intro" }, h("h1", {}, `Which ${word}s depend on each other?`), h("p", {}, `Two ${word}s share information if knowing one changes what the model expects of the other.`)),
    sentence.element, controls, question.problem, columns, copying(() => about.api.ask("dependence/copy", body())));
  sentence.begin();
  return () => { clearTimeout(timer); sentence.leave(); };
}
