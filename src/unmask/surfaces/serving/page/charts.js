// Charts as SVG: arcs between words, curves over sweeps, and a profile of a text, column by column.
import { clipped, direction, figure, shown, svg, wide } from "./drawing/dom.js";

const [HIGHEST, PER_NAT, THICKEST] = [220, 9, 14];
export const thickness = (nats) => Math.min(THICKEST, 0.6 + PER_NAT * Math.max(0, nats));

// Arcs over the words of a text. pieces: [{text, word}]; those of one word are written as one, and each has its own arcs.
// pairs: [{i, j, value, off}]; an arc is as wide as its nats, and warm where `off`. look(pair) on hover, pick(pair) on a click; on: the pair that is chosen.
export function arcs(pieces, pairs, { look, pick, on }) {
  const words = [];
  pieces.forEach((piece, n) => { if (n && pieces[n - 1].word === piece.word) words.at(-1).push(n); else words.push([n]); });
  const long = (some) => wide(some.map((n) => shown(pieces[n].text)).join(""), 15);
  const draw = (room) => {
    const total = words.reduce((sum, own) => sum + long(own) + 10, 0);
    const gap = Math.max(2, (room - total) / words.length);
    const width = Math.max(room, total + gap * words.length);
    const mirror = direction(pieces.map((piece) => piece.text).join(" ")) === "rtl" ? (x) => width - x : (x) => x;
    const middle = [];
    let at = gap / 2;
    const centres = words.map((own) => {
      own.forEach((n, k) => { middle[n] = mirror(at + 5 + long(own.slice(0, k)) + long([n]) / 2); });
      at += long(own) + 10 + gap;
      return mirror(at - gap - 5 - long(own) / 2);
    });
    const longest = Math.max(1, ...pairs.map(({ i, j }) => Math.abs(middle[j] - middle[i])));
    const top = Math.min(HIGHEST, 30 + longest * 0.32);
    const lines = [...pairs].sort((a, b) => a.value - b.value).map((pair) => {
      const [x, u] = [middle[pair.i], middle[pair.j]];
      const high = top + 6 - ((top - 4) / 0.75) * (Math.abs(u - x) / longest) ** 0.75;
      const chosen = on && on.i === pair.i && on.j === pair.j;
      return svg("path", {
        d: `M ${x.toFixed(1)} ${top + 6} C ${x.toFixed(1)} ${high.toFixed(1)}, ${u.toFixed(1)} ${high.toFixed(1)}, ${u.toFixed(1)} ${top + 6}`, "stroke-width": thickness(pair.value).toFixed(2), opacity: Math.min(0.92, 0.15 + pair.value).toFixed(3),
        class: ["arc", pair.off && "off", chosen && "on"].filter(Boolean).join(" "), onmouseenter: () => look(pair), onclick: () => pick(pair) }, svg("title", {}, pair.title));
    });
    return svg("svg", { class: "arcs", width, height: top + 34, role: "img", "aria-label": "arcs between words; the table lists them" }, lines,
      words.map((own, w) => svg("text", { class: "word", x: centres[w], y: top + 26, "text-anchor": "middle" }, own.map((n) => svg("tspan", { class: on && (on.i === n || on.j === n) ? "on" : "" }, shown(pieces[n].text))))));
  };
  return figure(draw, "arcs between words");
}

const [HEIGHT, LEFT, BOTTOM, TOP] = [190, 46, 24, 12];

function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 3));
  const size = [1, 2, 5, 10].map((k) => k * step).find((s) => (high - low) / s <= 4);
  const values = [];
  for (let value = Math.ceil(low / size) * size; value <= high + 1e-9; value += size) values.push(value);
  return values.map((value) => [value, String(Number(value.toPrecision(6)))]);
}

// Curves over sweeps. series: [{x: [...], y: [...]}]; now: where the picture stands; range: [low, high] of y.
export function trace(series, { label, now = null, range = null, last = null, unit = "sweep" }) {
  const [ys, xs] = [series.flatMap((s) => s.y).filter(Number.isFinite), series.flatMap((s) => s.x)];
  let [low, high] = range ?? (ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1]);
  if (high - low < 1e-9) [low, high] = [low - 1, high + 1];
  const end = Math.max(1, last ?? 0, ...xs);
  return figure((width) => {
    const x = (value) => LEFT + (value / end) * (width - LEFT - 10);
    const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    const curve = (s, n) => {
      const points = s.x.map((value, i) => [x(value), y(s.y[i])]).filter((p) => Number.isFinite(p[1]));
      return points.length ? svg("path", { class: `curve c${n % 8}`, d: `M${points.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L")}` }) : null;
    };
    return svg("svg", { class: "trace", width, height: HEIGHT, role: "img", "aria-label": label },
      ticks(low, high).map(([value, text]) => [svg("line", { class: "grid", x1: LEFT, x2: width - 10, y1: y(value), y2: y(value) }), svg("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text)]),
      svg("text", { class: "axis", x: LEFT, y: HEIGHT - 6 }, "0"), svg("text", { class: "axis", x: width - 10, y: HEIGHT - 6, "text-anchor": "end" }, `${end} ${unit}${end === 1 ? "" : "s"}`),
      series.map(curve), now === null ? null : svg("line", { class: "now", x1: x(now), x2: x(now), y1: TOP, y2: HEIGHT - BOTTOM }));
  }, label);
}

// A text column by column, in as many lines as it takes. columns: [{texts: [one or two], value, written, title, differs}].
// Bars go up from the line, or down where a value is negative; `most` is the end of their scale. Letters are numbered by tens.
export function profile(columns, { label, most, letters = false, rtl = false, numbers = [] }) {
  const [size, bar] = letters ? [13, 34] : [15, 30];
  const below = columns.some((column) => column.value < 0) ? bar : 0;
  const lines = columns[0]?.texts.length ?? 1;
  const high = bar + below + lines * (size + 5) + (letters ? 30 : 36);
  return figure((width) => {
    const room = (column) => (letters ? 13 : Math.min(width - 8, Math.max(...column.texts.map((text) => wide(text, size)), wide(column.written, 11)) + 10));
    const rows = [[]];
    let at = letters ? 34 : 0;
    for (const column of columns) {
      const need = room(column);
      if (at + need > width && rows.at(-1).length) { rows.push([]); at = letters ? 34 : 0; }
      rows.at(-1).push([column, rtl ? width - at - need : at, need]);
      at += need;
    }
    const number = new Map(columns.map((column, n) => [column, numbers[n] ?? n + 1]));
    return svg("svg", { class: "profile", width, height: rows.length * high, role: "img", "aria-label": label }, rows.map((row, r) => svg("g", { transform: `translate(0 ${r * high})` },
      letters ? [svg("text", { class: "axis", x: 28, y: 22, "text-anchor": "end" }, most.toFixed(1)), svg("text", { class: "axis", x: 28, y: 14 + bar + 4, "text-anchor": "end" }, "0"), svg("line", { class: "grid", x1: 32, x2: width, y1: 14 + bar, y2: 14 + bar })] : [],
      row.map(([column, x, need], n) => {
        const height = Math.min(1, Math.abs(column.value) / most) * bar;
        const base = 14 + bar;
        return svg("g", { class: column.differs ? "column differs" : "column" }, svg("title", {}, column.title),
          column.differs ? svg("rect", { class: "ground", x, y: 12, width: need, height: high - 14, rx: 3 }) : null,
          svg("rect", { class: column.value < 0 ? "rise less" : column.up ?? "rise warm", x: x + 1.5, y: column.value < 0 ? base : base - height, width: Math.max(2, need - 3), height: Math.max(column.value ? 0.8 : 0, height) }),
          column.texts.map((text, k) => svg("text", { class: "word", x: x + need / 2, y: base + below + 4 + (k + 1) * (size + 2), "text-anchor": "middle", "font-size": size }, clipped(text, need, size))),
          letters ? (number.get(column) % 10 === 0 || (n === 0 && number.get(column) % 10 < 8) || column.differs ? svg("text", { class: "axis", x: x + need / 2, y: base + below + lines * (size + 2) + 15, "text-anchor": "middle" }, String(number.get(column))) : null)
            : svg("text", { class: "axis", x: x + need / 2, y: base + below + lines * (size + 2) + 17, "text-anchor": "middle" }, column.written));
      }))));
  }, label);
}
