// The cards of an answer of Fill: what was asked, the map of two blanks, the bars to pin a word, completions, and every
// construction.
import { card } from "../../cards.js";
import { bars } from "../../drawing/bars.js";
import { choices } from "../../drawing/controls.js";
import { h } from "../../drawing/dom.js";
import { heatmap, layerOf } from "../../drawing/heatmap.js";
import { drawnTable, rowsOf, sentences } from "../../result.js";

const ROWS = 0; // of the map: the number of their blank
const COLUMNS = 1;

// `fill` is the question, with what a person can do; see fill.js.
export function fillCards(fill, answer) {
  const { map } = answer.drawn;
  const asked = askedCard(fill, answer);
  const completions = completionsCard(fill, answer);
  const compared = fill.compared && comparedCard(fill, answer);
  if (!map) return columns([completions, compared], [asked]);
  return columns([mapCard(fill, answer), compared], [asked, pinCard(fill, map.pins), completions]);
}

function columns(left, right) {
  return [h("div", { class: "columns wide-left" },
    h("div", { class: "stack", "data-key": "left" }, left),
    h("div", { class: "stack", "data-key": "right" }, right))];
}

// The lines below a picture that is saved: what it shows.
function linesOf(fill, answer) {
  const { about, verdict } = answer.view;
  return [`“${answer.text}”`, fill.page.about.model, ...about, ...verdict];
}

function askedCard(fill, answer) {
  const compare = () => fill.compare();
  const keep = () => fill.keep();
  return h("section", { class: "card", "aria-label": "what is asked", "data-key": "asked" },
    h("div", { "aria-live": "polite" }, sentences(answer.view.about, "lead")),
    sentences(answer.view.verdict),
    fill.canCompare(answer)
      && h("button", { type: "button", "data-key": "compare", onclick: compare }, "Compare every construction"),
    fill.canKeep()
      && h("button", { type: "button", class: "main", "data-key": "keep", onclick: keep },
        `Keep these ${fill.page.word}s`));
}

function mapCard(fill, answer) {
  const { page } = fill;
  const { grid, notes, table, pins } = answer.drawn.map;
  const shown = layerOf(grid, page.state.colour);
  const layers = grid.layers.map((layer) => [layer.name, layer.label, layer.meaning]);
  const tools = [choices("colour", shown.name, layers, (colour) => page.set({ colour }, { ask: false }))];
  const chosen = fill.chosenCell(grid);
  beginReadout(fill, grid, chosen);
  const { pinned } = pins; // {blank, id} or null
  const isPinned = (blank, head) => pinned !== null && pinned.blank === blank && pinned.id === head.id;
  const drawn = heatmap(grid, {
    layer: shown.name,
    head: (blank, head) => ({ press: () => fill.pin(blank, head), pressed: isPinned(blank, head) }),
    press: (i, j) => fill.choose(grid, i, j),
    look: (i, j) => readOut(fill, grid.cells[i][j]),
    isChosen: (i, j) => chosen !== null && chosen[0] === i && chosen[1] === j,
    isHeld: (i, j) => isPinned(ROWS, grid.rows[i]) || isPinned(COLUMNS, grid.columns[j]),
  });
  const how = {
    title: "The two blanks together", label: "joint of the two blanks", name: "map", kind: "map", tools,
    rows: () => rowsOf(table), data: () => answer, of: () => linesOf(fill, answer),
  };
  return card(how, drawn, fill.readout, sentences(notes));
}

function readOut(fill, { name, numbers }) {
  fill.readout.replaceChildren(h("strong", {}, name), ` ${numbers}`);
}

// Until a cell is looked at, the line below the map has the numbers of the chosen one, or says what to do.
function beginReadout(fill, grid, chosen) {
  if (chosen === null) {
    const { word } = fill.page;
    fill.readout.textContent = `Point at a cell, or use the arrow keys; a click puts its ${word}s into the text.`;
    return;
  }
  const [i, j] = chosen;
  readOut(fill, grid.cells[i][j]);
}

function pinCard(fill, pins) {
  const { word } = fill.page;
  const ofBlanks = pins.blanks.map((one) => h("div", { "data-key": `column:${one.blank}` },
    h("h3", {}, one.title), bars(one, (bar) => fill.pin(one.blank, bar))));
  const tools = pins.pinned ? [unpinButton(fill, pins.pinned.blank)] : [];
  const how = {
    title: `Pin a ${word}`, label: `pin a ${word}`, name: "pinned", tools,
    rows: () => rowsOf(pins.table), data: () => pins,
  };
  return card(how, h("p", { class: "note" }, pins.note), ofBlanks);
}

// Its key begins as those of the bars do: when the button goes, `update` moves the keyboard to the first bar.
function unpinButton(fill, blank) {
  const onclick = () => fill.unpin();
  return h("button", { type: "button", "data-key": `bar:${blank}:unpin`, onclick }, "Unpin");
}

// A click on a completion puts its words into the blanks.
function completionsCard(fill, answer) {
  const [table, ...others] = answer.view.tables;
  const { completions } = answer.drawn; // one for each row of the table
  const putButton = (row, content) => h("button", {
    type: "button", class: "put", "data-key": `put:${row}`, onclick: () => fill.put(completions[row].words),
  }, content);
  // A cell of a text column is {text, spans, mark}, or null. Its text becomes a button, and the mark follows it.
  const cell = (row, column, content) => {
    const value = table.rows[row][column];
    const isCompletion = table.columns[column].text && value !== null;
    return isCompletion ? [putButton(row, content), value.mark] : null;
  };
  const shareOfRow = (row) => completions[row].share;
  const how = {
    title: "Best completions", label: "completions", name: "completions", kind: "best",
    rows: () => rowsOf(table), data: () => answer,
  };
  return card(how,
    drawnTable(table, { label: "best completions", cell, bars: [shareOfRow] }), sentences(table.notes),
    others.map((one) => drawnTable(one, { label: "answers" })));
}

// All tables of the comparison; the name of a construction is a button that asks for it.
function comparedCard(fill, answer) {
  const { compared } = fill;
  const { about, tables, verdict } = compared.view;
  const how = {
    title: "Every construction", name: "constructions", kind: "later",
    rows: () => rowsOfTables(tables), data: () => compared,
  };
  return card(how,
    sentences([...answer.drawn.compared, ...about]), tables.map((table) => comparedTable(fill, answer, table)),
    sentences(verdict), meaningsOf(fill, tables));
}

// In a file an empty line stands between the tables.
function rowsOfTables(tables) {
  const rows = [];
  for (const table of tables) {
    if (rows.length > 0) rows.push([]);
    rows.push(...rowsOf(table));
  }
  return rows;
}

function comparedTable(fill, answer, table) {
  const offered = fill.page.known.construction.choices.map(([name]) => name);
  const cell = (row, column) => {
    const name = table.rows[row][column];
    const isConstruction = column === 0 && offered.includes(name);
    return isConstruction ? constructionButton(fill, answer, name) : null;
  };
  return [
    h("p", { class: "note" }, `${table.title}.`), drawnTable(table, { label: table.title, cell }),
    sentences(table.notes),
  ];
}

// What the constructions in these tables are, in the words of the verb.
function meaningsOf(fill, tables) {
  const inTables = tables.flatMap((table) => table.rows.map(([first]) => first));
  const offered = fill.page.known.construction.choices.map(([name, label, meaning]) => ({ name, label, meaning }));
  const compared = offered.filter(({ name }) => inTables.includes(name));
  return h("dl", { class: "meanings" },
    compared.map(({ label, meaning }) => [h("dt", {}, label), h("dd", {}, meaning)]));
}

function constructionButton(fill, answer, name) {
  const isUsed = name === answer.construction;
  const onclick = () => fill.setConstruction(name);
  return h("button", {
    type: "button", "data-key": `construction:${name}`, "aria-pressed": String(isUsed), onclick,
  }, name);
}
