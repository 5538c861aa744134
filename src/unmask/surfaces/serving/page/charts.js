// Charts as SVG: arcs between words, curves over sweeps, and a profile of a text, column by column.
import { clipped, direction, figure, shown, svg, wide } from "./drawing/dom.js";

// ---- arcs ----

const HIGHEST = 220; // pixels above the words
const PER_NAT = 9; // pixels of an arc's width
const THICKEST = 14;
const WORD = 15; // size of the words
export const thickness = (nats) => Math.min(THICKEST, 0.6 + PER_NAT * Math.max(0, nats));

// Words of a text with their pieces, side by side: where each piece and each word has its middle.
function places(pieces, words, room) {
  const width = (some) => wide(some.map((n) => shown(pieces[n].text)).join(""), WORD);
  const total = words.reduce((sum, own) => sum + width(own) + 10, 0);
  const gap = Math.max(2, (room - total) / words.length);
  const across = Math.max(room, total + gap * words.length);
  const isMirrored = direction(pieces.map((piece) => piece.text).join(" ")) === "rtl";
  const mirror = (x) => (isMirrored ? across - x : x);
  const ofPieces = [];
  const ofWords = [];
  let at = gap / 2;
  for (const own of words) {
    own.forEach((n, k) => { ofPieces[n] = mirror(at + 5 + width(own.slice(0, k)) + width([n]) / 2); });
    ofWords.push(mirror(at + 5 + width(own) / 2));
    at += width(own) + 10 + gap;
  }
  return { across, ofPieces, ofWords };
}

// Arcs over the words of a text.
// pieces   [{text, word}]; those of one word are written as one, and each has its own arcs
// pairs    [{i, j, value, off, title}]; an arc is as wide as its nats, and warm where `off`
// look(pair) on hover, pick(pair) on a click; on: the pair that is chosen
export function arcs(pieces, pairs, { look, pick, on }) {
  const words = [];
  pieces.forEach((piece, n) => {
    const goesOn = n > 0 && pieces[n - 1].word === piece.word;
    if (goesOn) words.at(-1).push(n);
    else words.push([n]);
  });
  const draw = (room) => {
    const { across, ofPieces, ofWords } = places(pieces, words, room);
    const longest = Math.max(1, ...pairs.map(({ i, j }) => Math.abs(ofPieces[j] - ofPieces[i])));
    const top = Math.min(HIGHEST, 30 + longest * 0.32);
    const base = (top + 6).toFixed(1);
    const lines = [...pairs].sort((a, b) => a.value - b.value).map((pair) => {
      const from = ofPieces[pair.i];
      const to = ofPieces[pair.j];
      // The middle of a curve is at 3/4 of the way to its control points.
      const high = (top + 6 - ((top - 4) / 0.75) * (Math.abs(to - from) / longest) ** 0.75).toFixed(1);
      const [x, u] = [from.toFixed(1), to.toFixed(1)];
      const isChosen = on && on.i === pair.i && on.j === pair.j;
      return svg("path", {
        d: `M ${x} ${base} C ${x} ${high}, ${u} ${high}, ${u} ${base}`,
        "data-key": `arc:${pair.i},${pair.j}`,
        "stroke-width": thickness(pair.value).toFixed(2),
        opacity: Math.min(0.92, 0.15 + pair.value).toFixed(3),
        class: ["arc", pair.off && "off", isChosen && "on"].filter(Boolean).join(" "),
        onmouseenter: () => look(pair),
        onclick: () => pick(pair),
      }, svg("title", {}, pair.title));
    });
    const isOn = (n) => on && (on.i === n || on.j === n);
    const piece = (n) => svg("tspan", { class: isOn(n) ? "on" : "" }, shown(pieces[n].text));
    const texts = words.map((own, w) =>
      svg("text", { class: "word", x: ofWords[w], y: top + 26, "text-anchor": "middle" }, own.map(piece)));
    const label = "arcs between words; the table lists them";
    const size = { width: across, height: top + 34 };
    return svg("svg", { class: "arcs", ...size, role: "img", "aria-label": label }, lines, texts);
  };
  return figure(draw, "arcs between words");
}

// ---- curves ----

const HEIGHT = 190;
const LEFT = 46;
const RIGHT = 10;
const BOTTOM = 24;
const TOP = 12;

// Numbers along an axis, at steps of 1, 2 or 5 times a power of ten.
function ticks(low, high) {
  const power = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => (high - low) / size <= 4);
  const values = [];
  for (let value = Math.ceil(low / step) * step; value <= high + 1e-9; value += step) values.push(value);
  return values.map((value) => [value, String(Number(value.toPrecision(6)))]);
}

// series  [{x: [...], y: [...]}]
// now     where the picture stands; range: [low, high] of y; last: where x ends, at least
export function trace(series, { label, now = null, range = null, last = null, unit = "sweep" }) {
  const ys = series.flatMap((one) => one.y).filter(Number.isFinite);
  const xs = series.flatMap((one) => one.x);
  let [low, high] = range ?? (ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1]);
  if (high - low < 1e-9) [low, high] = [low - 1, high + 1];
  const end = Math.max(1, last ?? 0, ...xs);
  const draw = (width) => {
    const right = width - RIGHT;
    const x = (value) => LEFT + (value / end) * (right - LEFT);
    const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    const curve = (one, n) => {
      const points = one.x.map((value, i) => [x(value), y(one.y[i])]).filter((point) => Number.isFinite(point[1]));
      const path = points.map((point) => point.map((v) => v.toFixed(1)).join(" ")).join("L");
      return points.length > 0 && svg("path", { class: `curve c${n % 8}`, d: `M${path}` });
    };
    const lines = ticks(low, high).map(([value, text]) => [
      svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text),
    ]);
    const reached = `${end} ${unit}${end === 1 ? "" : "s"}`;
    const ends = [
      svg("text", { class: "axis", x: LEFT, y: HEIGHT - 6 }, "0"),
      svg("text", { class: "axis", x: right, y: HEIGHT - 6, "text-anchor": "end" }, reached),
    ];
    const mark = now !== null && svg("line", { class: "now", x1: x(now), x2: x(now), y1: TOP, y2: HEIGHT - BOTTOM });
    return svg("svg", { class: "trace", width, height: HEIGHT, role: "img", "aria-label": label },
      lines, ends, series.map(curve), mark);
  };
  return figure(draw, label);
}

// ---- a text column by column ----

const AXIS = 34; // pixels left of the letters, for the numbers of the scale
const LINE = 14; // pixels above the bars

// A text column by column, in as many lines as it takes. Letters are numbered by tens.
// columns  [{texts: [one or two], value, written, title, differs, up}]; bars go up from the line, or down where a value
//          is negative; `up` is the class of those that go up
// most     the end of their scale
export function profile(columns, { label, most, letters = false, rtl = false }) {
  const size = letters ? 13 : 15;
  const bar = letters ? 34 : 30;
  const below = columns.some((column) => column.value < 0) ? bar : 0;
  const lines = columns[0]?.texts.length ?? 1;
  const high = bar + below + lines * (size + 5) + (letters ? 30 : 36);
  const base = LINE + bar;
  const foot = base + below + lines * (size + 2);
  const start = letters ? AXIS : 0;
  const needed = (column, width) => {
    if (letters) return 13;
    const widest = Math.max(...column.texts.map((text) => wide(text, size)), wide(column.written, 11));
    return Math.min(width - 8, widest + 10);
  };
  // Columns with their number, place and width, line by line.
  const folded = (width) => {
    const rows = [[]];
    let at = start;
    columns.forEach((column, n) => {
      const need = needed(column, width);
      if (at + need > width && rows.at(-1).length) {
        rows.push([]);
        at = start;
      }
      rows.at(-1).push({ column, number: n + 1, x: rtl ? width - at - need : at, need });
      at += need;
    });
    return rows;
  };
  const scale = (width) => [
    svg("text", { class: "axis", x: AXIS - 6, y: 22, "text-anchor": "end" }, most.toFixed(1)),
    svg("text", { class: "axis", x: AXIS - 6, y: base + 4, "text-anchor": "end" }, "0"),
    svg("line", { class: "grid", x1: AXIS - 2, x2: width, y1: base, y2: base }),
  ];
  const ground = (x, need) => svg("rect", { class: "ground", x, y: 12, width: need, height: high - 14, rx: 3 });
  const drawnBar = ({ value, up = "rise warm" }, x, need) => {
    const height = Math.min(1, Math.abs(value) / most) * bar;
    return svg("rect", {
      class: value < 0 ? "rise less" : up, x: x + 1.5, y: value < 0 ? base : base - height,
      width: Math.max(2, need - 3), height: Math.max(value ? 0.8 : 0, height),
    });
  };
  const footnote = (column, number, isFirst, middle) => {
    const isNumbered = number % 10 === 0 || (isFirst && number % 10 < 8) || column.differs;
    const place = { class: "axis", x: middle, "text-anchor": "middle" };
    if (!letters) return svg("text", { ...place, y: foot + 17 }, column.written);
    return isNumbered && svg("text", { ...place, y: foot + 15 }, String(number));
  };
  const drawn = ({ column, number, x, need }, n) => {
    const middle = x + need / 2;
    const texts = column.texts.map((text, k) => svg("text", {
      class: "word", x: middle, y: base + below + 4 + (k + 1) * (size + 2), "text-anchor": "middle", "font-size": size,
    }, clipped(text, need, size)));
    return svg("g", { class: column.differs ? "column differs" : "column" }, svg("title", {}, column.title),
      column.differs && ground(x, need), drawnBar(column, x, need), texts, footnote(column, number, n === 0, middle));
  };
  return figure((width) => {
    const rows = folded(width).map((row, r) => svg("g", { transform: `translate(0 ${r * high})` },
      letters && scale(width), row.map(drawn)));
    return svg("svg", { class: "profile", width, height: rows.length * high, role: "img", "aria-label": label }, rows);
  }, label);
}
