// A result as its verb states it: sentences, tables and verdict. Heads, formats and words are those of the server.
import { card } from "./cards.js";
import { h } from "./drawing/dom.js";
import { marked } from "./drawing/text.js";

// Paragraphs of a class; empty lines are left out.
export function sentences(lines, kind = "note") {
  return lines.filter((line) => line).map((line) => h("p", { class: kind }, line));
}

// Whether a value is a text with marked stretches, {text, spans, mark}, and not a text or a number.
const isMarkedText = (value) => value !== null && typeof value === "object" && "spans" in value;

// A head or a title in one line. The server breaks them so that columns stay narrow. Where it breaks a word, it adds a
// hyphen, which goes, too.
const inOneLine = (text) => text.replaceAll("-\n", "").replaceAll("\n", " ");

// Rows of a table for a file: the heads, then the values.
export function rowsOf(table) {
  const heads = table.columns.map((column) => inOneLine(column.head));
  const plain = (value) => (isMarkedText(value) ? value.text : value);
  return [heads, ...table.rows.map((row) => row.map(plain))];
}

// A table, as the server draws it.
// label                       what it is called, for readers of screens
// cell(row, column, inside)   what a cell has instead of `inside`, the shown text, and of its mark; null leaves both
// bars                        {number of a column: (row) => the share of the bar in its cell, from 0 to 1}
export function drawnTable(table, { label, cell, bars = {} } = {}) {
  const { columns } = table;

  function content(value, row, column) {
    const isMarked = isMarkedText(value);
    const inside = isMarked ? marked(value.text, value.spans) : table.shown[row][column];
    const replaced = cell?.(row, column, inside);
    if (replaced) return replaced;
    return isMarked ? [inside, value.mark] : inside;
  }

  function bar(row, column) {
    if (!(column in bars)) return null;
    return h("span", { class: "bar", "--p": bars[column](row) }, h("i"));
  }

  function drawnCell(value, row, column) {
    const isText = columns[column].text;
    return h("td", { class: isText ? "text" : "n", dir: isText ? "auto" : null },
      content(value, row, column), bar(row, column));
  }

  const heads = columns.map(({ head, text }) => h("th", { scope: "col", class: text ? "text" : "n" }, head));
  const rows = table.rows.map((values, row) =>
    h("tr", {}, values.map((value, column) => drawnCell(value, row, column))));
  const endsInText = columns.length > 0 && columns.at(-1).text;
  const called = label || table.title || "numbers";
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": called },
    h("table", { class: endsInText ? "data ends-in-text" : "data" },
      h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));
}

// A card with a table of a result, and what `more` has below it.
// title   of the card; by default that of the table
// The other options are those of `card`, and `cell` and `bars` of `drawnTable`.
export function tableCard(table, { title = table.title, name, label, data, part, kind, tools, cell, bars }, ...more) {
  const called = inOneLine(title);
  return card({ title: called, label, name, kind, part, tools, rows: () => rowsOf(table), data },
    drawnTable(table, { label: called.toLowerCase(), cell, bars }), sentences(table.notes), ...more);
}

// What a result says beside its tables: what was computed, its verdict, and what was left out.
export function said({ about, verdict, notices }) {
  return [sentences(about), sentences(verdict, "lead"), sentences(notices)];
}

// All of a result: its heading and sentences, and a card for each of its tables.
// name   of the files, which end in the number of their table
// data   of `saveMenu`
export function resultCards(answer, { name, data }) {
  const { heading, tables } = answer.view;
  const cards = tables.map((table, n) => {
    const number = n + 1;
    return tableCard(table, { title: table.title || `Table ${number}`, name: `${name}-${number}`, data });
  });
  const ofWhat = heading ? h("p", { class: "of", dir: "auto" }, heading) : null;
  return [h("section", { class: "card said", "aria-label": "what was computed" }, ofWhat, said(answer.view)), ...cards];
}
