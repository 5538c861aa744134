// Batch: a list of texts, or a file of them, in; a table, and a file, out.
import { card } from "../cards.js";
import { select } from "../drawing/controls.js";
import { h } from "../drawing/dom.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

export default view({
  name: "batch",
  title: "Batch",
  verb: "batch",
  sentence: null,
  options: ["score"],
  heading: () => "Many at once",

  make(page) {
    const { about, question } = page;
    const noun = `${page.text}s`; // what the texts of a list are called

    // ---- the list ----

    const ofExamples = Object.values(about.examples).flatMap((example) => [example.text, example.second ?? ""]);
    const firstList = [...new Set(ofExamples)].filter((text) => text !== "");
    const list = h("textarea", {
      rows: 6, value: firstList.join("\n"), spellcheck: false, dir: "auto",
      placeholder: `One of the ${noun} per line`, oninput: () => edit(),
    });
    const choose = h("input", {
      type: "file", accept: about.lists.accept,
      onclick: () => { choose.value = ""; }, // the same file can be chosen again, after it was changed
      onchange: () => { if (choose.files.length) take(choose.files[0]); },
    });
    let file = null; // the name of the file that the list came from; null of a list that was pasted
    let edited = false;
    let readAs = ""; // how the list is read; "" leaves it to the server
    readKept();

    // The list stays in this tab, for a reload and for the way back from another view: it does not fit in an address.
    function storageKey() { return `unmask:list:${about.given ?? "bundled"}`; }

    function keep() {
      try {
        sessionStorage.removeItem(storageKey()); // an older list must not come back if there is no room for this one
        sessionStorage.setItem(storageKey(), JSON.stringify({ content: list.value, file, edited, readAs }));
      } catch { /* a browser that keeps nothing, or has no room: after a reload the list is the first one */ }
    }

    function readKept() {
      let kept = null;
      try {
        kept = JSON.parse(sessionStorage.getItem(storageKey()));
      } catch { /* a browser that keeps nothing */ }
      if (!kept) return;
      list.value = kept.content;
      file = kept.file;
      edited = kept.edited;
      readAs = kept.readAs;
    }

    function title() {
      if (file === null) return "The list";
      return edited ? `${file}, edited` : file;
    }

    // A file that is edited keeps its name and the way it is read; an empty list has no file any more.
    function edit() {
      edited = true;
      const isEmpty = list.value.trim() === "";
      if (isEmpty) {
        file = null;
        readAs = "";
        choose.value = "";
      }
      keep();
      page.drawControls();
    }

    // ---- a file ----

    let taken = null; // the file that was chosen last, which may still be read
    const refuse = (line) => question.clear(h("p", { class: "error", role: "alert" }, line));

    async function take(chosen) {
      taken = chosen;
      if (chosen.size > about.limits.most_batch_bytes) return refuse(about.lists.too_large);
      let bytes;
      try {
        bytes = await chosen.arrayBuffer();
      } catch { // a folder, or a file that is gone
        return refuse(`${chosen.name} cannot be read.`);
      }
      const isLatest = taken === chosen;
      if (!isLatest) return null;
      try {
        list.value = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      } catch {
        return refuse(`${chosen.name} is not a text in UTF-8: save it as one.`);
      }
      file = chosen.name;
      edited = false;
      readAs = "";
      keep();
      return page.ask();
    }

    // A file can be dropped anywhere on the page; a text that is dragged goes where it is dropped, as everywhere.
    const hasFile = (event) => event.dataTransfer.types.includes("Files");
    const mark = (isOver) => page.root.classList.toggle("over", isOver);

    function dragover(event) {
      if (!hasFile(event)) return;
      event.preventDefault();
      mark(true);
    }

    function drop(event) {
      mark(false);
      if (!hasFile(event)) return;
      event.preventDefault();
      choose.value = ""; // it named another file
      take(event.dataTransfer.files[0]);
    }

    const listeners = { dragover, dragleave: () => mark(false), drop };
    for (const [event, act] of Object.entries(listeners)) page.root.addEventListener(event, act);

    // ---- the answer ----

    function setReadAs(way) {
      readAs = way;
      keep();
      page.ask();
    }

    let titleAsked = ""; // of the list that was asked about last: it may be edited while its answer is shown

    function body() {
      if (!list.value.trim()) return `Write ${noun}, one per line, or drop a file.`;
      titleAsked = title();
      const { score } = page.options();
      const asked = { content: list.value };
      if (file !== null) asked.name = file;
      if (readAs !== "") asked.read_as = readAs;
      if (score !== undefined) asked.score = [score];
      return asked;
    }

    function cards(answer) {
      const { rows: allRows, view: verbs, drawn } = answer;
      const heads = allRows.columns.map((column) => column.head);
      const record = (row) => Object.fromEntries(heads.map((head, n) => [head, row[n]]));
      const files = { rows: () => rowsOf(allRows), data: () => allRows.rows.map(record), part: drawn.part };
      return [card({ title: titleAsked, label: "batch", name: "batch", ...files },
        verbs.tables.map((table) => drawnTable(table, { label: "of the whole batch" })),
        sentences([...verbs.verdict, ...verbs.notices], "lead"), // that some rows have no number stands above the rows
        drawnTable(drawn.first, { label: "rows of the batch" }),
        sentences([...drawn.first.notes, ...verbs.about, drawn.read_as]))];
    }

    const label = `${noun.charAt(0).toUpperCase()}${noun.slice(1)}, one per line`;
    const more = `Or drop a file here, or choose one: ${about.lists.taken}`;

    return {
      above: [h("section", { class: "card sentence" },
        h("label", { class: "list" }, h("span", {}, label), list),
        h("label", { class: "file" }, more, choose), question.element)],
      controls: () => [
        page.option("score", { label: "Score" }),
        select("Read as", readAs, about.lists.read_as, setReadAs),
        h("button", { type: "button", class: "main", "data-key": "compute", onclick: () => page.ask() }, "Compute"),
      ],
      body,
      cards,
      past: () => null,
      leave: () => {
        taken = null; // a file that is still read is not asked about
        for (const [event, act] of Object.entries(listeners)) page.root.removeEventListener(event, act);
      },
    };
  },
});
