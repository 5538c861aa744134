// Curves over sweeps, one for each chain.
import { svg } from "./drawing/dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [560, 190, 46, 24, 12];

function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 3));
  const size = [1, 2, 5, 10].map((k) => k * step).find((s) => (high - low) / s <= 4);
  const found = [];
  for (let value = Math.ceil(low / size) * size; value <= high + 1e-9; value += size) found.push(value);
  return found.map((value) => [value, String(Number(value.toPrecision(6)))]);
}

// series: [{x: [...], y: [...]}]; now: where the picture stands; range: [low, high] of y, or what the values span.
export function trace(series, { label, now = null, range = null, last = null }) {
  const ys = series.flatMap((s) => s.y).filter(Number.isFinite);
  const xs = series.flatMap((s) => s.x);
  let [low, high] = range ?? [Math.min(...ys), Math.max(...ys)];
  if (!ys.length) [low, high] = range ?? [0, 1];
  if (high - low < 1e-9) [low, high] = [low - 1, high + 1];
  const end = Math.max(1, last ?? 0, ...xs);
  const x = (value) => LEFT + (value / end) * (WIDTH - LEFT - 10);
  const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const curve = (s, n) => {
    const points = s.x.map((value, i) => [x(value), y(s.y[i])]).filter((p) => Number.isFinite(p[1]));
    return points.length ? svg("path", { class: `curve c${n % 8}`, d: `M${points.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L")}` }) : null;
  };
  return svg("svg", { class: "trace", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    ticks(low, high).map(([value, text]) => [svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 10, y1: y(value), y2: y(value) }), svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text)]),
    svg("text", { x: LEFT, y: HEIGHT - 6 }, "0"), svg("text", { x: WIDTH - 10, y: HEIGHT - 6, "text-anchor": "end" }, `${end} sweeps`),
    series.map(curve), now === null ? null : svg("line", { class: "now", x1: x(now), x2: x(now), y1: TOP, y2: HEIGHT - BOTTOM }));
}
