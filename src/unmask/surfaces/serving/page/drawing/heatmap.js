// Coloured cells in rows and columns, drawn as SVG with their scale: the joint of two blanks, and the mutants of a sequence.
import { arrows } from "./arrows.js";
import { clipped, figure, percent, shown, svg, wide } from "./dom.js";

export const COLOURINGS = [["joint", "Joint", "Probability under the joint"], ["product", "Independent", "Probability if the blanks were independent"], ["difference", "Difference", "The joint minus independent blanks"]];
const kind = (head) => ["head", head.pressed && "on", head.stands && "stands"].filter(Boolean).join(" ");
const [TEXT, EDGE, STRIPES, NAME] = [13, 30, 24, 92];

// rows and columns: [{id, label, title, press, pressed, share, mark, number}], share and mark of the edge's bar from 0 to 1.
// shares[i][j]: [share from 0 to 1, negative], null for an empty cell. key: {label, ticks: [[from 0 to 1, text]], signed, edges}.
// One stop of the tab key, arrows inside; columns that do not fit continue below.
export function heat({ rows, columns, shares, name, press, look, chosen = () => false, held = () => false, corner, key, label, cell = [38, 26], least = 12 }) {
  const letters = [...rows, ...columns].every((head) => [...head.label].length === 1);
  const edges = rows.some((head) => head.share !== undefined);
  const draw = (width) => {
    const room = Math.min(NAME, width * 0.26);
    const left = Math.max(...rows.map((head) => Math.min(room, wide(head.label, TEXT))), wide(`${corner[0]} ↓`, 11), 12) + 8 + (edges ? EDGE : 0);
    const numbered = columns.some((head) => head.number);
    const top = (letters ? 18 : Math.max(24, ...columns.map((head) => Math.min(NAME, wide(head.label, TEXT)))) + 6) + (edges ? EDGE : 0) + (numbered ? 12 : 0) + 14;
    const blocks = Math.ceil(columns.length / Math.max(1, Math.floor((width - left) / least)));
    const per = Math.ceil(columns.length / blocks);
    const step = Math.min(cell[0], (width - left) / per);
    const high = top + rows.length * cell[1] + 10;
    const grid = [[null, ...columns.map(() => null)], ...rows.map(() => [null])];
    const out = svg("svg", { class: "heat", width, role: "group", "aria-label": label });
    const button = (tag, props, ...inside) => svg(tag, { role: "button", tabindex: -1, ...props }, ...inside);
    for (let start = 0; start < columns.length; start += per) {
      const block = svg("g", { transform: `translate(0 ${(start / per) * high})` });
      const some = columns.slice(start, start + per);
      block.append(svg("text", { class: "axis", x: left - 6 - (edges ? EDGE : 0), y: top - 6, "text-anchor": "end" }, `${corner[0]} ↓`), svg("text", { class: "axis", x: left, y: 10 }, `${corner[1]} →`));
      some.forEach((head, n) => {
        const [x, j] = [left + n * step, start + n];
        const y = top - 5 - (edges ? EDGE : 0);
        if (head.number) block.append(svg("text", { class: "axis", x: Math.min(x + step / 2, width - wide(head.number, 11) / 2), y: 22, "text-anchor": "middle" }, head.number));
        const props = { class: kind(head), transform: letters ? `translate(${x + step / 2} ${y})` : `translate(${x + step / 2 + 4} ${y}) rotate(-90)`, "text-anchor": letters ? "middle" : "start" };
        const text = head.press ? button("text", { ...props, "aria-pressed": String(Boolean(head.pressed)), "data-key": `head:1:${head.id}`, "aria-label": head.title, onclick: head.press }, clipped(head.label, NAME, TEXT)) : svg("text", props, clipped(head.label, NAME, TEXT));
        text.append(svg("title", {}, head.title ?? head.label));
        if (head.press) grid[0][j + 1] = text;
        block.append(text, ...bar(head, x + 1, top - EDGE, Math.max(1, step - 3), EDGE - 3, true));
      });
      rows.forEach((head, i) => {
        const y = top + i * cell[1];
        const props = { class: kind(head), x: left - 6 - (edges ? EDGE : 0), y: y + cell[1] / 2 + 4, "text-anchor": "end" };
        const text = head.press ? button("text", { ...props, "aria-pressed": String(Boolean(head.pressed)), "data-key": `head:0:${head.id}`, "aria-label": head.title, onclick: head.press }, clipped(head.label, room, TEXT)) : svg("text", props, clipped(head.label, room, TEXT));
        text.append(svg("title", {}, head.title ?? head.label));
        if (head.press && !start) grid[i + 1][0] = text;
        block.append(text, ...bar(head, left - EDGE, y + 4, EDGE - 4, cell[1] - 8, false));
        some.forEach((column, n) => {
          const [j, share] = [start + n, shares[i][start + n]];
          const one = button("rect", {
            class: ["cell", share?.[1] && "less", !share && "none", chosen(i, j) && "chosen", held(i, j) && "held"].filter(Boolean).join(" "), x: left + n * step + 0.5, y: y + 0.5, width: Math.max(1, step - 1.5), height: cell[1] - 1.5, rx: 2, "--p": (share?.[0] ?? 0).toFixed(4),
            "aria-label": name(i, j), "data-key": `cell:${head.id}:${column.id}`, onclick: () => press?.(i, j), onmouseenter: () => look?.(i, j), onfocus: () => look?.(i, j) });
          grid[i + 1][j + 1] = one;
          block.append(one);
        });
      });
      out.append(block);
    }
    arrows(grid)(grid[1]?.[1]);
    const bottom = blocks * high;
    out.append(...scale(key, left > width / 2 ? 0 : 4, bottom, width));
    out.setAttribute("height", bottom + (key.edges ? 66 : 38));
    return out;
  };
  return figure(draw, `${label}, figure`);
}

const bar = ({ share, mark }, x, y, width, height, down) => (share === undefined ? [] : [
  svg("rect", { class: "trough", x, y, width, height, rx: 2 }),
  svg("rect", down ? { class: "rise", x, width, y: y + height * (1 - share), height: height * share } : { class: "rise", y, height, x: x + width * (1 - share), width: width * share }),
  svg("rect", down ? { class: "mark", x, width, y: y + height * (1 - mark) - 1, height: 2 } : { class: "mark", y, height, x: x + width * (1 - mark) - 1, width: 2 })]);

// Colours with their numbers.
function scale({ label, ticks, signed, edges }, x, y, width) {
  const beside = wide(label, 12) + 10 + 220 < width;
  const [from, across] = [beside ? x + wide(label, 12) + 10 : x, Math.min(220, width - x - 30)];
  const low = beside ? y : y + 8;
  const lines = wide(edges ?? "", 11) < width - x ? [edges] : edges.split("; ");
  return [
    svg("text", { class: "axis", x, y: beside ? y + 10 : y + 5 }, label),
    ...Array.from({ length: STRIPES }, (_, n) => n / (STRIPES - 1)).map((at, n) => svg("rect", { class: signed && at < 0.5 ? "cell less" : "cell", "--p": (signed ? Math.abs(2 * at - 1) : at).toFixed(3), x: from + (n * across) / STRIPES, y: low + 2, width: across / STRIPES + 0.3, height: 9 })),
    ...ticks.map(([at, text], n) => svg("text", { class: "axis tick", x: from + at * across, y: low + 23, "text-anchor": n === 0 ? "start" : n === ticks.length - 1 ? "end" : "middle" }, text)),
    ...(edges ? lines.map((line, n) => svg("text", { class: "axis", x, y: low + 40 + 14 * n }, line)) : [])];
}

// The joint of two blanks. pin(blank, id, token) and choose(i, j) may be left out; names: of the two blanks.
// Shares are square roots of probabilities, so that small ones are seen: the middle of the scale is a quarter of its end.
export function heatmap(map, { colouring = "joint", pinned = null, chosen = null, pin, choose, look, small = false, names = ["blank 1", "blank 2"] } = {}) {
  const [rows, columns] = map.axes;
  const signed = colouring === "difference";
  const values = signed ? map.joint.map((row, i) => row.map((p, j) => p - map.product[i][j])) : map[colouring] ?? map.joint;
  const most = (signed ? Math.max(...values.flat().map(Math.abs)) : Math.max(...map.joint.flat(), ...map.product.flat())) || 1;
  const longest = Math.max(...[rows, columns].flatMap((axis) => [...axis.marginal, ...axis.product]));
  const holds = (blank, id) => pinned?.blank === blank && pinned.token === id;
  const head = (axis, blank) => (token, i) => ({
    id: axis.ids[i], label: shown(token), pressed: holds(blank, axis.ids[i]), stands: axis.ids[i] === axis.stands, title: pin ? `${shown(token)}: pin in ${names[blank]} (${percent(axis.marginal[i])})` : undefined,
    press: pin && (() => pin(blank, axis.ids[i], token)), ...(small ? {} : { share: axis.marginal[i] / longest, mark: axis.product[i] / longest }) });
  const letters = [...rows.tokens, ...columns.tokens].every((token) => [...shown(token)].length === 1);
  const points = (d) => (d === 0 ? "0" : `${d > 0 ? "+" : "−"}${percent(Math.abs(d))}`);
  return heat({
    rows: rows.tokens.map(head(rows, 0)), columns: columns.tokens.map(head(columns, 1)), shares: values.map((row) => row.map((v) => [Math.sqrt(Math.abs(v) / most), v < 0])),
    name: (i, j) => `${shown(rows.tokens[i])} … ${shown(columns.tokens[j])}: ${percent(map.joint[i][j])}, independent ${percent(map.product[i][j])}`,
    press: choose, look, chosen: (i, j) => Boolean(chosen && chosen[0] === i && chosen[1] === j), held: (i, j) => holds(0, rows.ids[i]) || holds(1, columns.ids[j]),
    corner: names, label: "heat map of the two blanks", cell: letters ? [30, 20] : [38, small ? 22 : 26],
    key: {
      signed, label: { joint: "probability of the pair", product: "probability if independent", difference: "joint minus independent" }[colouring] ?? "probability of the pair",
      ticks: signed ? [[0, points(-most)], [0.5, "0"], [1, points(most)]] : [[0, "0 %"], [0.5, percent(most / 4)], [1, percent(most)]], edges: small ? "" : "along the edges: one blank alone; the line is for independent blanks" } });
}
