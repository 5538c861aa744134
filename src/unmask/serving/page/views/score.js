// Score: how probable each word is, by named definitions; two sentences against each other.
import { ask, Latest } from "../api.js";
import { copying } from "../copy.js";
import { failure, h, nats, select, shown, Status } from "../drawing/dom.js";
import { typed, write } from "../state.js";

const EXAMPLES = ["The keys to the cabinet are on the table.", "The keys to the cabinet is on the table."];

export function open(root, about, values) {
  const defaults = { first: EXAMPLES[0], second: EXAMPLES[1], scores: "pll,left_to_right", show: "pll", unit: "nats" };
  const state = typed(values, defaults);
  const [latest, status] = [new Latest(), new Status()];
  const answer = h("div", { class: "stack" });
  let found = null;
  const chosen = () => state.scores.split(",").filter((name) => about.scores.some((s) => s.name === name));
  const texts = () => [state.first, state.second].filter((text) => text.trim());
  const save = () => write("score", state, { ...defaults, second: values.first !== undefined && values.second === undefined ? "" : defaults.second });
  const byToken = () => chosen().filter((name) => about.scores.find((s) => s.name === name).by_token);
  const share = (name) => (about.scores.find((s) => s.name === name).better === "lower" ? name : `${name}_surprisal`);

  async function question() {
    save();
    const signal = latest.begin();
    if (!texts().length || !chosen().length) {
      answer.replaceChildren(h("p", { class: "empty" }, "Write a sentence and choose a score."));
      return;
    }
    status.say("asking the model …");
    try {
      found = await ask("score", { texts: texts(), scores: chosen(), unit: state.unit }, signal);
      status.say("");
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      status.say("");
      answer.replaceChildren(failure(error));
    }
  }

  function draw() {
    const shownScore = byToken().includes(state.show) ? state.show : byToken()[0];
    answer.replaceChildren(...[totals(), shownScore ? coloured(shownScore) : null, found.difference && shownScore ? aligned(shownScore) : null].filter(Boolean));
  }

  function totals() {
    return h("section", { class: "card" }, h("h2", {}, "Whole sentences"), h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "scores" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "score"), found.rows.map((_, n) => h("th", { scope: "col", class: "n" }, `sentence ${n + 1}`)), h("th", { scope: "col" }, "what it is"))),
      h("tbody", {}, chosen().map((name) => h("tr", {}, h("th", { scope: "row" }, name), found.rows.map((row) => h("td", { class: "n" }, nats(row[name]))),
        h("td", { class: "long" }, found.scores[name].definition, h("span", { class: "note" }, found.scores[name].probability ? " (a probability)" : " (not a probability)"))))))),
      found.rows.filter((row) => row.reason).map((row) => h("p", { class: "error" }, `“${row.text}”: ${row.reason}.`)));
  }

  function coloured(name) {
    const rows = found.rows.filter((row) => row.words);
    const most = Math.max(1e-9, ...rows.flatMap((row) => row.words.map((word) => word[share(name)])));
    return h("section", { class: "card" },
      h("header", {}, h("h2", {}, "Word by word"), select("Score shown", name, byToken().map((n) => [n, n]), (show) => { state.show = show; save(); draw(); })),
      rows.map((row) => h("div", { class: "scored" }, row.words.map((word) => h("span", { class: "word", title: tokensOf(row, word, name) }, word.word, h("i", { "--p": Math.max(0, word[share(name)] / most) }), h("small", {}, nats(word[share(name)])))))),
      h("p", { class: "note" }, `The warmer the bar, the more a word counts against the sentence, in ${found.unit}; a word’s tokens add up.`));
  }

  const tokensOf = (row, word, name) => row.tokens.filter((t) => t.word_number === word.word_number).map((t) => `${shown(t.token)} ${nats(t[share(name)])}`).join(", ");

  function aligned(name) {
    const column = `${name}_difference`;
    const most = Math.max(1e-9, ...found.difference.map((row) => Math.abs(row[column])));
    const differs = (row) => row.first_token !== row.second_token;
    const line = (label, key) => h("tr", {}, h("th", { scope: "row" }, label), found.difference.map((row) => h("td", { class: differs(row) ? "differs" : "" }, row[key] === null ? "–" : shown(row[key]))));
    const total = found.difference.reduce((sum, row) => sum + row[column], 0);
    return h("section", { class: "card" }, h("h2", {}, "The first against the second"),
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "the two sentences aligned" }, h("table", { class: "aligned" }, h("tbody", {},
        line("first", "first_token"), line("second", "second_token"),
        h("tr", {}, h("th", { scope: "row" }, "difference"), found.difference.map((row) => h("td", {}, h("i", { class: row[column] < 0 ? "less" : "", "--p": Math.abs(row[column]) / most }), h("small", {}, (row[column] > 0 ? "+" : "") + nats(row[column])))))))),
      h("p", { class: "lead" }, `By ${name} the ${total >= 0 ? "first" : "second"} sentence is better, by ${nats(Math.abs(total))} ${found.unit}.`));
  }

  const field = (label, name) => {
    const input = h("input", { type: "text", value: state[name], maxLength: 2000, spellcheck: false, autocomplete: "off", onchange: () => { state[name] = input.value; question(); } });
    return h("label", {}, label, input);
  };
  const boxes = h("fieldset", {}, h("legend", {}, "Scores"), about.scores.map((score) => {
    const box = h("input", { type: "checkbox", checked: chosen().includes(score.name), onchange: () => {
      const names = new Set(chosen());
      if (box.checked) names.add(score.name); else names.delete(score.name);
      state.scores = about.scores.map((s) => s.name).filter((n) => names.has(n)).slice(0, 6).join(",");
      question();
    } });
    return h("label", { class: "inline", title: score.definition }, box, score.name);
  }));
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "How good is a sentence?"), h("p", {}, "Several scores, each by its own definition; only some of them are probabilities.")),
    h("section", { class: "sentence card" }, field("First sentence", "first"), field("Second sentence, if any", "second"), boxes),
    status.element, answer,
    copying(about, () => ({
      python: { verb: "score", first: [texts(), chosen()], options: { tokens: true, unit: state.unit === "nats" ? null : state.unit } },
      command: { verb: "score", first: ["sentences.txt"], options: { score: chosen().join(","), tokens: true }, files: { "sentences.txt": texts() } } })));
  question();
  return () => latest.stop();
}
