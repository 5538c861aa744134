// Score: how probable each word is, by named definitions; two sentences against each other.
import { ask, askSlowly, Latest } from "../api.js";
import { call, command, copying } from "../copy.js";
import { direction, failure, h, nats, select, shown } from "../drawing/dom.js";
import { card } from "../files.js";
import { keeping } from "../focus.js";
import { halt } from "../job.js";
import { PAIRS_TAKEN, readPairs, scorePairs } from "../pairs.js";
import { remember } from "../past.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

export function open(root, about, values) {
  const example = about.examples.score ?? { text: "", blanks: "", second: "" };
  const address = new Address("score", values, { text: example.text, second: example.second, blanks: example.blanks, pin: "", scores: "pll,left_to_right", show: "pll", unit: "nats" });
  const { state } = address;
  const latest = new Latest();
  const most = about.limits.most_scores;
  const answer = h("div", { class: "stack" });
  const unknown = h("p", { class: "unsaid", role: "status", hidden: true });
  const limit = h("p", { class: "note", role: "status" });
  let found = null;
  let asked = "";
  const wanted = () => state.scores.split(",").filter((name) => about.scores.some((s) => s.name === name));
  const chosen = () => wanted().slice(0, most);
  const texts = () => [sentence.whole, state.second].filter((text) => text.trim());
  const byToken = () => Object.keys(found.scores).filter((name) => about.scores.find((s) => s.name === name).by_token);
  const share = (name) => (about.scores.find((s) => s.name === name).better === "lower" ? name : `${name}_surprisal`);

  const sentence = new Sentence({
    about, label: "First sentence", text: state.text, blanks: state.blanks, pin: state.pin, hides: false, hint: "The whole sentence is scored; words chosen here are the blanks of the other views.",
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin });
      address.save(reason === "begin" ? "quiet" : reason);
      question();
    },
    fail: (error) => { state.text = sentence.text; address.save("typing"); answer.replaceChildren(failure(error)); } });
  const { status } = sentence;

  async function question() {
    drawBoxes();
    const body = { texts: texts(), score: chosen(), unit: state.unit };
    if (JSON.stringify(body) === asked) return;
    asked = JSON.stringify(body);
    const signal = latest.begin();
    if (!body.texts.length || !body.score.length) return answer.replaceChildren(h("p", { class: "empty" }, "Write a sentence and choose a score."));
    status.say("asking the model …");
    status.stoppable(() => halt(latest, signal, status, () => { asked = ""; }));
    try {
      found = await askSlowly("score", body, signal, (share, line) => status.say(line, share));
      status.say("");
      draw();
      about.tell?.({ by: `scores, in ${found.unit}`, values: Object.fromEntries(Object.keys(found.scores).flatMap((name) => found.rows.map((row, n) => [`${name}, sentence ${n + 1}`, row[name]]))) });
      remember("Score", body.texts.join(" / "));
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      status.say("");
      asked = "";
      answer.replaceChildren(failure(error));
    }
    status.stoppable(null);
    return undefined;
  }

  async function strangers() {
    if (!state.second.trim()) return void (unknown.hidden = true);
    try {
      const strange = (await ask("words", { text: state.second })).words.filter((word) => !word.known).map((word) => `“${word.text}”`);
      unknown.hidden = !strange.length;
      unknown.textContent = `The model does not know ${strange.join(", ")} of the second sentence, and reads the unknown token instead.`;
    } catch { unknown.hidden = true; /* the score itself says why a text is refused */ }
    return undefined;
  }

  function draw() {
    const shownScore = byToken().includes(state.show) ? state.show : byToken()[0];
    keeping(answer, () => answer.replaceChildren(...[totals(), shownScore ? coloured(shownScore) : null, found.difference && shownScore ? aligned(shownScore) : null].filter(Boolean)));
  }

  function totals() {
    const names = Object.keys(found.scores);
    const rows = () => [["score", ...found.rows.map((_, n) => `sentence_${n + 1}`), "definition"], ...names.map((name) => [name, ...found.rows.map((row) => row[name]), found.scores[name].definition])];
    return card({ title: "Whole sentences", name: "scores", rows, data: () => found }, h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "scores" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "score"), found.rows.map((_, n) => h("th", { scope: "col", class: "n" }, `sentence ${n + 1}`)), h("th", { scope: "col" }, "what it is"))),
      h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row" }, name), found.rows.map((row) => h("td", { class: "n" }, nats(row[name]))),
        h("td", { class: "long" }, found.scores[name].definition, h("span", { class: "note" }, found.scores[name].probability ? " (a probability)" : " (not a probability)"))))))),
      found.rows.filter((row) => row.reason).map((row) => h("p", { class: "error" }, `“${row.text}”: ${row.reason}.`)));
  }

  function coloured(name) {
    const rows = found.rows.filter((row) => row.words?.length);
    if (!rows.length) return null;
    const top = Math.max(1e-9, ...rows.flatMap((row) => row.words.map((word) => word[share(name)])));
    const files = { rows: () => [["sentence", "word", ...byToken().map(share)], ...rows.flatMap((row) => row.words.map((word) => [found.rows.indexOf(row) + 1, word.word, ...byToken().map((n) => word[share(n)])]))], data: () => rows };
    return card({ title: "Word by word", name: "words", ...files, tools: [select("Score shown", name, byToken().map((n) => [n, n]), (show) => { state.show = show; address.save(); draw(); })] },
      rows.map((row) => h("div", { class: "scored", dir: direction(row.text) }, row.words.map((word) => h("span", { class: "word", title: tokensOf(row, word, name) }, word.word, h("i", { "--p": Math.max(0, word[share(name)] / top) }), h("small", {}, nats(word[share(name)])))))),
      h("p", { class: "note" }, `The warmer the bar, the more a word counts against the sentence, in ${found.unit} (up to ${nats(top)}); a word’s tokens add up.`));
  }

  const tokensOf = (row, word, name) => row.tokens.filter((t) => t.word_number === word.word_number).map((t) => `${shown(t.token)} ${nats(t[share(name)])}`).join(", ");

  function aligned(name) {
    const column = `${name}_difference`;
    const top = Math.max(1e-9, ...found.difference.map((row) => Math.abs(row[column])));
    const differs = (row) => row.first_token !== row.second_token;
    const line = (label, key) => h("tr", {}, h("th", { scope: "row" }, label), found.difference.map((row) => h("td", { class: differs(row) ? "differs" : "" }, row[key] === null ? "–" : shown(row[key]))));
    const total = found.difference.reduce((sum, row) => sum + row[column], 0);
    const files = { rows: () => [Object.keys(found.difference[0] ?? {}), ...found.difference.map((row) => Object.values(row))], data: () => found.difference };
    return card({ title: "The first against the second", name: "difference", ...files },
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "the two sentences aligned" }, h("table", { class: "aligned", dir: direction(state.text) }, h("tbody", {},
        line("first", "first_token"), line("second", "second_token"),
        h("tr", {}, h("th", { scope: "row" }, "difference"), found.difference.map((row) => h("td", {}, h("i", { class: row[column] < 0 ? "less" : "", "--p": Math.abs(row[column]) / top }), h("small", {}, (row[column] > 0 ? "+" : "") + nats(row[column])))))))),
      h("p", { class: "lead" }, `By ${name} the ${total >= 0 ? "first" : "second"} sentence is better, by ${nats(Math.abs(total))} ${found.unit}.`));
  }

  const second = h("input", { type: "text", value: state.second, dir: "auto", maxLength: about.limits.longest_text, spellcheck: false, autocomplete: "off", onchange: () => { state.second = second.value; address.save(); strangers(); question(); } });
  const boxes = h("fieldset", {}, h("legend", {}, "Scores"), about.scores.map((score) => {
    const box = h("input", { type: "checkbox", value: score.name, "data-key": `score:${score.name}`, onchange: () => {
      const names = new Set(chosen());
      if (box.checked) names.add(score.name); else names.delete(score.name);
      state.scores = about.scores.map((s) => s.name).filter((n) => names.has(n)).join(",");
      address.save();
      question();
    } });
    return h("label", { class: "inline", title: score.definition }, box, score.name);
  }));

  // No more than the server takes can be chosen; a link with more of them says which are not shown.
  function drawBoxes() {
    for (const box of boxes.querySelectorAll("input")) {
      box.checked = chosen().includes(box.value);
      box.disabled = !box.checked && chosen().length >= most;
    }
    const left = wanted().slice(most);
    limit.textContent = left.length ? `${most} scores at a time: ${left.join(", ")} ${left.length > 1 ? "are" : "is"} not shown.` : chosen().length >= most ? `${most} scores at a time: leave one out to choose another.` : "";
  }

  // A file of minimal pairs, chosen or dropped anywhere on the view.
  const dropped = h("div", { class: "slot" });
  let stopPairs = null;
  async function take(file) {
    stopPairs?.();
    if (!chosen().length) return dropped.replaceChildren(failure(new Error("Choose a score first.")));
    const name = chosen().includes(state.show) ? state.show : chosen()[0];
    try {
      stopPairs = scorePairs(dropped, await readPairs(file), about.scores.find((s) => s.name === name), state.unit, file.name);
    } catch (error) {
      dropped.replaceChildren(failure(error));
    }
    return undefined;
  }
  const file = h("input", { type: "file", accept: ".jsonl,.csv,.tsv", onchange: () => file.files[0] && take(file.files[0]) });
  const over = (event) => { event.preventDefault(); root.classList.toggle("over", event.type === "dragover"); };
  const drop = (event) => { over(event); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); };
  const listeners = { dragover: over, dragleave: over, drop };
  for (const [name, act] of Object.entries(listeners)) root.addEventListener(name, act);

  sentence.list.before(h("label", { class: "field" }, h("span", {}, "Second sentence, if any"), second));
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "How good is a sentence?"), h("p", {}, "Several scores, each by its own definition; only some of them are probabilities.")),
    sentence.element, h("div", { class: "card asking" }, unknown, h("div", { class: "controls" }, boxes, select("Unit", state.unit, [["nats", "nats"], ["bits", "bits"]], (unit) => { state.unit = unit; address.save(); question(); })), limit, h("label", { class: "file" }, `Minimal pairs: drop a file here, or choose one (${PAIRS_TAKEN})`, file)), dropped, answer,
    copying(() => {
      const options = { unit: state.unit === "nats" ? null : state.unit };
      return { python: `print(${call(about, "score", [texts(), chosen()], { rows: "nested", ...options })}.to_frame())`, command: command(about, "score", texts(), { score: chosen(), ...options }) };
    }));
  strangers();
  sentence.begin();
  return () => {
    latest.stop();
    sentence.leave();
    stopPairs?.();
    for (const [name, act] of Object.entries(listeners)) root.removeEventListener(name, act);
  };
}
