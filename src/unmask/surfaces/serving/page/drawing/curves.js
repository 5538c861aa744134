// Curves over the sweeps of a run, as SVG.
import { px, svg } from "./dom.js";
import { figure } from "./figure.js";

const HEIGHT = 190;
const LEFT = 46;
const RIGHT = 10;
const BOTTOM = 24;
const TOP = 12;
const COLOURS = 8;

// points  [{sweep, values}], at least one: a value for each curve, null where there is none
// label   for readers of screens
// axis    of the values: {low, high, ticks: [[share, text], ...]}, `high` above `low`
// ends    of the sweeps: {last, texts: [left, right]}
// now     the sweep where the replay stands
export function trace(points, { label, axis, ends, now }) {
  const draw = (width) => {
    const right = width - RIGHT;
    const sweeps = Math.max(1, ends.last); // of a run that has only its starts, the axis has a width, too
    const xOf = (sweep) => px(LEFT + (sweep / sweeps) * (right - LEFT));
    const yOfShare = (share) => px(TOP + (1 - share) * (HEIGHT - TOP - BOTTOM));
    const yOf = (value) => yOfShare((value - axis.low) / (axis.high - axis.low));

    const ticks = axis.ticks.map(([share, text]) => {
      const y = yOfShare(share);
      return [
        svg("line", { class: "grid", x1: LEFT, x2: right, y1: y, y2: y }),
        svg("text", { class: "axis", x: LEFT - 6, y: y + 4, "text-anchor": "end" }, text),
      ];
    });
    const [textLeft, textRight] = ends.texts;
    const texts = [
      svg("text", { class: "axis", x: LEFT, y: HEIGHT - 6 }, textLeft),
      svg("text", { class: "axis", x: right, y: HEIGHT - 6, "text-anchor": "end" }, textRight),
    ];
    const cornerOf = (sweep, value) => (value === null ? null : [xOf(sweep), yOf(value)]);
    const curves = points[0].values.map((_, n) => { // every point has a value for each curve
      const corners = points.map(({ sweep, values }) => cornerOf(sweep, values[n]));
      return svg("path", { class: `curve c${n % COLOURS}`, d: path(corners) });
    });
    const mark = svg("line", { class: "now", x1: xOf(now), x2: xOf(now), y1: TOP, y2: HEIGHT - BOTTOM });
    return svg("svg", { class: "trace", width, height: HEIGHT, role: "img", "aria-label": label },
      ticks, texts, curves, mark);
  };
  return figure(draw, label);
}

// A line from corner to corner, [x, y] each, which is broken where one is null.
function path(corners) {
  let line = "";
  let isDown = false; // whether the pen is on the paper
  corners.forEach((corner, i) => {
    if (corner !== null) {
      const isLast = i === corners.length - 1;
      const endsHere = isLast || corners[i + 1] === null;
      const isAlone = !isDown && endsHere;
      line += `${isDown ? "L" : "M"}${corner.join(" ")}`;
      if (isAlone) line += "h0"; // a dot, by the round ends of the line
    }
    isDown = corner !== null;
  });
  return line;
}
