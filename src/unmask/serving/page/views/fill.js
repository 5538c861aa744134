// Fill: the joint of the blanks, beside what independent blanks would say.
import { ask, askSlowly, Latest } from "../api.js";
import { bars } from "../drawing/bars.js";
import { copying } from "../copy.js";
import { choices, failure, h, marked, nats, percent, percentAtLeast, probability, select, shown, Status } from "../drawing/dom.js";
import { COLOURINGS, heatKey, heatmap } from "../drawing/heatmap.js";
import { Sentence } from "../sentence.js";
import { numbers, typed, write } from "../state.js";

const EXAMPLE = "A woman is reading a book in the park.";
const QUICK = 48;
const SIZES = [["auto", "as many as take seconds"], ["64", "64 each"], ["128", "128 each"], ["256", "256 each"], ["exact", "every token (exact)"]];

export function open(root, about, values) {
  const defaults = { text: EXAMPLE, blanks: "3,5", joint: about.default_joint, size: "auto", colour: "joint", pin: "", words: "tokens" };
  const state = typed(values, defaults);
  const [latest, pinning, status] = [new Latest(), new Latest(), new Status()];
  const controls = h("div", { class: "controls" });
  const answer = h("div", { class: "columns" });
  const lead = h("p", { class: "lead", "aria-live": "polite" });
  let found = null;
  let chosen = null;

  const sentence = new Sentence({
    label: "A sentence", text: state.text, pressed: numbers(state.blanks), hint: "Click a word to blank it; click it again to put it back.",
    change: (reason) => {
      Object.assign(state, { text: sentence.text, blanks: sentence.chosen.join(","), pin: reason === "begin" ? state.pin : "" });
      chosen = null;
      question();
    },
    fail: (error) => answer.replaceChildren(failure(error)) });

  const save = () => write("fill", state, defaults);
  const text = () => sentence.template(() => (state.words === "words" ? "[WORD]" : "[MASK]"));
  const blanks = () => sentence.chosen.length;
  const whole = () => state.words === "words" && !about.by_character;
  const grid = () => !whole() && blanks() >= 2 && (blanks() === 2 || state.size !== "auto" || state.joint !== about.default_joint);
  const asked = (size) => ({
    text: text(), joint: state.joint, candidates: size === "auto" || size === "exact" ? null : Number(size), exact: size === "exact",
    pin: state.pin ? { blank: Number(state.pin.split(":")[0]), token: Number(state.pin.split(":")[1]) } : null });

  async function question() {
    save();
    drawControls();
    const signal = latest.begin();
    if (!blanks()) {
      found = null;
      lead.textContent = "";
      status.say("");
      answer.replaceChildren(h("p", { class: "empty" }, "Click one word to see what could stand there, or two to see how they depend on each other."));
      return;
    }
    try {
      if (!grid()) return await search(signal);
      if (state.size === "auto") {
        status.say(`first look: ${QUICK} likely words of each blank …`);
        show(await ask("joint", asked(String(QUICK)), signal));
      }
      const tell = (share, line) => status.say(state.size === "exact" ? `exact: ${line}` : line, share);
      tell(null, "asking the model …");
      show(await askSlowly("joint", asked(state.size), signal, tell));
      status.say("");
    } catch (error) {
      if (error.name === "AbortError") return;
      status.say("");
      lead.textContent = "";
      answer.replaceChildren(failure(error));
    }
  }

  async function search(signal) {
    status.say("asking the model …");
    const filled = await ask("fill", { text: text(), top: 12, joint: blanks() === 1 && !whole() ? state.joint : null }, signal);
    found = null;
    status.say("");
    lead.textContent = filled.mass === null ? filled.warning : filled.summary.charAt(0).toUpperCase() + filled.summary.slice(1) + ".";
    answer.className = "stack";
    answer.replaceChildren(completions(filled.completions, filled.blanks > 1 || whole() ? "chain" : "probability", filled.blanks > 1 && !whole()));
  }

  function show(joint) {
    found = joint;
    lead.textContent = `${joint.summary} ${joint.warning}`.trim();
    draw();
  }

  function draw() {
    if (!found) return;
    const best = completions(found.completions, found.joint, true);
    const [left, right] = found.map ? [[mapCard(), constructions()], [pinCard(), best]] : [[best], [constructions()]];
    answer.replaceChildren(h("div", { class: "stack" }, left), h("div", { class: "stack" }, right));
    answer.className = "columns wide-left";
  }

  function mapCard() {
    const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at a cell, or use the arrow keys; a click puts its words into the sentence.");
    const [rows, columns] = found.map.axes;
    const look = (i, j) => readout.replaceChildren(
      h("strong", {}, `${shown(rows.tokens[i])} … ${shown(columns.tokens[j])}`), ` ${percent(found.map.joint[i][j])} under ${found.joint}, ${percent(found.map.product[i][j])} if the blanks were independent`,
      found.map.product[i][j] > 0 ? ` (${(found.map.joint[i][j] / found.map.product[i][j]).toPrecision(2)} times)` : "");
    const pin = state.pin ? { blank: Number(state.pin.split(":")[0]), token: Number(state.pin.split(":")[1]) } : null;
    return h("section", { class: "card", "aria-label": "joint of the two blanks" },
      h("header", {}, h("h2", {}, "The two blanks together"), choices("colour", state.colour, COLOURINGS, (colour) => { state.colour = colour; save(); draw(); })),
      heatmap(found.map, { colouring: state.colour, pinned: pin, chosen, pin: setPin, choose, look }),
      heatKey(state.colour), readout,
      h("p", { class: "note" }, `${found.shape.map((n) => n.toLocaleString("en")).join(" × ")} words considered; they hold ${percentAtLeast(found.candidates_mass)} of the independent blanks’ mass.`));
  }

  function pinCard() {
    const given = found.map.given;
    const column = (blank) => {
      const axis = found.map.axes[blank];
      if (given && given.blank !== blank) {
        const most = Math.max(...given.given, ...given.marginal);
        return h("div", {}, h("h3", {}, `Blank ${blank + 1}, given “${shown(given.token)}”`), bars({ tokens: given.tokens.slice(0, 8), ids: given.ids, now: given.given, before: given.marginal, most, pick: (id, token) => setPin(blank, id, token) }));
      }
      return h("div", {}, h("h3", {}, `Blank ${blank + 1}`), bars({ tokens: axis.tokens.slice(0, 8), ids: axis.ids, now: axis.marginal, pressed: given ? Number(state.pin.split(":")[1]) : null, pick: (id, token) => setPin(blank, id, token) }));
    };
    return h("section", { class: "card", "aria-label": "pin a word" },
      h("header", {}, h("h2", {}, "Pin a word"), given ? h("button", { type: "button", onclick: () => setPin(null) }, "Unpin") : null),
      h("p", { class: "note" }, given ? `With “${shown(given.token)}” in blank ${given.blank + 1}, the other blank changes; the dark mark is where it was before.` : "Pin a word in one blank and watch the other change."),
      column(0), column(1));
  }

  async function setPin(blank, id) {
    const before = found.map;
    const next = blank === null || state.pin === `${blank}:${id}` ? "" : `${blank}:${id}`;
    state.pin = next;
    save();
    if (!next) {
      found = { ...found, map: { ...before, given: null } };
      return draw();
    }
    try {
      const size = found.exact ? "exact" : String(found.shape[0]);
      const answered = await ask("joint", asked(size), pinning.begin());
      if (state.pin === next) show(answered);
    } catch (error) {
      if (error.name !== "AbortError") { state.pin = ""; status.say(error.message); draw(); }
    }
  }

  function choose(i, j) {
    chosen = [i, j];
    put([found.map.axes[0].tokens[i], found.map.axes[1].tokens[j]]);
    draw();
  }

  function put(tokens) {
    sentence.fillIn(tokens.map((token) => shown(token)));
    keep.hidden = false;
  }

  function completions(rows, name, beside) {
    const most = Math.max(...rows.map((row) => Math.max(probability(row.log_prob), beside ? probability(row.product_log_prob) : 0)));
    const cell = (value, kind) => h("td", { class: "n" }, percent(value), h("span", { class: `bar ${kind}`, "--p": value / most }, h("i")));
    return h("section", { class: "card" }, h("h2", {}, "Best completions"),
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "best completions" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "n" }, name), beside ? h("th", { scope: "col", class: "n" }, "independent") : null, h("th", { scope: "col" }, "sentence"))),
        h("tbody", {}, rows.map((row) => h("tr", {}, cell(probability(row.log_prob), ""), beside ? cell(probability(row.product_log_prob), "beside") : null, h("td", {}, marked(row.text, row.spans))))))));
  }

  function constructions() {
    return h("section", { class: "card later" }, h("header", {}, h("h2", {}, "Every construction")),
      h("p", { class: "note" }, "A masked model gives conditionals, not a joint; each rule derives one. Dependence and entropy are in nats; the last number tells how far a joint’s conditionals lie from the model’s."),
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "every construction" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, ["construction", "dependence", "entropy", "unfaithful", "its best", ""].map((name, n) => h("th", { scope: "col", class: n && n < 4 ? "n" : "" }, name)))),
        h("tbody", {}, found.constructions.map((row) => h("tr", {},
          h("td", {}, h("button", { type: "button", "aria-pressed": String(row.name === found.joint), onclick: () => { state.joint = row.name; question(); } }, row.label)),
          h("td", { class: "n" }, nats(row.total_correlation)), h("td", { class: "n" }, nats(row.entropy)), h("td", { class: "n" }, nats(row.a_kl, 3)),
          h("td", {}, row.best.tokens.map(shown).join(" … ")), h("td", { class: "n" }, percent(probability(row.best.log_prob)))))))));
  }

  const keep = h("button", { type: "button", class: "main", hidden: true, onclick: () => {
    const words = sentence.words;
    const filled = sentence.filled;
    const kept = sentence.template((word) => filled.get(words.indexOf(word)) ?? word.text);
    keep.hidden = true;
    sentence.set(kept, []);
  } }, "Keep these words");

  function drawControls() {
    keep.hidden = !sentence.filled.size;
    controls.replaceChildren(...[
      select("Joint", state.joint, about.constructions.map((c) => [c.name, c.label]), (joint) => { state.joint = joint; question(); }),
      select("Words considered", state.size, SIZES, (size) => { state.size = size; state.pin = ""; question(); }),
      about.by_character ? null : select("A blank is", state.words, [["tokens", "one token"], ["words", "a whole word"]], (words) => { state.words = words; question(); }),
      keep].filter(Boolean));
  }

  const command = () => {
    const size = { candidates: state.size === "auto" || state.size === "exact" ? null : Number(state.size), exact: state.size === "exact" };
    return grid() ? { verb: "compare", first: [text()], options: { joint: state.joint, ...size } } : { verb: "fill", first: [text()], options: { top: 12 } };
  };
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "What stands in the blanks?"), h("p", {}, "Blank two words. Independent blanks are what a masked model says of each alone; the joint says what they say together.")),
    sentence.element, controls, status.element, lead, answer, copying(about, command));
  drawControls();
  sentence.begin();
  return () => { latest.stop(); pinning.stop(); sentence.leave(); };
}
