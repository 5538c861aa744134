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

    const firstList = new Set(); // the texts of the examples, each once
    for (const { text, second } of Object.values(about.examples)) {
      if (text) firstList.add(text);
      if (second) firstList.add(second); // the other text of an example of two
    }
    const list = h("textarea", {
      rows: 6, value: [...firstList].join("\n"), spellcheck: false, dir: "auto",
      placeholder: `One ${page.text} per line`, oninput: () => edit(),
    });
    list.addEventListener("beforeinput", () => forgetIfReplaced());
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
    // Each model has its own: `given` is its name, and the bundled one has none.
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
      if (reading !== null) giveUpReading(); // the file does not take the place of what is typed
      const isEmpty = list.value.trim() === "";
      if (isEmpty) forgetFile();
      keep();
      page.drawControls();
    }

    // A list that is typed or pasted over all of another one is not of that one's file. An empty list has none, and how
    // the next one is read may have been chosen.
    function forgetIfReplaced() {
      if (list.value === "") return;
      const isAllMarked = list.selectionStart === 0 && list.selectionEnd === list.value.length;
      if (isAllMarked) forgetFile();
    }

    function forgetFile() {
      file = null;
      readAs = "";
      choose.value = "";
    }

    // ---- a file ----

    let reading = null; // the file that is being read; null if there is none, or if it was given up

    function giveUpReading() {
      reading = null;
      choose.value = ""; // it does not name a file that the list is not of
    }

    // Says why a file is not taken. The list stays as it is.
    function refuse(line) {
      giveUpReading();
      question.clear(h("p", { class: "error", role: "alert" }, line));
    }

    async function take(chosen) {
      reading = chosen;
      if (chosen.size > about.limits.most_batch_bytes) {
        refuse(about.lists.too_large);
        return;
      }
      const bytes = await bytesOf(chosen);
      const isGivenUp = reading !== chosen; // or another one was chosen meanwhile
      if (isGivenUp) return;
      if (bytes === null) {
        refuse(`${chosen.name} cannot be read.`);
        return;
      }
      try {
        list.value = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
      } catch {
        refuse(`${chosen.name} is not a text in UTF-8: save it as one.`);
        return;
      }
      reading = null;
      file = chosen.name;
      edited = false;
      readAs = "";
      keep();
      page.ask();
    }

    // The bytes of a file; null of a folder, and of a file that is gone.
    async function bytesOf(chosen) {
      try {
        return await chosen.arrayBuffer();
      } catch {
        return null;
      }
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
      const { files } = event.dataTransfer;
      if (files.length === 0) return; // some programs drag a file that is not there
      choose.value = ""; // it named another file
      if (files.length === 1) take(files[0]);
      else refuse("A list is one file: drop them one at a time.");
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

    // The request, or what is missing for one. It keeps the title for the card of the answer.
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
      const { rows: allRows, view: said, drawn } = answer;
      const heads = allRows.columns.map((column) => column.head);
      const record = (row) => Object.fromEntries(heads.map((head, n) => [head, row[n]]));
      const files = { rows: () => rowsOf(allRows), data: () => allRows.rows.map(record), part: drawn.part };
      return [card({ title: titleAsked, label: "batch", name: "batch", ...files },
        said.tables.map((table) => drawnTable(table, { label: "of the whole batch" })),
        sentences([...said.verdict, ...said.notices], "lead"), // a notice may be of rows without a number
        drawnTable(drawn.first, { label: "rows of the batch" }),
        sentences([...drawn.first.notes, ...said.about, drawn.read_as]))];
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
      past: () => null, // a list is not in the address: a link would not ask for it
      leave: () => {
        reading = null; // a file that is still read is not asked about
        for (const [event, act] of Object.entries(listeners)) page.root.removeEventListener(event, act);
      },
    };
  },
});
