// A text bar by bar, as SVG.
import { px, svg } from "./dom.js";
import { figure } from "./figure.js";
import { clipped, direction, wide } from "./text.js";

const TICK = 11; // size of the numbers: those of the scale, and those below the bars
const GAP = 8; // pixels between the scale and the bars
const LINE = 14; // pixels above the bars of a line
const LETTER = 13; // pixels of a residue's column
const SMALLEST = 0.8; // pixels of a bar that is not 0
const BESIDE_BAR = 1.5; // pixels of a column that stay free on each side of its bar
const TOP_OF_GROUND = 12; // pixels above the ground of a column that differs
const LEADING = 2; // pixels between two lines of text
const WORD_PADDING = 10; // pixels of a word's column beside its text
const NUMBERED = 10; // every tenth residue has its number, and the first of a line
const CLOSE = 8; // a line that begins with the 8th or 9th of ten has no number there: it would run into the tenth's
// In pixels: size of the texts, height of the highest bar, what stays below the texts for the number, and how far below
// the texts the number stands.
const LETTERS = { size: 13, highest: 34, margin: 30, toNumber: 15 };
const WORDS = { size: 15, highest: 30, margin: 36, toNumber: 17 };
const BETWEEN_TEXTS = 5; // pixels that each text adds to a line of bars, beside its size

// Pixels of a line of bars, from its top:
// base     where bars that go up stand, and those that go down hang
// texts    where the texts begin
// foot     where they end
// height   of the whole line
// axis     how far from the left the bars begin: letters have a scale there
function sizes({ bars, scale }, letters) {
  const { size, highest, margin, toNumber } = letters ? LETTERS : WORDS;
  const hasNegative = bars.some(({ share }) => share < 0);
  const lowest = hasNegative ? highest : 0;
  const nTexts = bars.length ? bars[0].texts.length : 1;
  const base = LINE + highest;
  const texts = base + lowest;
  const foot = texts + nTexts * (size + LEADING);
  const height = highest + lowest + nTexts * (size + BETWEEN_TEXTS) + margin;
  const axis = letters ? Math.ceil(wide(scale, TICK)) + GAP : 0;
  return { size, highest, base, texts, foot, height, axis, toNumber };
}

// Pixels of a bar's column: a word's has room for its texts and its number.
function neededBy({ texts, number }, letters, size, width) {
  if (letters) return LETTER;
  const ofTexts = texts.map((text) => wide(text, size));
  const widest = Math.max(...ofTexts, wide(number, TICK));
  return Math.min(width - 8, widest + WORD_PADDING); // a longer word is cut
}

// The bars in lines, as many as they take: {bar, place, x, needed}, the place counted from 1. Bars of a text that is
// written from right to left begin at the right, and the scale stays left of them.
function folded({ bars, text }, letters, { size, axis }, width) {
  const isMirrored = direction(text) === "rtl";
  const lines = [[]];
  let used = axis;
  bars.forEach((bar, n) => {
    const needed = neededBy(bar, letters, size, width);
    const isFull = used + needed > width && lines.at(-1).length > 0;
    if (isFull) {
      lines.push([]);
      used = axis;
    }
    const x = isMirrored ? width + axis - used - needed : used;
    lines.at(-1).push({ bar, place: n + 1, x, needed });
    used += needed;
  });
  return lines;
}

// The scale of a line of letters: its largest number, 0, and the line at 0.
function scaleLines(largest, { axis, base }, width) {
  const x = axis - GAP + 2;
  return [
    svg("text", { class: "axis", x, y: LINE + 8, "text-anchor": "end" }, largest),
    svg("text", { class: "axis", x, y: base + 4, "text-anchor": "end" }, "0"),
    svg("line", { class: "grid", x1: axis - 2, x2: width, y1: base, y2: base }),
  ];
}

// The places of a line of residues that have a number. Numbers may be wider than columns: one that would run into the
// number before it is left out.
function numbered(line) {
  const places = new Set();
  let before = null; // {middle, half} of the number before, in pixels; from right to left it stands at the right
  line.forEach(({ bar, place, x }, n) => {
    const isTenth = place % NUMBERED === 0;
    const isStart = n === 0 && place % NUMBERED < CLOSE;
    if (!isTenth && !isStart && !bar.differs) return;
    const half = wide(String(place), TICK) / 2;
    const middle = x + LETTER / 2;
    const runsInto = before !== null && Math.abs(middle - before.middle) <= half + before.half + 1;
    if (runsInto) return;
    places.add(place);
    before = { middle, half };
  });
  return places;
}

// A text bar by bar, in as many lines as it takes.
// drawn     as the server draws it: {label, text, bars: [{texts, share, number, title, differs}], scale}. A bar goes
//           up, or down where its share is negative
// letters   whether each bar is a residue. Residues have a scale, and below some of them their place in the text;
//           words have the number of the bar below them
// up        the classes of bars that go up; those that go down are always of "less"
export function profile(drawn, { letters = false, up = "rise warm" } = {}) {
  const pixels = sizes(drawn, letters);
  const { size, highest, base, texts: top, foot, height, toNumber } = pixels;

  function ground(x, needed) {
    return svg("rect", {
      class: "ground", x, y: TOP_OF_GROUND, width: needed, height: height - TOP_OF_GROUND - 2, rx: 3,
    });
  }

  function rise({ share }, x, needed) {
    if (share === null) return null;
    const isDown = share < 0;
    const long = share === 0 ? 0 : Math.max(SMALLEST, Math.abs(share) * highest);
    return svg("rect", {
      class: isDown ? "rise less" : up,
      x: x + BESIDE_BAR, y: px(isDown ? base : base - long),
      width: Math.max(2, needed - 2 * BESIDE_BAR), height: px(long),
    });
  }

  function column({ bar, x, needed }, number) {
    const middle = x + needed / 2;
    const texts = bar.texts.map((text, n) => svg("text", {
      class: "word", x: middle, y: top + (n + 1) * (size + LEADING) + 4, "text-anchor": "middle", "font-size": size,
    }, clipped(text, needed, size)));
    const below = { class: "axis", x: middle, y: foot + toNumber, "text-anchor": "middle" };
    return svg("g", { class: bar.differs ? "column differs" : "column" },
      svg("title", {}, bar.title),
      bar.differs ? ground(x, needed) : null,
      rise(bar, x, needed),
      texts,
      number === "" ? null : svg("text", below, number));
  }

  function columns(line) {
    if (!letters) return line.map((one) => column(one, one.bar.number));
    const places = numbered(line);
    return line.map((one) => column(one, places.has(one.place) ? String(one.place) : ""));
  }

  function draw(width) {
    const lines = folded(drawn, letters, pixels, width);
    const groups = lines.map((line, n) => svg("g", { transform: `translate(0 ${n * height})` },
      letters ? scaleLines(drawn.scale, pixels, width) : null, columns(line)));
    const all = {
      class: "profile", width, height: lines.length * height, role: "img", "aria-label": drawn.label,
    };
    return svg("svg", all, groups);
  }

  return figure(draw, drawn.label);
}
