// The scale of a heat map: its colours with their numbers, and what the bars along its edges are.
import { svg } from "./dom.js";
import { wide } from "./text.js";

const STRIPES = 24; // of the colours
// In pixels:
const WIDEST = 220; // of the stripes together
const TEXT = 11; // size of all letters here, as the class "axis" has it
const HEIGHT = 38; // of label, stripes and ticks
const LINE = 14; // from line to line of the edges

// Pixels that the scale takes, with two lines for the edges, if there are any: there are then two.
export function scaleHeight(edges) {
  return edges.length > 0 ? HEIGHT + 2 * LINE : HEIGHT;
}

// The scale of a layer, with its upper left corner at (x, y) of a drawing that is `width` pixels wide.
export function scale(layer, edges, x, y, width) {
  const { left, top, base } = place(layer.scale, x, y, width);
  const across = Math.min(WIDEST, width - x - 30); // width of the stripes together
  const label = svg("text", { class: "axis", x, y: base }, layer.scale);
  const stripes = Array.from({ length: STRIPES }, (_, n) => stripe(n, layer.signed, left, top, across));
  const ticks = layer.ticks.map(([at, text], n) => {
    const props = { x: left + at * across, y: top + 23, "text-anchor": anchor(n, layer.ticks.length) };
    return svg("text", { class: "axis tick", ...props }, text);
  });
  const lines = linesOf(edges, width - x);
  const ofEdges = lines.map((line, n) => svg("text", { class: "axis", x, y: top + 40 + LINE * n }, line));
  return [label, stripes, ticks, ofEdges];
}

// The label stands before the stripes; in a narrow drawing above them. `left` and `top` are those of the stripes,
// `base` the height at which the label is written.
function place(label, x, y, width) {
  const besideLabel = x + wide(label, TEXT) + 10;
  const isBeside = besideLabel + WIDEST < width;
  if (isBeside) return { left: besideLabel, top: y, base: y + 10 };
  return { left: x, top: y + 8, base: y + 5 };
}

// One of the stripes; below the middle of a signed scale they have the other colour.
function stripe(n, signed, left, top, across) {
  const at = n / (STRIPES - 1); // from 0 to 1
  const share = signed ? 2 * at - 1 : at;
  return svg("rect", {
    class: share < 0 ? "cell less" : "cell", "--p": Math.abs(share),
    x: left + (n * across) / STRIPES, y: top + 2, width: across / STRIPES + 0.3, height: 9,
  });
}

// The first number begins at its place, and the last one ends there: neither stands out beside the stripes.
function anchor(n, count) {
  if (n === 0) return "start";
  return n === count - 1 ? "end" : "middle";
}

// What the bars are: in one line, or where that is too long in a line for each.
function linesOf(edges, room) {
  if (edges.length === 0) return [];
  const joined = edges.join("; ");
  return wide(joined, TEXT) < room ? [joined] : edges;
}
