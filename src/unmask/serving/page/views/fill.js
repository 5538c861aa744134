// Fill: the joint of the blanks, beside what independent blanks would say.
import { ask, askSlowly, Latest, Refused } from "../api.js";
import { call, command, copying, python } from "../copy.js";
import { failure, h, select } from "../drawing/dom.js";
import { completionsCard, constructionsCard, plainly } from "../fill/tables.js";
import { mapCard, pinCard } from "../fill/map.js";
import { keeping } from "../focus.js";
import { halt } from "../job.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

const [QUICK, CELLS, SMALL] = [48, 14, 40];
const [MANY, TOP] = [3, 12];

export function open(root, about, values) {
  const example = about.examples.fill ?? { text: "", blanks: "" };
  const address = new Address("fill", values, { text: example.text, blanks: example.blanks, joint: "", size: "auto", colour: "joint", pin: "", cell: "" });
  const { state } = address;
  const [latest, pinning] = [new Latest(), new Latest()];
  const lead = h("p", { class: "lead", "aria-live": "polite" });
  const controls = h("div", { class: "controls" });
  const meaning = h("p", { class: "note" });
  const slot = () => h("div", { class: "slot" });
  const [map, constructions, pins, best] = [slot(), slot(), slot(), slot()];
  const problem = h("div", { class: "slot" });
  let found = null;
  let chosen = null;

  const sentence = new Sentence({
    about, text: state.text, blanks: state.blanks, pin: state.pin, kinds: ["token", ...(about.whole_words ? ["word"] : []), "gap"],
    hint: about.by_character ? "Click a residue to blank it; click it again to put it back." : "Click a word to blank it; click it again to put it back.",
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: "", cell: "" });
      address.save(reason === "begin" ? "quiet" : reason);
      question();
    },
    fail: (error) => { state.text = sentence.text; address.save("typing"); clear(failure(error)); } });
  const { status } = sentence;

  const blanks = () => sentence.chosen.length;
  const grid = () => !sentence.several && blanks() >= 2 && (blanks() === 2 || state.size !== "auto" || !["", about.searched_joint].includes(state.joint));
  const joint = () => state.joint || about.default_joint;
  const text = () => sentence.template();
  const names = () => sentence.chosen.map((i, n) => (about.by_character ? `residue ${i + 1}` : `blank ${n + 1}`));
  const cells = () => (about.vocabulary <= SMALL ? Math.min(about.vocabulary, about.limits.most_cells) : CELLS);
  const sized = (size) => ({ candidates: size === "auto" || size === "exact" ? null : Number(size), exact: size === "exact" });
  const asked = (size) => ({ text: text(), joint: joint(), ...sized(size), cells: cells(), pin: sentence.pinned ? { blank: sentence.pinned.blank, token: sentence.pinned.token } : null });

  function clear(...said) {
    found = chosen = null;
    lead.textContent = "";
    status.say("");
    status.stoppable(null);
    problem.replaceChildren(...said);
    for (const box of [map, constructions, pins, best]) box.replaceChildren();
    drawControls();
  }

  async function question() {
    const signal = latest.begin();
    drawControls();
    if (!blanks()) return clear(h("p", { class: "empty" }, "Click one word to see what could stand there, or two to see how they depend on each other."));
    problem.replaceChildren();
    status.stoppable(() => halt(latest, signal, status));
    try {
      if (grid()) await derive(signal);
      else await search(signal);
      status.say("");
      remember("Fill", text());
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      clear(failure(error));
    }
    status.stoppable(null);
    return undefined;
  }

  async function derive(signal) {
    if (state.size === "auto" && about.vocabulary > QUICK) {
      status.say(`first look: ${QUICK} likely words of each blank …`);
      show(await ask("joint", { ...asked(String(QUICK)), pin: null }, signal));
    }
    const report = (share, line) => status.say(state.size === "exact" ? `exact: ${line}` : line, share);
    report(null, "asking the model …");
    try {
      show(await askSlowly("joint", asked(state.size), signal, report));
    } catch (error) {
      if (!(error instanceof Refused) || !sentence.pinned) throw error;
      problem.replaceChildren(h("p", { class: "error", role: "alert" }, `${error.message} The word is not pinned any more.`));
      pinned("");
      show(await askSlowly("joint", asked(state.size), signal, report));
    }
  }

  async function search(signal) {
    status.say("asking the model …");
    const filled = await askSlowly("fill", { text: text(), top: TOP, joint: blanks() === 1 && !sentence.several ? joint() : null }, signal, (share, line) => status.say(line, share));
    found = null;
    const several = blanks() > 1 || sentence.several;
    lead.textContent = `${plainly(filled.summary)} ${filled.warning}`.trim();
    for (const box of [map, constructions, pins]) box.replaceChildren();
    map.replaceChildren(completionsCard(filled, several ? "chain" : "probability", several && !sentence.several));
    best.replaceChildren();
    tell(filled);
  }

  const tell = (answer) => about.tell?.({ by: "log-probability of completions", values: Object.fromEntries(answer.completions.map((one) => [one.text, Number(one.log_prob)])) });

  function show(answer) {
    found = answer;
    tell(answer);
    lead.textContent = `${answer.summary} ${answer.warning}`.trim();
    const [first, second] = state.cell.split(":").map(Number);
    const at = found.map ? [found.map.axes[0].ids.indexOf(first), found.map.axes[1].ids.indexOf(second)] : [-1, -1];
    chosen = state.cell && at.every((i) => i >= 0) ? at : null;
    if (chosen) sentence.fillIn([found.map.axes[0].tokens[at[0]], found.map.axes[1].tokens[at[1]]]);
    if (sentence.pinned && found.map?.given) pinned(`${sentence.pinned.blank}:${sentence.pinned.token}:${found.map.given.token}`);
    draw();
  }

  function draw() {
    drawControls();
    if (!found) return;
    keeping(answer, () => {
      const completions = completionsCard(found, found.joint, true);
      const shown = { colour: state.colour, pinned: sentence.pinned, chosen, names: names(), act: { colour: (colour) => { state.colour = colour; address.save(); draw(); }, pin: setPin, choose } };
      map.replaceChildren(found.map ? mapCard(found, shown) : completions);
      pins.replaceChildren(...(found.map ? [pinCard(found, shown)] : []));
      best.replaceChildren(...(found.map ? [completions] : []));
      constructions.replaceChildren(constructionsCard(found, about, (name) => { state.joint = name; state.cell = ""; address.save(); question(); }));
    });
  }

  function pinned(pin) {
    state.pin = sentence.pin = pin;
    sentence.draw();
    address.save("quiet");
  }

  async function setPin(blank, id, token) {
    const now = sentence.pinned;
    const next = blank === null || (now && now.blank === blank && now.token === id) ? "" : `${blank}:${id}:${token}`;
    Object.assign(state, { pin: next, cell: "" });
    Object.assign(sentence, { pin: next });
    sentence.filled.clear();
    sentence.draw();
    chosen = null;
    address.save();
    if (!next) {
      found = { ...found, map: { ...found.map, given: null } };
      return draw();
    }
    try {
      const answered = await ask("joint", asked(found.exact ? "exact" : String(found.shape[0])), pinning.begin());
      if (state.pin === next) show(answered);
    } catch (error) {
      if (error.name !== "AbortError") { pinned(""); status.say(error.message); draw(); }
    }
    return undefined;
  }

  function choose(i, j) {
    const [rows, columns] = found.map.axes;
    state.cell = `${rows.ids[i]}:${columns.ids[j]}`;
    chosen = [i, j];
    sentence.fillIn([rows.tokens[i], columns.tokens[j]]);
    address.save();
    draw();
  }

  const keep = h("button", { type: "button", class: "main", hidden: true, onclick: () => {
    const { filled, words } = sentence;
    sentence.set(sentence.template((word) => filled.get(words.indexOf(word)) ?? word.text));
  } }, "Keep these words");

  // The box shows what is used: one blank has no joint, words and gaps are searched by the chain rule, as are three blanks or more by default.
  function drawControls() {
    keep.hidden = !sentence.filled.size || sentence.typed;
    panel.hidden = !blanks();
    const one = blanks() <= 1 && !sentence.several;
    const chain = `${about.constructions.find((c) => c.name === about.searched_joint).label} rule over all orders`;
    const usual = blanks() >= MANY || sentence.several ? chain : about.constructions.find((c) => c.name === about.default_joint).label;
    const others = one || sentence.several ? [] : about.constructions.map((c) => [c.name, c.label, c.meaning]);
    const value = others.length ? state.joint : "";
    const used = grid() ? joint() : about.searched_joint;
    meaning.textContent = one ? "" : about.constructions.find((c) => c.name === used)?.meaning ?? "";
    const sizes = [["auto", blanks() >= MANY && ["", about.searched_joint].includes(state.joint) ? "the whole vocabulary, searched" : "as many as take seconds"], ["64", "64 each"], ["128", "128 each"], ["256", "256 each"], ["exact", "every token (exact)"]];
    const set = (name) => (chosenValue) => { Object.assign(state, { [name]: chosenValue, pin: name === "size" ? "" : state.pin, cell: "" }); sentence.pin = state.pin; address.save(); question(); };
    keeping(controls, () => controls.replaceChildren(...[
      select("Joint", value, [["", one ? "the model’s own conditional" : `${usual} (default)`], ...others], set("joint")),
      others.length ? select("Words considered", state.size, sizes, set("size")) : null,
      keep].filter(Boolean)));
  }

  function copied() {
    const size = sized(state.size);
    if (!grid()) return { python: `print(${call(about, "fill", [text()], { top: TOP })})`, command: command(about, "fill", [text()], { top: TOP }) };
    const options = { joint: state.joint || null, ...size };
    const pin = sentence.pinned;
    if (!pin) return { python: `print(${call(about, "compare", [text()], options)})`, command: command(about, "compare", [text()], options) };
    const lines = [
      `joint = ${call(about, "compare", [text()], options)}.joints[${python(joint())}]`,
      `# blank ${2 - pin.blank}, given ${python(pin.word ?? String(pin.token))} in blank ${pin.blank + 1}`,
      `given = joint.conditional(${1 - pin.blank}, [${pin.token}])`,
      "for place in given.argsort(descending=True)[:8].tolist():",
      `    print(f"{given[place]:.6f}", joint.label(int(joint.tables.candidates[${1 - pin.blank}][place])))`].join("\n");
    return { python: lines, command: `python3 - <<'END'\nimport unmask\n\n${lines}\nEND` };
  }

  const panel = h("section", { class: "card", "aria-label": "what is asked" }, lead, controls, meaning);
  const answer = h("div", { class: "columns wide-left" }, h("div", { class: "stack" }, map, constructions), h("div", { class: "stack" }, panel, pins, best));
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "What stands in the blanks?"), h("p", {}, "Independent blanks are what a masked model says of each alone; the joint says what they say together.")),
    sentence.element, problem, answer, copying(copied));
  drawControls();
  sentence.begin();
  return () => { latest.stop(); pinning.stop(); sentence.leave(); };
}
