// Dependence: arcs between the words of a sentence, as wide as their mutual information.
import { arcs } from "../arcs.js";
import { ask, askSlowly, Latest } from "../api.js";
import { call, command, copying } from "../copy.js";
import { choices, failure, h, nats, number, percentAtLeast, select, shown } from "../drawing/dom.js";
import { heatKey, heatmap } from "../drawing/heatmap.js";
import { card } from "../files.js";
import { keeping } from "../focus.js";
import { halt } from "../job.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

const [LISTED, DRAWN, PATIENCE, FEW] = [10, 40, 220, 4];

export function open(root, about, values) {
  const example = about.examples.dependence ?? { text: "", blanks: "" };
  const address = new Address("dependence", values, { text: example.text, blanks: example.blanks, pin: "", joint: "pseudo_gibbs", others: "text", candidates: 16, pair: "", colour: "plain", asked: false });
  const { state } = address;
  const [latest, pairing, colouring] = [new Latest(), new Latest(), new Latest()];
  const [kept, off] = [new Map(), new Map()];
  let found = null;
  let names = [];
  let on = null;
  let timer = null;

  const slot = () => h("div", { class: "slot" });
  const [picture, listing, panel, problem] = [slot(), slot(), h("div", { class: "slot", "aria-live": "polite" }), slot()];
  const answer = h("div", { class: "stack" }, picture, h("div", { class: "columns" }, listing, panel));
  const sentence = new Sentence({
    about, text: state.text, blanks: state.blanks, pin: state.pin, hides: false,
    hint: "Press Measure for every pair, or choose two or more words to measure only those, as blanks.",
    change: (reason) => {
      if (reason === "begin") {
        address.save("quiet");
        if (state.asked || (values.text !== undefined && measured().length >= 2 && measured().length <= FEW)) question();
        return;
      }
      Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin, pair: "", asked: false });
      address.save(reason);
      clear();
    },
    fail: (error) => { state.text = sentence.text; address.save("typing"); clear(failure(error)); } });
  const { status } = sentence;
  const measured = () => sentence.chosen.filter((i) => sentence.pinned?.word === undefined || i !== sentence.chosen[sentence.pinned.blank]);
  const blanked = () => measured().length >= 2;
  const masks = (word) => Array(word.pieces).fill("[MASK]").join(about.by_character ? "" : " ");
  const text = () => (blanked() || sentence.typed ? sentence.template(masks, undefined, true) : sentence.whole);
  const body = () => ({ text: text(), joint: state.joint, others: text().includes("[MASK]") ? null : state.others, candidates: state.candidates });

  function clear(...said) {
    latest.stop();
    pairing.stop();
    colouring.stop();
    found = on = null;
    kept.clear();
    off.clear();
    status.say("");
    status.stoppable(null);
    problem.replaceChildren(...said);
    for (const box of [picture, listing, panel]) box.replaceChildren();
  }

  async function question() {
    const before = found;
    clear();
    if (!sentence.words.length) return problem.replaceChildren(h("p", { class: "empty" }, "Write a sentence."));
    state.asked = true;
    address.save(before ? "" : "quiet");
    const signal = latest.begin();
    status.stoppable(() => halt(latest, signal, status));
    try {
      status.say("asking the model …");
      found = await askSlowly("dependence", body(), signal, (share, line) => status.say(line, share));
      names = named();
      status.say("");
      remember("Dependence", text());
      const at = state.pair.split(",").map(Number);
      draw();
      about.tell?.({ by: "mutual information, in nats", values: Object.fromEntries(pairs().map((pair) => [both(pair), pair.value])) });
      pick(pairs().find((pair) => found.positions[pair.i] === at[0] && found.positions[pair.j] === at[1]) ?? pairs()[0], "quiet");
      if (state.colour === "off") measureOff();
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      clear(failure(error));
    }
    status.stoppable(null);
    return undefined;
  }

  // Tokens of the text as they stand, residues with their number; blanks by theirs, and by what stood there.
  function named() {
    if (!found.text.includes("[MASK]")) return found.tokens.map((token, i) => (about.by_character ? `${shown(token)}${i + 1}` : shown(token)));
    return measured().flatMap((i, n) => {
      const word = sentence.words[i];
      const plain = about.by_character ? `residue ${i + 1}` : `blank ${n + 1}`;
      const stood = word.blank ? "" : ` (${word.text})`;
      return word.pieces === 1 || word.blank ? [`${plain}${stood}`] : Array.from({ length: word.pieces }, (_, k) => `${plain}.${k + 1}${stood}`);
    });
  }

  const key = (pair) => `${found.positions[pair.i]},${found.positions[pair.j]}`;
  const both = (pair) => `${names[pair.i]} – ${names[pair.j]}`;
  const pairs = () => found.tokens.flatMap((_, i) => found.tokens.slice(i + 1).map((_, n) => ({ i, j: i + 1 + n, value: found.matrix[i][i + 1 + n], mass: found.candidates_mass[i][i + 1 + n] }))).filter((pair) => pair.value !== null).sort((a, b) => b.value - a.value);
  const rows = () => [["first", "second", "first_position", "second_position", "mutual_information", "candidates_mass"], ...pairs().map((pair) => [names[pair.i], names[pair.j], found.positions[pair.i], found.positions[pair.j], pair.value, pair.mass])];

  function held() {
    const [least, most] = [pairs().reduce((a, b) => (a.mass <= b.mass ? a : b)), pairs().reduce((a, b) => (a.mass >= b.mass ? a : b))];
    const words = found.candidates >= about.vocabulary ? "Every token was considered" : `${found.candidates} words of each place were considered`;
    const share = pairs().length === 1 ? percentAtLeast(least.mass) : `from ${percentAtLeast(least.mass)} (${both(least)}) to ${percentAtLeast(most.mass)} (${both(most)})`;
    const doubt = least.mass < 0.5 ? " Where they hold little, a number is about these words only: consider more." : "";
    return found.candidates >= about.vocabulary ? `${words}; ${found.passes.toLocaleString("en")} passes of the model.` : `${words}. They hold ${share} of the mass of a pair’s independent blanks.${doubt} ${found.passes.toLocaleString("en")} passes of the model.`;
  }

  function draw() {
    const drawn = pairs().slice(0, DRAWN).map((pair) => ({ ...pair, off: state.colour === "off" && off.has(key(pair)) ? off.get(key(pair)) / 4 : 0 }));
    const strong = drawn[0] ? nats(drawn[0].value) : "0";
    keeping(answer, () => {
      picture.replaceChildren(card({ title: "Mutual information", name: "dependence", rows, data: () => found, tools: [choices("colour", state.colour, [["plain", "Dependence"], ["off", "… and incompatibility", "How far the model’s conditionals of a pair are from any joint"]], (colour) => { state.colour = colour; address.save(); draw(); if (colour === "off") measureOff(); })] },
        arcs(names, drawn, { look: hover, pick, on }),
        h("p", { class: "key" }, h("span", {}, `wide: much mutual information; the widest is ${strong} nats`), state.colour === "off" ? h("span", { class: "less" }, "conditionals more than 1.4 nats from any joint") : null, pairs().length > DRAWN ? h("span", { class: "plain" }, `the ${DRAWN} strongest of ${pairs().length} pairs`) : null),
        h("p", { class: "note held" }, held())));
      listing.replaceChildren(card({ title: "Strongest pairs", name: "pairs", rows, data: () => found }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "words"), h("th", { scope: "col", class: "n" }, "nats"), h("th", { scope: "col", class: "n" }, "mass held"))),
        h("tbody", {}, pairs().slice(0, LISTED).map((pair) => h("tr", {},
          h("td", { class: "text" }, h("button", { type: "button", "data-key": `pair:${key(pair)}`, "aria-pressed": String(on?.i === pair.i && on?.j === pair.j), onclick: () => pick(pair) }, both(pair))),
          h("td", { class: "n" }, nats(pair.value, 3)), h("td", { class: "n" }, percentAtLeast(pair.mass))))))));
    });
  }

  function hover(pair) {
    clearTimeout(timer);
    timer = setTimeout(() => pick(pair, "quiet"), PATIENCE);
  }

  const drawable = () => !found.text.includes("[MASK]") || found.tokens.length === 2;
  const joint = (pair, signal) => ask("joint", { text: found.text, positions: found.text.includes("[MASK]") ? null : [found.positions[pair.i], found.positions[pair.j]], joint: state.joint, candidates: state.candidates, cells: about.vocabulary <= 40 ? about.vocabulary : 7, top: 1 }, signal);

  async function pick(pair, reason = "") {
    on = pair;
    state.pair = key(pair);
    address.save(reason);
    draw();
    const tell = (data, ...inside) => panel.replaceChildren(card({ title: both(pair), label: "the chosen pair", name: "pair", data: data ? () => data : null, picture: Boolean(data) }, ...inside.filter(Boolean)));
    const facts = `${nats(pair.value, 3)} nats; the words considered hold ${percentAtLeast(pair.mass)} of the mass.`;
    if (!drawable()) return tell(null, h("p", {}, facts), h("p", { class: "note" }, "The other blanks are masked. Choose only these two words to see their map."));
    try {
      if (!kept.has(key(pair))) {
        tell(null, h("p", {}, facts), h("p", { class: "note" }, "deriving their joint …"));
        kept.set(key(pair), await joint(pair, pairing.begin()));
      }
      const derived = kept.get(key(pair));
      off.set(key(pair), derived.compatibility);
      tell(derived, h("p", {}, facts), h("p", { class: "note" }, `${derived.summary} ${blanked() ? "" : "All other words as they stand."} ${derived.warning}`.trim()),
        derived.map ? heatmap(derived.map, { small: true, names: [names[pair.i], names[pair.j]] }) : null, derived.map ? heatKey(derived.map, "joint", false) : null);
    } catch (error) {
      if (error.name !== "AbortError") tell(null, failure(error));
    }
    return undefined;
  }

  async function measureOff() {
    if (!drawable()) return status.say("Incompatibility is measured for two blanks, or for words as they stand.");
    const signal = colouring.begin();
    const asked = pairs().slice(0, LISTED);
    status.stoppable(() => { colouring.stop(); status.say("Stopped."); status.stoppable(null); });
    try {
      for (const [n, pair] of asked.entries()) {
        status.say(`compatibility of the strongest pairs: ${n + 1} of ${asked.length}`, n / asked.length);
        if (!off.has(key(pair))) off.set(key(pair), (await joint(pair, signal)).compatibility);
        draw();
      }
      status.say("");
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      status.say(error.message);
    }
    status.stoppable(null);
    return undefined;
  }

  const change = (name) => (value) => { state[name] = value; question(); };
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "Which words depend on each other?"), h("p", {}, "Two words share information if knowing one changes what the model expects of the other.")),
    sentence.element,
    h("div", { class: "controls" },
      select("Joint", state.joint, about.constructions.map((c) => [c.name, c.label, c.meaning]), change("joint")),
      select("Other words", state.others, [["text", "as they stand"], ["masked", "masked"]], change("others")),
      number("Words considered", state.candidates, { min: 2, max: 256 }, change("candidates")),
      h("button", { type: "button", class: "main", onclick: question }, "Measure")),
    problem, answer,
    copying(() => {
      const { text: asked, ...options } = body();
      return { python: `print(${call(about, "dependence", [asked], options)})`, command: command(about, "dependence", [asked], options) };
    }));
  sentence.begin();
  return () => { clearTimeout(timer); clear(); sentence.leave(); };
}
