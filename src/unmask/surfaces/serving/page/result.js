// A result as its verb states it: sentences, tables and verdict. Heads, formats and words are those of the server.
import { card } from "./cards.js";
import { h, marked } from "./drawing/dom.js";

export const sentences = (lines, kind = "note") => lines.filter(Boolean).map((line) => h("p", { class: kind }, line));

const isFilled = (value) => value !== null && typeof value === "object" && "spans" in value;

// Rows of a table for a file: the heads, then the values.
export const rowsOf = (table) => [
  table.columns.map((column) => column.head.replaceAll("-\n", "").replaceAll("\n", " ")),
  ...table.rows.map((row) => row.map((value) => (isFilled(value) ? value.text : value))),
];

// A table of a result.
// cell(row, column, inside)   elements in the place of the shown text, `inside`, if it gives any
// bars                        by number of the column, (row) => the share of its bar from 0 to 1
export function drawnTable(table, { label, cell, bars = {} } = {}) {
  const content = (value, row, column) => {
    const inside = isFilled(value) ? marked(value.text, value.spans) : table.shown[row][column];
    const own = cell?.(row, column, inside);
    return own || [inside, isFilled(value) ? value.mark : null];
  };
  const bar = (row, column) => bars[column] && h("span", { class: "bar", "--p": bars[column](row) }, h("i"));
  const heads = table.columns.map(({ head, text }) => h("th", { scope: "col", class: text ? "text" : "n" }, head));
  const rows = table.rows.map((row, r) => h("tr", {}, row.map((value, c) => {
    const { text } = table.columns[c];
    return h("td", { class: text ? "text" : "n", dir: text ? "auto" : null }, content(value, r, c), bar(r, c));
  })));
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": label ?? (table.title || "numbers") },
    h("table", { class: table.columns.at(-1).text ? "data ends-in-text" : "data" },
      h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)));
}

// A card for a table of a result.
export function tableCard(table, { name, title, label, of, data, part, kind, tools, ...how }, ...more) {
  const called = title ?? table.title.replaceAll("\n", " ");
  return card({ title: called, label, name, kind, part, tools, rows: () => rowsOf(table), data },
    drawnTable(table, { label: called.toLowerCase(), ...how }), sentences(table.notes.filter(Boolean)), ...more);
}

// All of a result: what was computed, its tables, its verdict.
export function resultCards(answer, files) {
  const { about, tables, verdict } = answer.view;
  const cards = tables.map((table, n) => tableCard(table, {
    ...files, title: table.title || `Table ${n + 1}`, name: `${files.name}-${n + 1}`,
  }));
  return [
    h(
      "section", { class: "card said", "aria-label": "what was computed" }, sentences(about),
      sentences(verdict, "lead")),
    ...cards,
  ];
}
