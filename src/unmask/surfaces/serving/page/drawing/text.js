// Texts as they are shown: tokens, marked stretches, their direction and their width.
import { h } from "./dom.js";

const GAP = "\u2060…\u2060"; // what was left out; no line breaks beside it
const LONG = 90; // characters of a text whose unmarked stretches are shortened
const AROUND = 9; // characters that are then kept on each side of a mark
const SIZE = 13; // pixels of a text in a drawing
// A first letter that is Hebrew, Arabic, Syriac, Thaana, N'Ko or of what lies between them.
const RIGHT_TO_LEFT = /^\P{L}*(?=\p{L})[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u;
let pen = null; // measures texts

// A token without the spaces around it; a sign in place of one that has nothing else.
export const shown = (token) => token.trim() || "␣";

// The direction that a text is written in, by its first letter.
export const direction = (text) => (RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr");

// A text with some stretches marked: [[start, end], ...] in characters, which do not overlap. Of a long text only the
// characters around the marks are kept.
export function marked(text, spans) {
  if (spans.length === 0) return [text];
  const points = [...text];
  const isLong = points.length > LONG;
  const between = (from, to, keeps) => {
    const stretch = points.slice(from, to);
    return isLong ? shortened(stretch, keeps) : stretch.join("");
  };
  const parts = [];
  let end = 0; // of the last mark
  for (const [start, stop] of spans.toSorted((one, other) => one[0] - other[0])) {
    const isFirst = parts.length === 0;
    parts.push(between(end, start, { start: !isFirst, end: true }), h("mark", {}, points.slice(start, stop).join("")));
    end = stop;
  }
  parts.push(between(end, points.length, { start: true, end: false }));
  return parts;
}

// A stretch of characters, of which a long one keeps its start, its end, or both.
function shortened(stretch, keeps) {
  const isShort = stretch.length <= 2 * AROUND + 2; // the gap takes room, too
  if (isShort) return stretch.join("");
  const start = keeps.start ? stretch.slice(0, AROUND).join("") : "";
  const end = keeps.end ? stretch.slice(-AROUND).join("") : "";
  return start + GAP + end;
}

// The width of a text in pixels; the font is that of style.css.
export function wide(text, size = SIZE) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
  return pen.measureText(text).width;
}

// A text cut to a width in pixels; at least one letter stays, and a text of one letter is not cut.
export function clipped(text, room, size) {
  if (wide(text, size) <= room) return text;
  const points = [...text];
  if (points.length < 2) return text;
  const first = (count) => `${points.slice(0, count).join("")}…`;
  let fits = 1;
  let tooMany = points.length; // bisection: a sequence may have thousands of letters
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2);
    if (wide(first(middle), size) <= room) fits = middle;
    else tooMany = middle;
  }
  return first(fits);
}
