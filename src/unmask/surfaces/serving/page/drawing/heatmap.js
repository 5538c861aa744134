// A `Grid` as coloured cells in rows and columns, drawn as SVG with the scale of its colours: the joint of two blanks,
// and the mutants of a sequence. Its texts and shares are those of the answer (serving/drawings/shapes.py).
import { arrows } from "./arrows.js";
import { svg } from "./dom.js";
import { figure } from "./figure.js";
import { clipped, wide } from "./text.js";
import { scale, scaleHeight } from "./scale.js";

// In pixels:
const TEXT = 13; // size of the letters of heads
const SMALL_TEXT = 11; // size of the letters of corners and of numbers above columns
const EDGE = 30; // length of the bars along the edges
const LONGEST_HEAD = 92;
const GAP = 8; // between the heads of rows and what follows
const CORNER_LINE = 14; // height of the line that names the columns
const NUMBER_LINE = 12; // height of the numbers above columns
const LETTER_LINE = 18; // height of heads of columns that are letters
const NARROWEST_HEAD = 12;
const BETWEEN_BLOCKS = 10;
const OF_LETTERS = [30, 20]; // width of a cell at most, and its height
const OF_WORDS = [38, 26];
const NARROWEST = 12; // width of a cell: columns that are narrower go on in a block below

// The layer of this name; that which the grid shows first if it has none of this name.
export function layerOf(grid, name) {
  const named = grid.layers.find((layer) => layer.name === name);
  return named ?? grid.layers.find((layer) => layer.name === grid.shown);
}

// layer      name of the layer
// cell       [width at most, height] of a cell, in pixels
// least      width of a cell at least, in pixels
// head       (axis, head) => {press, pressed}, axis 0 for rows: heads that have a `press` are buttons
// press      (i, j) => a click on a cell; with it cells are buttons
// look       (i, j) => the pointer or the keyboard is on a cell
// isChosen   (i, j) => whether a cell has a thick border
// isHeld     (i, j) => whether a cell has a thin border
// The tab key stops once, arrow keys move inside. Columns that do not fit go on in a block below.
export function heatmap(grid, how) {
  return figure((width) => new Heat(grid, how, width).svg(), `${grid.label}, figure`);
}

const never = () => false;
const classes = (...names) => names.filter(Boolean).join(" ");
const isLetter = (head) => [...head.label].length === 1;

// The name of a corner with an arrow to what it names, cut to a width in pixels.
function withArrow(name, arrow, room) {
  const whole = `${name} ${arrow}`;
  if (wide(whole, SMALL_TEXT) <= room) return whole;
  const end = ` ${arrow}`;
  return clipped(name, room - wide(end, SMALL_TEXT), SMALL_TEXT) + end;
}

// The class that colours a cell beside "cell"; "" for the usual colour.
function colourClass(share) {
  if (share === null) return "none";
  return share < 0 ? "less" : "";
}

class Heat {
  constructor(grid, how, width) {
    this.grid = grid;
    this.width = width;
    this.headOf = how.head ?? (() => ({}));
    this.press = how.press;
    this.look = how.look;
    this.isChosen = how.isChosen ?? never;
    this.isHeld = how.isHeld ?? never;
    this.canChoose = how.isChosen !== undefined;
    this.layer = layerOf(grid, how.layer);
    this.letters = [...grid.rows, ...grid.columns].every(isLetter);
    const usual = this.letters ? OF_LETTERS : OF_WORDS;
    const [widest, height] = how.cell ?? usual;
    this.cellHeight = height;
    this.#placeHeads();
    this.#placeColumns(widest, how.least ?? NARROWEST);
  }

  // Pixels that the heads and their bars take: `left` of the cells, and `top` above them.
  #placeHeads() {
    const { rows, columns, corner } = this.grid;
    const hasBars = rows.some((head) => head.share !== null);
    this.edge = hasBars ? EDGE : 0;
    this.longestRowHead = Math.min(LONGEST_HEAD, this.width * 0.26);
    const ofRows = rows.map((head) => Math.min(this.longestRowHead, wide(head.label, TEXT)));
    const mostOfCorner = this.width / 2 - GAP - this.edge; // the cells have at least half of the width
    this.cornerOfRows = withArrow(corner[0], "↓", mostOfCorner);
    const ofCorner = wide(this.cornerOfRows, SMALL_TEXT);
    this.left = Math.max(...ofRows, ofCorner, NARROWEST_HEAD) + GAP + this.edge;
    this.cornerOfColumns = withArrow(corner[1], "→", this.width - this.left);
    const hasNumbers = columns.some((head) => head.number !== "");
    const numbers = hasNumbers ? NUMBER_LINE : 0;
    this.top = CORNER_LINE + numbers + this.#heightOfColumnHeads() + this.edge;
  }

  // Letters stand upright, words are turned and read upwards.
  #heightOfColumnHeads() {
    if (this.letters) return LETTER_LINE;
    const lengths = this.grid.columns.map((head) => Math.min(LONGEST_HEAD, wide(head.label, TEXT)));
    return Math.max(24, ...lengths) + 6;
  }

  // Columns stand in blocks, one below the other, which have the same number of columns, but for the last. It is `step`
  // pixels from column to column, and `blockHeight` from block to block.
  #placeColumns(widest, least) {
    const { rows, columns } = this.grid;
    const across = Math.max(least, this.width - this.left);
    const fitting = Math.floor(across / least);
    this.blocks = Math.ceil(columns.length / fitting);
    this.perBlock = Math.ceil(columns.length / this.blocks);
    this.step = Math.min(widest, across / this.perBlock);
    this.blockHeight = this.top + rows.length * this.cellHeight + BETWEEN_BLOCKS;
  }

  svg() {
    const { grid, layer, width } = this;
    const bottom = this.blocks * this.blockHeight;
    const x = 4; // pixels left of the scale
    const blocks = Array.from({ length: this.blocks }, (_, number) => this.#block(number));
    const props = {
      class: "heat", width, height: bottom + scaleHeight(grid.edges), role: "group", "aria-label": grid.label,
    };
    return arrows(svg("svg", props, blocks, scale(layer, grid.edges, x, bottom, width)));
  }

  // Some of the columns, with all rows.
  #block(number) {
    const { rows, columns } = this.grid;
    const first = number * this.perBlock;
    const ofBlock = columns.slice(first, first + this.perBlock).map((head, n) => ({
      head, column: first + n, x: this.left + n * this.step,
    }));
    const endOfHeads = this.left - 6 - this.edge;
    const ofRows = svg("text", { class: "axis", x: endOfHeads, y: this.top - 6, "text-anchor": "end" },
      this.cornerOfRows);
    const ofColumns = svg("text", { class: "axis", x: this.left, y: 10 }, this.cornerOfColumns);
    const isRepeated = number > 0;
    return svg("g", { transform: `translate(0 ${number * this.blockHeight})` },
      ofRows, ofColumns,
      ofBlock.map(({ head, column, x }) => this.#columnHead(head, column, x)),
      rows.map((head, row) => [
        this.#rowHead(head, row, isRepeated),
        ofBlock.map(({ column, x }) => this.#cell(row, column, x)),
      ]));
  }

  // An element that arrow keys reach. `at` is "row,column" counted from 1: row 0 and column 0 are the heads. The tab
  // key stops at the first cell, until an arrow key has moved.
  #reached(tag, at, props, ...inside) {
    return svg(tag, { tabindex: at === "1,1" ? 0 : -1, "data-at": at, ...props }, ...inside);
  }

  // The text of a head, at a place of the drawing. Heads that can be pressed are buttons.
  #head(head, { at, axis, place, text, isRepeated = false }) {
    const { press, pressed } = this.headOf(axis, head);
    const props = { class: classes("head", pressed && "on", head.stands && "stands"), ...place };
    const title = svg("title", {}, head.title);
    if (!press) return svg("text", props, text, title);
    // In a further block the same head is there once more for the eye and the pointer: for the keyboard, and for
    // `update`, which finds elements by their keys, it is in the first block alone.
    if (isRepeated) return svg("text", { ...props, onclick: press, "aria-hidden": "true" }, text, title);
    return this.#reached("text", at, {
      ...props, role: "button", "aria-pressed": String(Boolean(pressed)), "data-key": `head:${axis}:${head.id}`,
      "aria-label": head.title, onclick: press,
    }, text, title);
  }

  #columnHead(head, column, x) {
    const { step, edge, letters } = this;
    const middle = x + step / 2;
    const y = this.top - 5 - edge;
    const upright = { transform: `translate(${middle} ${y})`, "text-anchor": "middle" };
    const turned = { transform: `translate(${middle + 4} ${y}) rotate(-90)`, "text-anchor": "start" };
    const place = letters ? upright : turned;
    const text = clipped(head.label, LONGEST_HEAD, TEXT);
    const bar = { x: x + 1, y: this.top - EDGE, width: Math.max(1, step - 3), height: EDGE - 3 };
    return [
      head.number && this.#columnNumber(head.number, middle),
      this.#head(head, { at: `0,${column + 1}`, axis: 1, place, text }),
      edgeBar(head, bar, true),
    ];
  }

  #columnNumber(number, middle) {
    const half = wide(number, SMALL_TEXT) / 2;
    const x = Math.min(middle, this.width - half); // the last one stays in the drawing
    return svg("text", { class: "axis", x, y: 22, "text-anchor": "middle" }, number);
  }

  #rowHead(head, row, isRepeated) {
    const y = this.top + row * this.cellHeight;
    const place = { x: this.left - 6 - this.edge, y: y + this.cellHeight / 2 + 4, "text-anchor": "end" };
    const text = clipped(head.label, this.longestRowHead, TEXT);
    const bar = { x: this.left - EDGE, y: y + 4, width: EDGE - 4, height: this.cellHeight - 8 };
    return [
      this.#head(head, { at: `${row + 1},0`, axis: 0, place, text, isRepeated }),
      edgeBar(head, bar, false),
    ];
  }

  #cell(i, j, x) {
    const { rows, columns, cells } = this.grid;
    const share = this.layer.shares[i][j];
    const { name, numbers } = cells[i][j];
    const isChosen = this.isChosen(i, j);
    const look = () => this.look?.(i, j);
    const place = {
      x: x + 0.5, y: this.top + i * this.cellHeight + 0.5,
      width: Math.max(1, this.step - 1.5), height: this.cellHeight - 1.5, rx: 2, // the rest is a gap between cells
    };
    return this.#reached("rect", `${i + 1},${j + 1}`, {
      class: classes("cell", colourClass(share), isChosen && "chosen", this.isHeld(i, j) && "held"),
      ...place, "--p": Math.abs(share ?? 0), "aria-label": `${name}: ${numbers}`,
      role: this.press ? "button" : "img", "aria-pressed": this.canChoose ? String(isChosen) : null,
      "data-key": `cell:${rows[i].id}:${columns[j].id}`,
      onclick: () => this.press?.(i, j), onmouseenter: look, onfocus: look,
    });
  }
}

// The part of a place that a bar fills: from the bottom upwards, or from the right end leftwards.
function filled({ x, y, width, height }, share, isUpright) {
  if (isUpright) return { x, y: y + height * (1 - share), width, height: height * share };
  return { x: x + width * (1 - share), y, width: width * share, height };
}

// A line across a place, where a bar with this share ends.
function endLine(place, share, isUpright) {
  const { x, y } = filled(place, share, isUpright);
  if (isUpright) return { x, y: y - 1, width: place.width, height: 2 };
  return { x: x - 1, y, width: 2, height: place.height };
}

// A blank's probability along an edge, and a line where it is for independent blanks.
function edgeBar({ share, mark }, place, isUpright) {
  if (share === null) return [];
  return [
    svg("rect", { class: "trough", ...place, rx: 2 }),
    svg("rect", { class: "rise", ...filled(place, share, isUpright) }),
    svg("rect", { class: "mark", ...endLine(place, mark, isUpright) }),
  ];
}
