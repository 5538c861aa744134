// Batch: a list of texts, or a file of them, in; a table, and a file, out.
import { Question } from "../ask.js";
import { card, table } from "../cards.js";
import { h, nats, select } from "../drawing/dom.js";
import { Address } from "../state.js";

const SHOWN = 200;

export function open(root, about, values) {
  const texts = about.by_character ? "sequences" : "sentences";
  const address = new Address(about, "batch", values, { score: "pll" }, { score: about.scores.map((one) => one.name) });
  const { state } = address;
  const box = h("div", { class: "stack" });
  const question = new Question(about.api, box);
  const example = Object.values(about.examples).flatMap((one) => [one.text, one.second]).filter(Boolean);
  const list = h("textarea", { rows: 6, value: [...new Set(example)].join("\n"), spellcheck: false, dir: "auto", placeholder: `One of the ${texts} per line`, oninput: () => { from = "list.txt"; } });
  let from = "list.txt";

  function ask() {
    if (!list.value.trim()) return question.clear(h("p", { class: "empty" }, `Write ${texts}, one per line, or drop a file.`));
    const body = { content: list.value, name: from, score: [state.score] };
    return question.run(async () => {
      const answer = await question.slowly("batch", body);
      const number = answer.columns.map((_, n) => answer.rows.some((row) => typeof row[n] === "number" || /^-?Infinity$/.test(row[n])));
      const part = question.stopped ? `${answer.rows.filter((row) => row.some((value, n) => number[n] && value !== null)).length} of ${answer.rows.length} rows` : "";
      box.replaceChildren(card({ title: from === "list.txt" ? "The list" : from, label: "batch", name: "batch", rows: () => [answer.columns, ...answer.rows], data: () => answer.rows.map((row) => Object.fromEntries(row.map((value, n) => [answer.columns[n], value]))), part },
        answer.lines.map((line) => h("p", { class: "lead" }, line)),
        table("rows of the batch", answer.columns.map((name, n) => (number[n] ? `#${name}` : name)), answer.rows.slice(0, SHOWN).map((row) => row.map((value, n) => (number[n] ? nats(value, 3) : value)))),
        answer.rows.length > SHOWN ? h("p", { class: "note" }, `The first ${SHOWN} of ${answer.rows.length} rows; the files have all.`) : null));
    });
  }

  async function take(file) {
    const most = about.limits.most_batch_bytes;
    if (file.size > most) return question.clear(h("p", { class: "error", role: "alert" }, `The file has ${file.size.toLocaleString("en")} bytes, and the page takes ${most.toLocaleString("en")}: use the command line.`));
    [list.value, from] = [await file.text(), file.name];
    return ask();
  }
  const file = h("input", { type: "file", accept: ".txt,.jsonl,.csv,.tsv,.fasta,.fa", onchange: () => file.files[0] && take(file.files[0]) });
  const over = (event) => { event.preventDefault(); root.classList.toggle("over", event.type === "dragover"); };
  const drop = (event) => { over(event); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); };
  const listeners = { dragover: over, dragleave: over, drop };
  for (const [name, act] of Object.entries(listeners)) root.addEventListener(name, act);

  root.append(
    h("section", { class: "intro" }, h("h1", {}, "Many at once"), h("p", {}, "Texts with blanks are filled, minimal pairs are compared, other texts are scored.")),
    h("section", { class: "card sentence" },
      h("label", { class: "list" }, h("span", {}, `${texts.charAt(0).toUpperCase()}${texts.slice(1)}, one per line`), list),
      h("label", { class: "file" }, `Or drop a file here, or choose one: .csv, .tsv or .jsonl with text, or with sentence_good and sentence_bad; .fasta; up to ${about.limits.most_rows.toLocaleString("en")} rows and 1 MB`, file),
      h("div", { class: "controls" }, select("Score", state.score, about.scores.map((one) => [one.name, one.name, one.definition]), (score) => { state.score = score; address.save(); ask(); }), h("button", { type: "button", class: "main", onclick: ask }, "Compute")), question.element),
    question.problem, box);
  ask();
  return () => { question.leave(); for (const [name, act] of Object.entries(listeners)) root.removeEventListener(name, act); };
}
