// Dependence: arcs between the words of a sentence, as wide as their mutual information.
import { arcs } from "../arcs.js";
import { ask, askSlowly, Latest } from "../api.js";
import { copying } from "../copy.js";
import { choices, failure, h, nats, number, select, shown, Status } from "../drawing/dom.js";
import { heatmap } from "../drawing/heatmap.js";
import { typed, write } from "../state.js";

const EXAMPLE = "The doctor told her patient to drink less coffee.";
const [LISTED, DRAWN, PATIENCE] = [10, 40, 220];

export function open(root, about, values) {
  const defaults = { text: EXAMPLE, joint: "pseudo_gibbs", others: "text", candidates: 16, pair: "", colour: "plain" };
  const state = typed(values, defaults);
  const [latest, pairing, colouring, status] = [new Latest(), new Latest(), new Latest(), new Status()];
  const kept = new Map();
  const off = new Map();
  let found = null;
  let on = null;
  let timer = null;

  const input = h("input", { type: "text", value: state.text, maxLength: 2000, spellcheck: false, autocomplete: "off", onkeydown: (event) => event.key === "Enter" && question() });
  const picture = h("div", {});
  const panel = h("section", { class: "card", "aria-label": "the chosen pair", "aria-live": "polite" });
  const listing = h("section", { class: "card", "aria-label": "strongest pairs" });
  const answer = h("div", { class: "stack", hidden: true }, h("section", { class: "card" }, picture), h("div", { class: "columns" }, listing, panel));
  const problem = h("div", {});
  const save = () => write("dependence", state, defaults);
  const body = () => ({ text: state.text, joint: state.joint, others: state.text.includes("[MASK]") ? null : state.others, candidates: state.candidates });

  async function question() {
    state.text = input.value;
    if (found && state.text !== found.text) state.pair = "";
    save();
    const signal = latest.begin();
    pairing.stop();
    kept.clear();
    off.clear();
    problem.replaceChildren();
    try {
      status.say("asking the model …");
      found = await askSlowly("dependence", body(), signal, (share, line) => status.say(line, share));
      status.say(`${found.passes.toLocaleString("en")} passes of the model`);
      answer.hidden = false;
      const at = state.pair.split(",").map(Number);
      on = pairs().find((pair) => found.positions[pair.i] === at[0] && found.positions[pair.j] === at[1]) ?? pairs()[0];
      draw();
      pick(on);
    } catch (error) {
      if (error.name === "AbortError") return;
      status.say("");
      answer.hidden = true;
      problem.replaceChildren(failure(error));
    }
  }

  const key = (pair) => `${found.positions[pair.i]},${found.positions[pair.j]}`;
  const pairs = () => found.tokens.flatMap((_, i) => found.tokens.slice(i + 1).map((_, n) => ({ i, j: i + 1 + n, value: found.matrix[i][i + 1 + n] }))).sort((a, b) => b.value - a.value);

  function draw() {
    const drawn = pairs().slice(0, DRAWN).map((pair) => ({ ...pair, off: state.colour === "off" && off.has(key(pair)) ? off.get(key(pair)) / 4 : 0 }));
    picture.replaceChildren(
      h("header", { class: "controls" }, choices("colour", state.colour, [["plain", "Mutual information"], ["off", "… and incompatibility"]], (colour) => { state.colour = colour; save(); draw(); if (colour === "off") measureOff(); })),
      arcs(found.tokens, drawn, { look: hover, pick, on }),
      h("p", { class: "key" }, h("span", {}, "wide: the two words depend on each other"), state.colour === "off" ? h("span", { class: "less" }, "conditionals more than 1.4 nats from any joint") : null));
    listing.replaceChildren(h("h2", {}, "Strongest pairs"), h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "words"), h("th", { scope: "col", class: "n" }, "nats"))),
      h("tbody", {}, pairs().slice(0, LISTED).map((pair) => h("tr", {},
        h("td", {}, h("button", { type: "button", "aria-pressed": String(on?.i === pair.i && on?.j === pair.j), onclick: () => pick(pair) }, `${shown(found.tokens[pair.i])} – ${shown(found.tokens[pair.j])}`)),
        h("td", { class: "n" }, nats(pair.value, 3)))))));
  }

  function hover(pair) {
    clearTimeout(timer);
    timer = setTimeout(() => pick(pair), PATIENCE);
  }

  const joint = (pair, signal) => {
    const whole = !found.text.includes("[MASK]");
    return ask("joint", { text: found.text, positions: whole ? [found.positions[pair.i], found.positions[pair.j]] : null, joint: state.joint, candidates: state.candidates, cells: 7, top: 1 }, signal);
  };

  async function pick(pair) {
    on = pair;
    state.pair = key(pair);
    save();
    draw();
    const words = `${shown(found.tokens[pair.i])} – ${shown(found.tokens[pair.j])}`;
    const tell = (...inside) => panel.replaceChildren(h("h2", {}, words), ...inside);
    try {
      if (!kept.has(key(pair))) {
        tell(h("p", { class: "note" }, "deriving their joint …"));
        kept.set(key(pair), await joint(pair, pairing.begin()));
      }
      const pairJoint = kept.get(key(pair));
      off.set(key(pair), pairJoint.compatibility);
      tell(h("p", { class: "note" }, `${pairJoint.summary} All other words as they stand. ${pairJoint.warning}`.trim()), pairJoint.map ? heatmap(pairJoint.map, { small: true, colouring: "joint" }) : null);
    } catch (error) {
      if (error.name !== "AbortError") tell(failure(error));
    }
  }

  async function measureOff() {
    const signal = colouring.begin();
    const asked = pairs().slice(0, LISTED);
    try {
      for (const [n, pair] of asked.entries()) {
        status.say(`compatibility of the strongest pairs: ${n + 1} of ${asked.length}`, n / asked.length);
        if (!off.has(key(pair))) off.set(key(pair), (await joint(pair, signal)).compatibility);
        draw();
      }
      status.say("");
    } catch (error) {
      if (error.name !== "AbortError") status.say(error.message);
    }
  }

  const change = (name) => (value) => { state[name] = value; question(); };
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "Which words depend on each other?"), h("p", {}, "Two words share information if knowing one changes what the model expects of the other, everything else being as it stands.")),
    h("section", { class: "sentence card" }, h("label", {}, "A sentence", input)),
    h("div", { class: "controls" },
      select("Joint", state.joint, about.constructions.map((c) => [c.name, c.label]), change("joint")),
      select("Other words", state.others, [["text", "as they stand"], ["masked", "masked"]], change("others")),
      number("Words considered", state.candidates, { min: 2, max: 256 }, change("candidates")),
      h("button", { type: "button", class: "main", onclick: question }, "Measure")),
    status.element, problem, answer,
    copying(about, () => ({ verb: "dependence", first: [state.text], options: { joint: state.joint, others: body().others, candidates: state.candidates } })));
  if (values.text !== undefined || Object.keys(values).length) question();
  else status.say("About a thousand passes of the model: press Measure.");
  return () => { clearTimeout(timer); latest.stop(); pairing.stop(); colouring.stop(); };
}
