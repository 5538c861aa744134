// Score: how probable each word is, by named definitions; two texts against each other.
import { keeping, Question } from "../ask.js";
import { card, copying, table } from "../cards.js";
import { profile } from "../charts.js";
import { direction, h, nats, select, shown } from "../drawing/dom.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

export function open(root, about, values) {
  const [word, text] = about.by_character ? ["residue", "sequence"] : ["word", "sentence"];
  const example = about.examples.score ?? { text: "", blanks: "", second: "" };
  const address = new Address(about, "score", values, { text: example.text, second: example.second, blanks: example.blanks, pin: "", scores: "pll,left_to_right", show: "pll", unit: "nats" }, { unit: ["nats", "bits"] });
  const { state } = address;
  const most = about.limits.most_scores;
  const box = h("div", { class: "stack" });
  const question = new Question(about.api, box, `The whole ${text} is scored; ${word}s chosen here are the blanks of the other views.`);
  const unknown = h("p", { class: "unsaid", role: "status", hidden: true });
  const limit = h("p", { class: "note", role: "status" });
  let answer = null;
  let asked = "";
  const wanted = () => state.scores.split(",").filter((name) => about.scores.some((s) => s.name === name));
  const chosen = () => wanted().slice(0, most);
  const body = () => ({ texts: [sentence.text, state.second].filter((one) => one.trim()), score: chosen(), unit: state.unit });
  const entry = (name) => about.scores.find((s) => s.name === name);
  const byToken = () => Object.keys(answer.scores).filter((name) => entry(name).by_token);
  const share = (name) => answer.against[name];

  const sentence = new Sentence({
    about, question, state, label: `First ${text}`, blanked: false, pins: false,
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin });
      address.save(reason === "begin" ? "quiet" : reason);
      if (reason !== "refused") ask();
    } });

  function ask() {
    drawBoxes();
    const now = body();
    if (JSON.stringify(now) === asked) return undefined;
    asked = JSON.stringify(now);
    about.asks?.();
    if (!now.texts.length || !now.score.length) return question.clear(h("p", { class: "empty" }, `Write a ${text} and choose a score.`));
    return question.run(async () => {
      asked = "";
      answer = await question.slowly("score", now);
      asked = JSON.stringify(now);
      draw();
      about.tell?.({ by: `scores, in ${answer.unit}`, values: Object.fromEntries(Object.keys(answer.scores).flatMap((name) => answer.rows.map((row, n) => [`${name}, ${text} ${n + 1}`, row[name]]))) });
      if (!about.second) remember("Score", now.texts.join(" / "));
    });
  }

  async function second(value) {
    state.second = value;
    try {
      const read = value.trim() ? await about.api.ask("words", { text: value }) : { text: value, words: [] };
      state.second = other.value = read.text;
      const strange = read.words.filter((one) => !one.known).map((one) => `“${one.text}”`);
      unknown.hidden = !strange.length;
      unknown.textContent = `The model does not know ${strange.join(", ")} of the second ${text}, and reads the unknown token instead.`;
    } catch { unknown.hidden = true; /* the score itself says why a text is refused */ }
  }

  // Which scores are missing, where the work was stopped.
  const done = () => Object.keys(answer.scores).filter((name) => answer.rows.some((row) => row[name] !== null)).length;
  const part = () => (question.stopped && done() < Object.keys(answer.scores).length ? `${done()} of ${Object.keys(answer.scores).length} scores` : "");
  const of = () => [...answer.rows.map((row) => `“${row.text}”`), about.model];

  function draw() {
    const name = byToken().includes(state.show) ? state.show : byToken()[0];
    keeping(box, () => box.replaceChildren(...[totals(), name ? coloured(name) : null, answer.difference && name ? aligned(name) : null].filter(Boolean)));
  }

  function totals() {
    const names = Object.keys(answer.scores);
    const rows = () => [["score", ...answer.rows.map((_, n) => `${text}_${n + 1}`), "definition"], ...names.map((name) => [name, ...answer.rows.map((row) => row[name]), answer.scores[name].definition])];
    return card({ title: `Whole ${text}s`, name: "scores", rows, data: () => answer, part: part() },
      table("scores", ["score", ...answer.rows.map((_, n) => `#${text} ${n + 1}`), "_what it is"], names.map((name) => [name, ...answer.rows.map((row) => nats(row[name])), [{}, answer.scores[name].definition, h("span", { class: "note" }, answer.scores[name].probability ? " (a probability)" : " (not a probability)")]]), "th"),
      answer.rows.filter((row) => row.reason).map((row) => h("p", { class: "error" }, `“${row.text}”: ${row.reason}.`)));
  }

  // Of letters, each is a column; of other texts, each word.
  function coloured(name) {
    const [key, rows] = [share(name), answer.rows.filter((row) => row.words?.length)];
    if (!rows.length) return null;
    const units = (row) => (about.by_character ? row.tokens.map((one) => ({ ...one, word: shown(one.token) })) : row.words);
    const top = Math.max(1e-9, ...rows.flatMap((row) => units(row).map((one) => Math.abs(one[key]))));
    const tokens = (row, one) => row.tokens.filter((t) => t.word_number === one.word_number).map((t) => `${shown(t.token)} ${nats(t[key])}`).join(", ");
    const differs = (row, n) => rows.length === 2 && about.by_character && rows.some((other) => units(other)[n]?.word !== units(row)[n]?.word);
    const files = { rows: () => [[text, word, ...byToken().map(share)], ...rows.flatMap((row) => units(row).map((one) => [answer.rows.indexOf(row) + 1, one.word, ...byToken().map((n) => one[share(n)])]))], data: () => rows };
    return card({ title: about.by_character ? "Residue by residue" : "Word by word", name: "words", ...files, of, part: part(), tools: [select("Score shown", name, byToken().map((n) => [n, n]), (show) => { state.show = show; address.save(); draw(); })] },
      rows.map((row) => h("div", { class: "scored" }, profile(units(row).map((one, n) => ({ texts: [one.word], value: one[key], written: nats(one[key]), differs: differs(row, n), title: about.by_character ? `${one.word}${n + 1}: ${nats(one[key])} ${answer.unit}` : tokens(row, one) })), { label: `${name} of ${text} ${answer.rows.indexOf(row) + 1}, ${word} by ${word}`, most: top, letters: about.by_character, rtl: direction(row.text) === "rtl" }))),
      h("p", { class: "note" }, `The higher the bar, the more a ${word} counts against the ${text}, in ${answer.unit} (up to ${nats(top)})${about.by_character ? "" : "; a word’s tokens add up"}.`));
  }

  function aligned(name) {
    const column = `${name}_difference`;
    const { rows, for_first: forFirst, better } = answer.difference;
    const top = Math.max(1e-9, ...forFirst[name].map(Math.abs));
    const changed = rows.map((row, n) => [row, n]).filter(([row]) => row.first_token !== row.second_token);
    const written = (row) => (row[column] > 0 ? "+" : "") + nats(row[column]);
    const shows = (token) => (token === null ? "–" : shown(token));
    return card({ title: "The first against the second", name: "difference", rows: () => [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row))], data: () => rows, of },
      profile(rows.map((row, n) => ({ texts: [shows(row.first_token), shows(row.second_token)], value: forFirst[name][n], up: "rise", written: written(row), differs: row.first_token !== row.second_token, title: `${shows(row.first_token)} / ${shows(row.second_token)}: ${written(row)}` })), { label: "the first against the second, token by token", most: top, letters: about.by_character, rtl: direction(state.text) === "rtl" }),
      h("p", { class: "note changed" }, `They differ at ${changed.map(([row, n]) => `${shows(row.first_token)}${about.by_character ? n + 1 : ""} / ${shows(row.second_token)} (${written(row)})`).join(", ") || "nothing"}. Blue: for the first.`),
      h("p", { class: "lead" }, better[name]));
  }

  const other = h("input", { type: "text", value: state.second, dir: "auto", spellcheck: false, autocomplete: "off", onchange: async () => { await second(other.value); address.save(); ask(); } });
  const boxes = h("fieldset", {}, h("legend", {}, "Scores"), about.scores.map((score) => {
    const one = h("input", { type: "checkbox", value: score.name, "data-key": `score:${score.name}`, onchange: () => {
      const names = new Set(chosen());
      if (one.checked) names.add(score.name); else names.delete(score.name);
      state.scores = about.scores.map((s) => s.name).filter((n) => names.has(n)).join(",");
      address.save();
      ask();
    } });
    return h("label", { class: "inline", title: score.definition }, one, score.name);
  }));

  // No more than the server takes can be chosen; a link with more of them says which are not shown.
  function drawBoxes() {
    for (const one of boxes.querySelectorAll("input")) {
      one.checked = chosen().includes(one.value);
      one.disabled = !one.checked && chosen().length >= most;
    }
    const left = wanted().slice(most);
    limit.textContent = left.length ? `${most} scores at a time: ${left.join(", ")} ${left.length > 1 ? "are" : "is"} not shown.` : chosen().length >= most ? `${most} scores at a time: leave one out to choose another.` : "";
  }

  sentence.list.before(h("label", { class: "field" }, h("span", {}, `Second ${text}, if any`), other));
  root.append(
    h("section", { class: "intro" }, h("h1", {}, `How good is a ${text}?`), h("p", {}, "Several scores, each by its own definition; only some of them are probabilities.")),
    sentence.element, h("div", { class: "card asking" }, unknown, h("div", { class: "controls" }, boxes, select("Unit", state.unit, [["nats", "nats"], ["bits", "bits"]], (unit) => { state.unit = unit; address.save(); ask(); })), limit), question.problem, box,
    copying(() => about.api.ask("score/copy", body())));
  second(state.second).then(() => sentence.begin());
  return () => sentence.leave();
}
