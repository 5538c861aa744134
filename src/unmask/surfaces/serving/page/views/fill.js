// Fill: the joint of the blanks, beside what independent blanks would say.
import { keeping, Question, Refused } from "../ask.js";
import { card, copying, table } from "../cards.js";
import { bars } from "../drawing/bars.js";
import { choices, h, marked, nats, percent, probability, select, shown } from "../drawing/dom.js";
import { COLOURINGS, heatmap } from "../drawing/heatmap.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

const [CELLS, TOP, LISTED] = [14, 12, 8];
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function open(root, about, values) {
  const [word, example] = [about.by_character ? "residue" : "word", about.examples.fill ?? { text: "", blanks: "" }];
  const address = new Address(about, "fill", values, { text: example.text, blanks: example.blanks, construction: "", size: "auto", colour: "joint", pin: "", cell: "" }, { colour: COLOURINGS.map(([name]) => name) });
  const { state } = address;
  const slot = () => h("div", { class: "slot" });
  const [map, constructions, pins, best] = [slot(), slot(), slot(), slot()];
  const lead = h("p", { class: "lead", "aria-live": "polite" });
  const [controls, meaning] = [h("div", { class: "controls" }), h("p", { class: "note" })];
  const question = new Question(about.api, [lead, map, constructions, pins, best], `Click a ${word} to blank it; click it again to put it back.`);
  let plan = { constructions: [], sizes: [], meaning: "" };
  let answer = null;
  let chosen = null;
  let known = ""; // the question whose answer is shown as a whole

  const sentence = new Sentence({
    about, question, state, hides: true, kinds: about.kinds.map((kind) => kind.name).filter((name) => name !== "word" || about.whole_words),
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: "", cell: "" });
      address.save(reason === "begin" ? "quiet" : reason);
      if (reason !== "refused") ask();
    } });

  const names = () => sentence.chosen.map((i, n) => (about.by_character ? `residue ${i + 1}` : `blank ${n + 1}`));
  const planned = () => (sentence.several ? { text: sentence.template() } : { text: sentence.template(), construction: state.construction || null, candidates: state.size === "all" ? "all" : /^\d+$/.test(state.size) ? Number(state.size) : null });
  // What stands in the blanks, if each is one token: it is on the map, however improbable.
  const targets = () => {
    const words = sentence.chosen.map((i) => sentence.words[i]);
    return !sentence.several && words.every((one) => !one.blank && one.known && one.pieces === 1 && !one.text.includes(",")) ? words.map((one) => one.text) : null;
  };
  const body = () => ({ ...planned(), targets: targets(), top: TOP, cells: CELLS, pin: sentence.pinned ? { blank: sentence.pinned.blank, token: sentence.pinned.token } : null });
  const of = () => [`“${answer.text}”`, `${about.model}, construction ${answer.construction ?? "of one blank"}`, answer.note, withPin()];
  // What is pinned changes the map's other blank; every other number is without it.
  const withPin = () => (answer.map?.given ? `“${shown(answer.map.given.token)}” is pinned in ${names()[answer.map.given.blank]}; the sentence, the map and the completions are without it.` : "");

  function ask() {
    about.asks?.();
    if (!sentence.chosen.length) {
      answer = chosen = null;
      lead.textContent = "";
      panel.hidden = true;
      return question.clear(h("p", { class: "empty" }, `Click one ${word} to see what could stand there, or two to see how they depend on each other.`));
    }
    return question.run(async ({ signal }) => {
      plan = await about.api.ask("plan", planned(), signal);
      panel.hidden = false;
      drawControls();
      const note = state.size === "all" ? "exact: " : "";
      const now = JSON.stringify(planned());
      if (plan.first && !sentence.pinned && now !== known) {
        question.say(`first look: ${plan.first} likely ${word}s of each blank …`);
        show(await about.api.ask("fill", { ...body(), candidates: plan.first }, signal), `First look, ${plan.first} ${word}s of each blank. `);
        question.stale(false);
      }
      try {
        show(await question.slowly("fill", body(), note));
      } catch (error) {
        if (!(error instanceof Refused) || error.away || !sentence.pinned) throw error;
        pinned("");
        show(await question.slowly("fill", body(), note));
        question.problem.replaceChildren(h("p", { class: "error", role: "alert" }, `${error.message} The ${word} is not pinned any more.`));
      }
      known = now;
      about.tell?.({ by: "log-probability of completions", values: Object.fromEntries(answer.completions.map((one) => [one.text, Number(one.log_prob)])) });
      if (!about.second) remember("Fill", sentence.template());
    });
  }

  function show(next, which = "") {
    answer = next;
    lead.textContent = [`${which}${answer.summary}`, answer.warning, withPin()].filter(Boolean).join(" ");
    const [first, second] = state.cell.split(":").map(Number);
    const at = answer.map ? [answer.map.axes[0].ids.indexOf(first), answer.map.axes[1].ids.indexOf(second)] : [-1, -1];
    chosen = state.cell && at.every((i) => i >= 0) ? at : null;
    if (chosen) sentence.fillIn([answer.map.axes[0].tokens[at[0]], answer.map.axes[1].tokens[at[1]]]);
    if (sentence.pinned && answer.map?.given) pinned(`${sentence.pinned.blank}:${sentence.pinned.token}:${answer.map.given.token}`);
    draw();
  }

  function draw() {
    drawControls();
    keeping(columns, () => {
      map.replaceChildren(answer.map ? mapCard() : completions());
      pins.replaceChildren(...(answer.map ? [pinCard()] : []));
      best.replaceChildren(...(answer.map ? [completions()] : []));
      constructions.replaceChildren(...(answer.constructions.length ? [described()] : []));
    });
  }

  function mapCard() {
    const { axes: [rows, across], joint, product } = answer.map;
    const readout = h("p", { class: "readout", "aria-live": "polite" }, `Point at a cell, or use the arrow keys; a click puts its ${word}s into the text.`);
    const look = (i, j) => readout.replaceChildren(
      h("strong", {}, `${shown(rows.tokens[i])} … ${shown(across.tokens[j])}`), ` ${percent(joint[i][j])} under ${answer.construction}, ${percent(product[i][j])} if the blanks were independent`,
      product[i][j] > 0 ? ` (${(joint[i][j] / product[i][j]).toPrecision(2)} times)` : "");
    if (chosen) look(...chosen);
    const every = () => [["first", "second", answer.construction, "product"], ...rows.tokens.flatMap((first, i) => across.tokens.map((second, j) => [first, second, joint[i][j], product[i][j]]))];
    return card({ title: "The two blanks together", label: "joint of the two blanks", name: "map", kind: "map", rows: every, data: () => answer, of, tools: [choices("colour", state.colour, COLOURINGS, (colour) => { state.colour = colour; address.save(); draw(); })] },
      heatmap(answer.map, { colouring: state.colour, pinned: sentence.pinned, chosen, names: names(), pin: setPin, choose, look }), readout,
      h("p", { class: "note" }, `${answer.note} ${onMap(rows, across)}`));
  }

  // How the tokens along the edges were chosen (`pair_map`).
  function onMap(rows, across) {
    if (rows.ids.length === answer.shape[0] && across.ids.length === answer.shape[1]) return `The map shows all of them${rows.stands === null ? "." : "; underlined is what stands there."}`;
    const size = `The map shows ${rows.ids.length} × ${across.ids.length} of them`;
    const likely = `in each blank those that are most probable on average of ${answer.construction} and of independent blanks`;
    return `${size}: ${likely}${rows.stands === null ? "." : ", and what stands there, underlined."}`;
  }

  function pinCard() {
    const { given, axes } = answer.map;
    const column = (blank) => {
      const pick = (id, token) => setPin(blank, id, token);
      if (given && given.blank !== blank) {
        return h("div", {}, h("h3", {}, `${capital(names()[blank])}, given “${shown(given.token)}”`),
          bars({ blank, tokens: given.tokens.slice(0, LISTED), ids: given.ids, now: given.given, before: given.marginal, most: Math.max(...given.given, ...given.marginal), pick }));
      }
      const axis = axes[blank];
      return h("div", {}, h("h3", {}, capital(names()[blank])), bars({ blank, tokens: axis.tokens.slice(0, LISTED), ids: axis.ids, now: axis.marginal, pressed: given ? sentence.pinned?.token : null, pick }));
    };
    const rows = () => (given
      ? [["token", "given", "before", "model"], ...given.tokens.map((token, i) => [token, given.given[i], given.marginal[i], given.model[i]])]
      : [["blank", "token", "joint", "product"], ...axes.flatMap((axis, n) => axis.tokens.map((token, i) => [n + 1, token, axis.marginal[i], axis.product[i]]))]);
    return card({ title: `Pin a ${word}`, label: `pin a ${word}`, name: "pinned", rows, data: () => given ?? axes, tools: given ? [h("button", { type: "button", "data-key": `bar:${given.blank}:unpin`, onclick: () => setPin(null) }, "Unpin")] : [] },
      h("p", { class: "note" }, given ? `With “${shown(given.token)}” in ${names()[given.blank]}, the other blank changes; the mark is where it was before.` : `The likeliest ${word}s of the map: pin one, and watch the other blank change.`),
      column(0), column(1));
  }

  // A click on a completion puts its words into the blanks.
  function completions() {
    const [rows, { beside }] = [answer.completions, answer];
    const most = Math.max(...rows.map((row) => Math.max(probability(row.log_prob), beside ? probability(row.product_log_prob) : 0)));
    const cell = (logProb, kind) => [{ title: `log-probability ${logProb}` }, percent(probability(logProb)), h("span", { class: `bar ${kind}`, "--p": most ? probability(logProb) / most : 0 }, h("i"))];
    const put = (row, n) => h("button", { type: "button", class: "put", "data-key": `put:${n}`, title: row.text, onclick: () => { sentence.fillIn(row.parts ?? row.tokens); drawControls(); } }, marked(row.text, row.spans));
    const columns = ["log_prob", ...(beside ? ["product_log_prob"] : []), "text", ...rows[0].tokens.map((_, n) => `blank_${n + 1}`)];
    return card({ title: "Best completions", label: "completions", name: "completions", kind: "best", rows: () => [columns, ...rows.map((row) => [row.log_prob, ...(beside ? [row.product_log_prob] : []), row.text, ...row.tokens])], data: () => answer },
      table("best completions", [`#${answer.construction && answer.blanks > 1 ? answer.construction : "probability"}`, ...(beside ? ["#independent"] : []), about.by_character ? "sequence" : "sentence"], rows.map((row, n) => [cell(row.log_prob, ""), ...(beside ? [cell(row.product_log_prob, "beside")] : []), [{}, put(row, n), row.gold ? h("span", { class: "note" }, " (what stands there)") : null]])),
      answer.note && !answer.map ? h("p", { class: "note condition" }, answer.note) : null, withPin() ? h("p", { class: "note condition" }, withPin()) : null);
  }

  function described() {
    const meanings = Object.fromEntries(about.constructions.map((one) => [one.name, one.meaning]));
    const rows = answer.constructions;
    const choose = (name) => { Object.assign(state, { construction: name, cell: "" }); address.save(); ask(); };
    return card({ title: "Every construction", name: "constructions", kind: "later", rows: () => [["construction", "dependence", "entropy", "unfaithful", "best", "log_prob"], ...rows.map((row) => [row.name, row.total_correlation, row.entropy, row.a_kl, row.best.text, row.best.log_prob])], data: () => rows },
      h("p", { class: "note" }, "A masked model gives conditionals, not a joint; each rule derives one. Dependence and entropy are in nats. Unfaithful: how far a joint’s conditionals lie from the model’s, in nats."),
      table("constructions", ["construction", "#dependence", "#entropy", "#unfaithful", "_its best"], rows.map((row) => [
        [{}, h("button", { type: "button", "aria-pressed": String(row.name === answer.construction), "data-key": `construction:${row.name}`, onclick: () => choose(row.name) }, row.label)],
        nats(row.total_correlation), nats(row.entropy), nats(row.a_kl, 3), `${row.best.tokens.map(shown).join(" … ")} (${percent(probability(row.best.log_prob))})`])),
      h("dl", { class: "meanings" }, rows.map((row) => [h("dt", {}, row.label), h("dd", {}, meanings[row.name])])));
  }

  function pinned(pin) {
    state.pin = sentence.pin = pin;
    sentence.draw();
    address.save("quiet");
  }

  function setPin(blank, id, token) {
    const now = sentence.pinned;
    const next = blank === null || (now && now.blank === blank && now.token === id) ? "" : `${blank}:${id}:${token}`;
    Object.assign(state, { pin: next, cell: "" });
    sentence.pin = next;
    sentence.filled.clear();
    sentence.draw();
    address.save();
    chosen = null;
    return ask();
  }

  function choose(i, j) {
    const [rows, across] = answer.map.axes;
    state.cell = `${rows.ids[i]}:${across.ids[j]}`;
    chosen = [i, j];
    sentence.fillIn([rows.tokens[i], across.tokens[j]]);
    address.save();
    draw();
  }

  const keep = h("button", { type: "button", class: "main", hidden: true, onclick: () => {
    const { filled, words } = sentence;
    sentence.set(sentence.template((one) => filled.get(words.indexOf(one)) ?? one.text));
  } }, `Keep these ${word}s`);

  // The boxes offer what the server will compute, and nothing that it would refuse.
  function drawControls() {
    keep.hidden = !sentence.filled.size || sentence.typed;
    meaning.textContent = plan.meaning;
    const sizes = plan.sizes.some(([size]) => size === state.size) ? plan.sizes : [...plan.sizes, [state.size, state.size === "all" ? "every token (exact)" : `${state.size} each`]];
    const set = (name) => (value) => { Object.assign(state, { [name]: value, pin: name === "size" ? "" : state.pin, cell: "" }); sentence.pin = state.pin; address.save(); ask(); };
    keeping(controls, () => controls.replaceChildren(...[
      select("Construction", plan.constructions.length > 1 ? state.construction : "", plan.constructions, set("construction")),
      sizes.length > 1 && !sentence.several ? select(`${capital(word)}s considered`, state.size, sizes, set("size")) : null,
      keep].filter(Boolean)));
  }

  const panel = h("section", { class: "card", "aria-label": "what is asked", hidden: true }, lead, controls, meaning);
  const columns = h("div", { class: "columns wide-left" }, h("div", { class: "stack" }, map, constructions), h("div", { class: "stack" }, panel, pins, best));
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "What stands in the blanks?"), h("p", {}, "Independent blanks are what a masked model says of each alone; the joint says what they say together.")),
    sentence.element, question.problem, columns, copying(() => about.api.ask("fill/copy", body())));
  sentence.begin();
  return () => sentence.leave();
}
