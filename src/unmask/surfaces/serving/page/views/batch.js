// Batch: a list of texts, or a file of them, in; a table, and a file, out.
import { keeping, Question } from "../ask.js";
import { card, table } from "../cards.js";
import { h, nats, select } from "../drawing/dom.js";
import { Address } from "../state.js";

const SHOWN = 200;
const KINDS = [["txt", "one text per line"], ["csv", "a .csv table"], ["tsv", "a .tsv table"], ["jsonl", "JSON lines"], ["fasta", "FASTA"]];
const OTHER_NAMES = { ndjson: "jsonl", json: "jsonl", fa: "fasta", faa: "fasta" };

// How a file is read, by its name.
function kindOf(name) {
  const ending = name.toLowerCase().split(".").at(-1);
  const kind = OTHER_NAMES[ending] ?? ending;
  return KINDS.some(([known]) => known === kind) ? kind : "txt";
}

export function open(root, about, values) {
  const texts = about.by_character ? "sequences" : "sentences";
  const address = new Address(about, "batch", values, { score: "pll" }, { score: about.scores.map((one) => one.name) });
  const { state } = address;
  const box = h("div", { class: "stack" });
  const question = new Question(about.api, box);
  const example = Object.values(about.examples).flatMap((one) => [one.text, one.second]).filter(Boolean);
  const list = h("textarea", { rows: 6, value: [...new Set(example)].join("\n"), spellcheck: false, dir: "auto", placeholder: `One of the ${texts} per line`, oninput: () => changed() });
  let file = null;
  let edited = false;
  let kind = "txt";
  // The list stays in this tab, for a reload and for the way back from another view: it does not fit in an address.
  const place = `unmask:list:${about.given ?? "bundled"}`;
  function keepList() {
    try { sessionStorage.setItem(place, JSON.stringify({ content: list.value, file, edited, kind })); } catch { /* a list that the browser does not keep */ }
  }
  function lastList() {
    let kept = null;
    try { kept = JSON.parse(sessionStorage.getItem(place)); } catch { /* nothing is kept */ }
    if (kept) { list.value = kept.content; ({ file, edited, kind } = kept); }
  }
  const asNamed = () => file !== null && kindOf(file) === kind;
  const name = () => (asNamed() ? file : `list.${kind}`);
  const title = () => (asNamed() ? `${file}${edited ? ", edited" : ""}` : "The list");

  // A file that is edited is read as before; an empty list has no file any more.
  function changed() {
    edited = true;
    if (!list.value.trim()) { file = null; kind = "txt"; }
    keepList();
    drawControls();
  }

  function ask() {
    if (!list.value.trim()) return question.clear(h("p", { class: "empty" }, `Write ${texts}, one per line, or drop a file.`));
    const body = { content: list.value, name: name(), score: [state.score] };
    const called = title();
    return question.run(async () => {
      const answer = await question.slowly("batch", body);
      const number = answer.columns.map((_, n) => answer.rows.some((row) => typeof row[n] === "number" || /^-?Infinity$/.test(row[n])));
      const part = question.stopped ? `${answer.rows.filter((row) => row.some((value, n) => number[n] && value !== null)).length} of ${answer.rows.length} rows` : "";
      box.replaceChildren(card({ title: called, label: "batch", name: "batch", rows: () => [answer.columns, ...answer.rows], data: () => answer.rows.map((row) => Object.fromEntries(row.map((value, n) => [answer.columns[n], value]))), part },
        answer.lines.map((line) => h("p", { class: "lead" }, line)),
        table("rows of the batch", answer.columns.map((name, n) => (number[n] ? `#${name}` : name)), answer.rows.slice(0, SHOWN).map((row) => row.map((value, n) => (number[n] ? nats(value, 3) : value)))),
        answer.rows.length > SHOWN ? h("p", { class: "note" }, `The first ${SHOWN} of ${answer.rows.length} rows; the files have all.`) : null));
    });
  }

  async function take(given) {
    const refuse = (line) => question.clear(h("p", { class: "error", role: "alert" }, line));
    const most = about.limits.most_batch_bytes;
    if (given.size > most) return refuse(`The file has ${given.size.toLocaleString("en")} bytes, and the page takes ${most.toLocaleString("en")}: use the command line.`);
    let content;
    try { content = new TextDecoder("utf-8", { fatal: true }).decode(await given.arrayBuffer()); } catch { return refuse(`${given.name} is not a text in UTF-8: save it as one.`); }
    list.value = content;
    file = given.name;
    edited = false;
    kind = kindOf(file);
    keepList();
    drawControls();
    return ask();
  }
  const choose = h("input", { type: "file", accept: ".txt,.jsonl,.csv,.tsv,.fasta,.fa", onchange: () => choose.files[0] && take(choose.files[0]) });
  const over = (event) => { event.preventDefault(); root.classList.toggle("over", event.type === "dragover"); };
  const drop = (event) => { over(event); if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]); };
  const listeners = { dragover: over, dragleave: over, drop };
  for (const [name, act] of Object.entries(listeners)) root.addEventListener(name, act);

  const controls = h("div", { class: "controls" });
  function drawControls() {
    keeping(controls, () => controls.replaceChildren(
      select("Score", state.score, about.scores.map((one) => [one.name, one.name, one.definition]), (score) => { state.score = score; address.save(); ask(); }),
      select("Read as", kind, KINDS, (value) => { kind = value; keepList(); ask(); }),
      h("button", { type: "button", class: "main", "data-key": "compute", onclick: ask }, "Compute")));
  }

  lastList();
  drawControls();
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "Many at once"), h("p", {}, "Texts with blanks are filled, minimal pairs are compared, other texts are scored.")),
    h("section", { class: "card sentence" },
      h("label", { class: "list" }, h("span", {}, `${texts.charAt(0).toUpperCase()}${texts.slice(1)}, one per line`), list),
      h("label", { class: "file" }, `Or drop a file here, or choose one: .csv, .tsv or .jsonl with text, or with sentence_good and sentence_bad; .fasta; up to ${about.limits.most_rows.toLocaleString("en")} rows and 1 MB`, choose),
      controls, question.element),
    question.problem, box);
  ask();
  return () => { question.leave(); for (const [name, act] of Object.entries(listeners)) root.removeEventListener(name, act); };
}
