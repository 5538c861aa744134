// The joint of two blanks as a table: words with their marginals along the edges, a cell for each pair of words.
import { arrows } from "./arrows.js";
import { h, percent, shown } from "./dom.js";

export const COLOURINGS = [["joint", "Joint", "Probability under the joint"], ["product", "Independent", "Probability if the blanks were independent"], ["difference", "Difference", "The joint minus independent blanks"]];
const STRIPES = 25;

function largest(map, colouring) {
  if (colouring !== "difference") return Math.max(...map.joint.flat(), ...map.product.flat());
  return Math.max(...map.joint.flatMap((row, i) => row.map((p, j) => Math.abs(p - map.product[i][j])))) || 1;
}

// Shares from 0 to 1 of the cells' colour, by the square root, so that small ones are seen; and whether a difference is negative.
function colours(map, colouring) {
  const most = largest(map, colouring);
  if (colouring !== "difference") return map[colouring].map((row) => row.map((p) => [Math.sqrt(p / most), false]));
  return map.joint.map((row, i) => row.map((p, j) => [Math.sqrt(Math.abs(p - map.product[i][j]) / most), p < map.product[i][j]]));
}

// A table of coloured cells: shares[i][j] = [share, negative]; heads are elements or buttons; one stop of the tab key, arrows inside.
export function heatTable({ rows, columns, shares, name, press, look, chosen, corner, kind = "", held = () => "" }) {
  const grid = [columns.map((head) => (head.button ? head.element : null))];
  const body = rows.map((head, i) => {
    const cells = columns.map((column, j) => h("button", {
      type: "button", class: [shares[i][j]?.[1] && "less", !shares[i][j] && "none", chosen?.(i, j) && "chosen"].filter(Boolean).join(" "), "--p": (shares[i][j]?.[0] ?? 0).toFixed(4), "aria-label": name(i, j),
      "data-key": `cell:${head.id}:${column.id}`, onclick: () => press?.(i, j), onmouseenter: () => look?.(i, j), onfocus: () => look?.(i, j) }));
    grid.push([head.button ? head.element : null, ...cells]);
    return h("tr", {}, h("th", { scope: "row" }, h("div", { class: "side" }, head.element, head.edge)), cells.map((cell, j) => h("td", { class: held(i, j) }, cell)));
  });
  grid[0].unshift(null);
  arrows(grid)(grid[1]?.[1]);
  return h("table", { class: `heat ${kind}`.trim(), "--n": columns.length },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "corner" }, corner), columns.map((head) => h("th", { scope: "col" }, h("div", { class: "over" }, head.edge, head.element))))),
    h("tbody", {}, body));
}

export const corner = (down, across) => [h("span", { class: "across" }, `${across} →`), h("span", { class: "down" }, `${down} ↓`)];

// pin(blank, id) and choose(i, j) may be left out; a map without them is a picture with names. names: of the two blanks.
export function heatmap(map, { colouring = "joint", pinned = null, chosen = null, pin, choose, look, small = false, names = ["blank 1", "blank 2"] } = {}) {
  const [rows, columns] = map.axes;
  const most = Math.max(...rows.marginal, ...rows.product, ...columns.marginal, ...columns.product);
  const held = (blank, id) => pinned?.blank === blank && pinned.token === id;
  const head = (axis, blank, i) => {
    const word = shown(axis.tokens[i]);
    const edge = small ? null : h("span", { class: `edge ${blank ? "down" : "along"}`, "--p": axis.marginal[i] / most, "--q": axis.product[i] / most }, h("i"), h("b"));
    const element = pin
      ? h("button", { type: "button", "aria-pressed": String(held(blank, axis.ids[i])), "data-key": `head:${blank}:${axis.ids[i]}`, title: `Pin “${word}” in ${names[blank]} (${percent(axis.marginal[i])})`, onclick: () => pin(blank, axis.ids[i], axis.tokens[i]) }, word)
      : h("span", {}, word);
    return { id: axis.ids[i], element, edge, button: Boolean(pin) };
  };
  const letters = [...rows.tokens, ...columns.tokens].every((token) => [...shown(token)].length === 1);
  return h("div", { class: "scroll", role: "region", "aria-label": "heat map of the two blanks" },
    heatTable({
      rows: rows.ids.map((_, i) => head(rows, 0, i)), columns: columns.ids.map((_, j) => head(columns, 1, j)), shares: colours(map, colouring),
      name: (i, j) => `${shown(rows.tokens[i])} … ${shown(columns.tokens[j])}: ${percent(map.joint[i][j])}, independent ${percent(map.product[i][j])}`,
      press: choose, look, chosen: (i, j) => chosen && chosen[0] === i && chosen[1] === j, corner: corner(...names.map((name) => (letters ? name.replace("residue ", "") : name))), kind: [small && "small", letters && "letters"].filter(Boolean).join(" "),
      held: (i, j) => (held(0, rows.ids[i]) || held(1, columns.ids[j]) ? "held" : "") }));
}

// Colours with their numbers; the middle of the square-root scale is a quarter of its end.
export function scale(most, signed, written) {
  const stripes = Array.from({ length: STRIPES }, (_, n) => n / (STRIPES - 1)).map((at) => (signed ? 2 * at - 1 : at));
  const ticks = signed ? [-1, -0.25, 0, 0.25, 1] : [0, 0.25, 1];
  return h("div", { class: "scale" },
    h("div", { class: "stripes", "aria-hidden": "true" }, stripes.map((at) => h("i", { class: at < 0 ? "less" : "", "--p": Math.abs(at).toFixed(3) }))),
    h("div", { class: "ticks" }, ticks.map((share) => h("span", {}, written(share * most)))));
}

export const heatKey = (map, colouring, edges = true) => {
  const signed = colouring === "difference";
  const points = (d) => (d === 0 ? "0" : `${d > 0 ? "+" : "−"}${percent(Math.abs(d))}`);
  return h("div", { class: "key" },
    h("span", { class: "plain" }, { joint: "probability of the pair under the joint", product: "probability of the pair if independent", difference: "joint minus independent" }[colouring]),
    scale(largest(map, colouring), signed, signed ? points : percent),
    edges && h("span", { class: "beside" }, "along the edges: one blank alone; the line is for independent blanks"));
};
