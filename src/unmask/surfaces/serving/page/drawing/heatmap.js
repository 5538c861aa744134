// Coloured cells in rows and columns, drawn as SVG with their scale: the joint of two blanks, and the mutants of a
// sequence.
import { arrows } from "./arrows.js";
import { clipped, figure, percent, shown, svg, wide } from "./dom.js";

export const COLOURINGS = [
  ["joint", "Joint", "Probability under the joint"],
  ["product", "Independent", "Probability if the blanks were independent"],
  ["difference", "Difference", "The joint minus independent blanks"],
];
const TEXT = 13; // size of the heads
const SMALL_TEXT = 11; // of numbers along the axes
const EDGE = 30; // pixels of the bars along the edges
const NAME = 92; // pixels that the longest head may take
const STRIPES = 24; // of the scale

const marks = (...names) => names.filter(Boolean).join(" ");
const isLetter = (head) => [...head.label].length === 1;

// rows and columns   [{id, label, title, press, pressed, share, mark, number}], share and mark of the edge's bar from 0
//                    to 1
// shares[i][j]       [share from 0 to 1, negative], null for an empty cell
// key                {label, ticks: [[from 0 to 1, text]], signed, edges}
// One stop of the tab key, arrows inside; columns that do not fit continue below.
export function heat(drawing) {
  return figure((width) => new Heat(drawing, width).svg(), `${drawing.label}, figure`);
}

class Heat {
  constructor({ chosen = () => false, held = () => false, cell = [38, 26], least = 12, ...drawing }, width) {
    Object.assign(this, drawing, { chosen, held, width });
    const { rows, columns, corner } = drawing;
    this.letters = [...rows, ...columns].every(isLetter);
    const edge = rows.some((head) => head.share !== undefined) ? EDGE : 0;
    const isNumbered = columns.some((head) => head.number);
    this.edge = edge;
    this.room = Math.min(NAME, width * 0.26);
    const ofRows = rows.map((head) => Math.min(this.room, wide(head.label, TEXT)));
    this.left = Math.max(...ofRows, wide(`${corner[0]} ↓`, SMALL_TEXT), 12) + 8 + edge;
    const ofColumns = columns.map((head) => Math.min(NAME, wide(head.label, TEXT)));
    const heads = this.letters ? 18 : Math.max(24, ...ofColumns) + 6;
    this.top = heads + edge + (isNumbered ? 12 : 0) + 14;
    const fitting = Math.max(1, Math.floor((width - this.left) / least));
    this.blocks = Math.ceil(columns.length / fitting);
    this.perBlock = Math.ceil(columns.length / this.blocks);
    this.step = Math.min(cell[0], (width - this.left) / this.perBlock);
    this.line = cell[1];
    this.high = this.top + rows.length * this.line + 10;
  }

  svg() {
    const { width, label, key } = this;
    const bottom = this.blocks * this.high;
    const height = bottom + (key.edges ? 66 : 38);
    const blocks = Array.from({ length: this.blocks }, (_, n) => this.#block(n));
    const out = svg("svg", { class: "heat", width, height, role: "group", "aria-label": label },
      blocks, scale(key, this.left > width / 2 ? 0 : 4, bottom, width));
    return arrows(out);
  }

  // Some of the columns, with all rows.
  #block(number) {
    const first = number * this.perBlock;
    const columns = this.columns.slice(first, first + this.perBlock);
    const [down, along] = this.corner;
    return svg("g", { transform: `translate(0 ${number * this.high})` },
      svg("text", { class: "axis", x: this.left - 6 - this.edge, y: this.top - 6, "text-anchor": "end" },
        `${down} ↓`),
      svg("text", { class: "axis", x: this.left, y: 10 }, `${along} →`),
      columns.map((head, n) => this.#columnHead(head, first + n, this.left + n * this.step)),
      this.rows.map((head, i) => [this.#rowHead(head, i), columns.map((column, n) => this.#cell(i, first + n, n))]));
  }

  // Row 0 and column 0 are the heads; the first cell is the stop of the tab key.
  #button(tag, at, props, ...inside) {
    return svg(tag, { role: "button", tabindex: at === "1,1" ? 0 : -1, "data-at": at, ...props }, ...inside);
  }

  #head(head, at, axis, props, text) {
    const kind = marks("head", head.pressed && "on", head.stands && "stands");
    const title = svg("title", {}, head.title ?? head.label);
    if (!head.press) return svg("text", { class: kind, ...props }, text, title);
    return this.#button("text", at, {
      class: kind, ...props, "aria-pressed": String(Boolean(head.pressed)), "data-key": `head:${axis}:${head.id}`,
      "aria-label": head.title, onclick: head.press,
    }, text, title);
  }

  #columnHead(head, j, x) {
    const { step, edge, letters } = this;
    const y = this.top - 5 - edge;
    const turned = `translate(${x + step / 2 + 4} ${y}) rotate(-90)`;
    const props = letters
      ? { transform: `translate(${x + step / 2} ${y})`, "text-anchor": "middle" }
      : { transform: turned, "text-anchor": "start" };
    const half = wide(head.number ?? "", SMALL_TEXT) / 2;
    const at = { x: Math.min(x + step / 2, this.width - half), y: 22, "text-anchor": "middle" };
    return [
      head.number && svg("text", { class: "axis", ...at }, head.number),
      this.#head(head, `0,${j + 1}`, 1, props, clipped(head.label, NAME, TEXT)),
      edgeBar(head, x + 1, this.top - EDGE, Math.max(1, step - 3), EDGE - 3, true),
    ];
  }

  #rowHead(head, i) {
    const y = this.top + i * this.line;
    const props = { x: this.left - 6 - this.edge, y: y + this.line / 2 + 4, "text-anchor": "end" };
    return [
      this.#head(head, `${i + 1},0`, 0, props, clipped(head.label, this.room, TEXT)),
      edgeBar(head, this.left - EDGE, y + 4, EDGE - 4, this.line - 8, false),
    ];
  }

  #cell(i, j, n) {
    const share = this.shares[i][j];
    const ofValue = marks(share?.[1] && "less", !share && "none");
    const kind = marks("cell", ofValue, this.chosen(i, j) && "chosen", this.held(i, j) && "held");
    return this.#button("rect", `${i + 1},${j + 1}`, {
      class: kind, x: this.left + n * this.step + 0.5, y: this.top + i * this.line + 0.5,
      width: Math.max(1, this.step - 1.5), height: this.line - 1.5, rx: 2, "--p": (share?.[0] ?? 0).toFixed(4),
      "aria-label": this.name(i, j), "data-key": `cell:${this.rows[i].id}:${this.columns[j].id}`,
      onclick: () => this.press?.(i, j), onmouseenter: () => this.look?.(i, j), onfocus: () => this.look?.(i, j),
    });
  }
}

// A blank's probability along an edge, and a line where it is for independent blanks.
function edgeBar({ share, mark }, x, y, width, height, isUpright) {
  if (share === undefined) return [];
  const rise = isUpright
    ? { x, width, y: y + height * (1 - share), height: height * share }
    : { y, height, x: x + width * (1 - share), width: width * share };
  const line = isUpright
    ? { x, width, y: y + height * (1 - mark) - 1, height: 2 }
    : { y, height, x: x + width * (1 - mark) - 1, width: 2 };
  return [
    svg("rect", { class: "trough", x, y, width, height, rx: 2 }),
    svg("rect", { class: "rise", ...rise }),
    svg("rect", { class: "mark", ...line }),
  ];
}

// Colours with their numbers.
function scale({ label, ticks, signed, edges }, x, y, width) {
  const beside = wide(label, 12) + 10 + 220 < width;
  const from = beside ? x + wide(label, 12) + 10 : x;
  const across = Math.min(220, width - x - 30);
  const low = beside ? y : y + 8;
  const stripe = (n) => {
    const at = n / (STRIPES - 1);
    const share = signed ? Math.abs(2 * at - 1) : at;
    return svg("rect", {
      class: signed && at < 0.5 ? "cell less" : "cell", "--p": share.toFixed(3), x: from + (n * across) / STRIPES,
      y: low + 2, width: across / STRIPES + 0.3, height: 9,
    });
  };
  const anchor = (n) => {
    if (n === 0) return "start";
    return n === ticks.length - 1 ? "end" : "middle";
  };
  const notes = edges && wide(edges, SMALL_TEXT) >= width - x ? edges.split("; ") : [edges].filter(Boolean);
  return [
    svg("text", { class: "axis", x, y: beside ? y + 10 : y + 5 }, label),
    Array.from({ length: STRIPES }, (_, n) => stripe(n)),
    ticks.map(([at, text], n) =>
      svg("text", { class: "axis tick", x: from + at * across, y: low + 23, "text-anchor": anchor(n) }, text)),
    notes.map((line, n) => svg("text", { class: "axis", x, y: low + 40 + 14 * n }, line)),
  ];
}

const LABELS = {
  joint: "probability of the pair",
  product: "probability if independent",
  difference: "joint minus independent",
};

// A difference of probabilities, with its sign.
function points(difference) {
  if (difference === 0) return "0";
  return `${difference > 0 ? "+" : "−"}${percent(Math.abs(difference))}`;
}

// The joint of two blanks. pin(blank, id, token) and choose(i, j) may be left out; names: of the two blanks.
// Shares are square roots of probabilities, so that small ones are seen: the middle of the scale is a quarter of its
// end.
export function heatmap(map, { colouring = "joint", pinned, chosen, pin, choose, look, small = false, names }) {
  const [rows, columns] = map.axes;
  const signed = colouring === "difference";
  const differences = () => map.joint.map((row, i) => row.map((p, j) => p - map.product[i][j]));
  const values = signed ? differences() : map[colouring];
  const scaled = signed ? values.flat().map(Math.abs) : [...map.joint.flat(), ...map.product.flat()];
  const most = Math.max(...scaled) || 1;
  const longest = Math.max(...map.axes.flatMap((axis) => [...axis.marginal, ...axis.product]));
  const isHeld = (blank, id) => pinned?.blank === blank && pinned.token === id;
  const head = (axis, blank) => (token, i) => {
    const id = axis.ids[i];
    const title = `${shown(token)}: pin in ${names[blank]} (${percent(axis.marginal[i])})`;
    const edge = small ? {} : { share: axis.marginal[i] / longest, mark: axis.product[i] / longest };
    return {
      id, label: shown(token), pressed: isHeld(blank, id), stands: id === axis.stands, title: pin && title,
      press: pin && (() => pin(blank, id, token)), ...edge,
    };
  };
  const letters = [...rows.tokens, ...columns.tokens].every((token) => [...shown(token)].length === 1);
  const ends = signed
    ? [[0, points(-most)], [0.5, "0"], [1, points(most)]]
    : [[0, "0 %"], [0.5, percent(most / 4)], [1, percent(most)]];
  const edges = small ? "" : "along the edges: one blank alone; the line is for independent blanks";
  return heat({
    rows: rows.tokens.map(head(rows, 0)),
    columns: columns.tokens.map(head(columns, 1)),
    shares: values.map((row) => row.map((value) => [Math.sqrt(Math.abs(value) / most), value < 0])),
    name: (i, j) => {
      const pair = `${shown(rows.tokens[i])} … ${shown(columns.tokens[j])}`;
      return `${pair}: ${percent(map.joint[i][j])}, independent ${percent(map.product[i][j])}`;
    },
    press: choose,
    look,
    chosen: (i, j) => Boolean(chosen && chosen[0] === i && chosen[1] === j),
    held: (i, j) => isHeld(0, rows.ids[i]) || isHeld(1, columns.ids[j]),
    corner: names,
    label: "heat map of the two blanks",
    cell: letters ? [30, 20] : [38, small ? 22 : 26],
    key: { signed, label: LABELS[colouring], ticks: ends, edges },
  });
}
