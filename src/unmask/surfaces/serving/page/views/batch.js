// Batch: a list of texts, or a file of them, in; a table, and a file, out.
import { card } from "../cards.js";
import { h, select } from "../drawing/dom.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

const SHOWN = 200; // rows on the page; the files have all
const KINDS = [
  ["txt", "one text per line"], ["csv", "a .csv table"], ["tsv", "a .tsv table"],
  ["jsonl", "JSON lines"], ["fasta", "FASTA"],
];
const OTHER_NAMES = { ndjson: "jsonl", json: "jsonl", fa: "fasta", faa: "fasta" };
const FORMATS = ".csv, .tsv or .jsonl with text, or with sentence_good and sentence_bad; .fasta";

// How a file is read, by its name.
function kindOf(name) {
  const ending = name.toLowerCase().split(".").at(-1);
  const kind = OTHER_NAMES[ending] ?? ending;
  return KINDS.some(([known]) => known === kind) ? kind : "txt";
}

export default view({
  name: "batch",
  title: "Batch",
  verb: "batch",
  sentence: null,
  options: ["score"],
  intro: () => ["Many at once", "Texts with blanks are filled, minimal pairs are compared, other texts are scored."],

  make(page) {
    const { about } = page;
    const texts = `${page.text}s`;
    const examples = Object.values(about.examples).flatMap((one) => [one.text, one.second]).filter(Boolean);
    const list = h("textarea", {
      rows: 6, value: [...new Set(examples)].join("\n"), spellcheck: false, dir: "auto",
      placeholder: `One of the ${texts} per line`, oninput: () => edit(),
    });
    let file = null; // the name of the file that the list came from
    let edited = false;
    let kind = "txt";
    readKept();

    // The list stays in this tab, for a reload and for the way back from another view: it does not fit in an address.
    function place() { return `unmask:list:${about.given ?? "bundled"}`; }
    function keep() {
      try {
        sessionStorage.setItem(place(), JSON.stringify({ content: list.value, file, edited, kind }));
      } catch { /* a browser that keeps nothing */ }
    }
    function readKept() {
      let kept = null;
      try { kept = JSON.parse(sessionStorage.getItem(place())); } catch { /* a browser that keeps nothing */ }
      if (!kept) return;
      list.value = kept.content;
      ({ file, edited, kind } = kept);
    }

    const asNamed = () => file !== null && kindOf(file) === kind;
    const name = () => (asNamed() ? file : `list.${kind}`);
    const title = () => (asNamed() ? `${file}${edited ? ", edited" : ""}` : "The list");

    // A file that is edited is read as before; an empty list has no file any more.
    function edit() {
      edited = true;
      if (!list.value.trim()) {
        file = null;
        kind = "txt";
      }
      keep();
      page.drawControls();
    }

    async function take(chosen) {
      const refuse = (line) => page.question.clear(h("p", { class: "error", role: "alert" }, line));
      const most = about.limits.most_batch_bytes;
      if (chosen.size > most) {
        const sizes = `${chosen.size.toLocaleString("en")} bytes, and the page takes ${most.toLocaleString("en")}`;
        return refuse(`The file has ${sizes}: use the command line.`);
      }
      let content;
      try {
        content = new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer());
      } catch {
        return refuse(`${chosen.name} is not a text in UTF-8: save it as one.`);
      }
      list.value = content;
      file = chosen.name;
      edited = false;
      kind = kindOf(file);
      keep();
      return page.ask();
    }

    const choose = h("input", {
      type: "file", accept: ".txt,.jsonl,.csv,.tsv,.fasta,.fa",
      onchange: () => choose.files[0] && take(choose.files[0]),
    });
    const over = (event) => {
      event.preventDefault();
      page.root.classList.toggle("over", event.type === "dragover");
    };
    const drop = (event) => {
      over(event);
      if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
    };
    const listeners = { dragover: over, dragleave: over, drop };
    for (const [event, act] of Object.entries(listeners)) page.root.addEventListener(event, act);

    const label = `${texts.charAt(0).toUpperCase()}${texts.slice(1)}, one per line`;
    const most = about.limits.most_rows.toLocaleString("en");
    let asked = "";

    return {
      above: [h("section", { class: "card sentence" },
        h("label", { class: "list" }, h("span", {}, label), list),
        h(
          "label", { class: "file" }, `Or drop a file here, or choose one: ${FORMATS}; up to ${most} rows and 1 MB`,
          choose),
        page.question.element)],
      controls: () => [
        page.option("score", { label: "Score" }),
        select("Read as", kind, KINDS, (value) => { kind = value; keep(); page.ask(); }),
        h("button", { type: "button", class: "main", "data-key": "compute", onclick: () => page.ask() }, "Compute"),
      ],
      body: () => {
        if (!list.value.trim()) return `Write ${texts}, one per line, or drop a file.`;
        asked = title();
        const { score } = page.options();
        return { content: list.value, name: name(), ...(score ? { score: [score] } : {}) };
      },
      cards: ({ rows: table, view: shown }) => {
        const { columns, rows } = table;
        const numbers = columns.map((_, n) => n).filter((n) => !columns[n].text);
        const done = rows.filter((row) => numbers.some((n) => row[n] !== null)).length;
        const part = page.question.stopped ? `${done} of ${rows.length} rows` : "";
        const data = () => rows.map((row) => Object.fromEntries(row.map((value, n) => [columns[n].head, value])));
        const first = { ...table, rows: rows.slice(0, SHOWN), shown: table.shown.slice(0, SHOWN) };
        return [card({ title: asked, label: "batch", name: "batch", rows: () => rowsOf(table), data, part },
          shown.tables.map((one) => drawnTable(one, { label: "of the whole batch" })),
          sentences([...shown.verdict, ...shown.notices], "lead"),
          drawnTable(first, { label: "rows of the batch" }), sentences(shown.about),
          rows.length > SHOWN && h(
            "p", { class: "note" }, `The first ${SHOWN} of ${rows.length} rows; the files have all.`))];
      },
      past: () => null,
      leave: () => { for (const [event, act] of Object.entries(listeners)) page.root.removeEventListener(event, act); },
    };
  },
});
