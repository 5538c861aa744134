// The joint of two blanks as a table: words with their marginals along the edges, a cell for each pair of words.
import { h, percent, shown } from "./dom.js";

export const COLOURINGS = [["joint", "Joint"], ["product", "Independent"], ["difference", "Difference"]];

// Shares from 0 to 1 of the cells' colour. Probabilities by their square root, so that small ones are seen.
function colours(map, colouring) {
  if (colouring !== "difference") {
    const most = Math.max(...map.joint.flat(), ...map.product.flat());
    return map[colouring].map((row) => row.map((p) => [Math.sqrt(p / most), false]));
  }
  const apart = map.joint.map((row, i) => row.map((p, j) => p - map.product[i][j]));
  const most = Math.max(...apart.flat().map(Math.abs)) || 1;
  return apart.map((row) => row.map((d) => [Math.sqrt(Math.abs(d) / most), d < 0]));
}

// pin(blank, id) and choose(i, j) may be left out; a map without them is a picture with names.
export function heatmap(map, { colouring = "joint", pinned = null, chosen = null, pin, choose, look, small = false } = {}) {
  const [rows, columns] = map.axes;
  const shares = colours(map, colouring);
  const most = Math.max(...rows.marginal, ...rows.product, ...columns.marginal, ...columns.product);
  const held = (blank, id) => pinned?.blank === blank && pinned.token === id;
  const edge = (axis, i, kind) => h("span", { class: `edge ${kind}`, "--p": axis.marginal[i] / most, "--q": axis.product[i] / most }, h("i"), h("b"));
  const head = (axis, blank, i) => {
    const word = shown(axis.tokens[i]);
    return pin
      ? h("button", { type: "button", "aria-pressed": String(held(blank, axis.ids[i])), title: `Pin “${word}” in blank ${blank + 1} (${percent(axis.marginal[i])})`, onclick: () => pin(blank, axis.ids[i], axis.tokens[i]) }, word)
      : h("span", {}, word);
  };
  const cells = [];
  const cell = (i, j) => {
    const [share, less] = shares[i][j];
    const pair = `${shown(rows.tokens[i])} … ${shown(columns.tokens[j])}`;
    const button = h("button", {
      type: "button", class: [less && "less", chosen && chosen[0] === i && chosen[1] === j && "chosen"].filter(Boolean).join(" "), "--p": share.toFixed(4),
      tabIndex: i || j ? -1 : 0, "aria-label": `${pair}: ${percent(map.joint[i][j])}, independent ${percent(map.product[i][j])}`,
      onclick: () => choose?.(i, j), onmouseenter: () => look?.(i, j), onfocus: () => look?.(i, j), onkeydown: (event) => move(event, i, j) });
    (cells[i] ??= [])[j] = button;
    return button;
  };
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const move = (event, i, j) => {
    const step = STEPS[event.key];
    const to = step && cells[i + step[0]]?.[j + step[1]];
    if (!to) return;
    event.preventDefault();
    cells[i][j].tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };
  return h("div", { class: "scroll", role: "region", tabIndex: 0, "aria-label": "heat map of the two blanks" },
    h("table", { class: small ? "heat small" : "heat" },
      h("thead", {}, h("tr", {}, h("td", {}), columns.ids.map((id, j) => h("th", { scope: "col" }, h("div", { class: "top" }, small ? null : edge(columns, j, "down"), head(columns, 1, j)))))),
      h("tbody", {}, rows.ids.map((id, i) => h("tr", { class: held(0, id) ? "held" : "" },
        h("th", { scope: "row" }, h("div", { class: "side" }, head(rows, 0, i), small ? null : edge(rows, i, "along"))),
        columns.ids.map((other, j) => h("td", { class: held(1, other) ? "held" : "" }, cell(i, j))))))));
}

export const heatKey = (colouring) => h("p", { class: "key" },
  colouring === "difference"
    ? [h("span", {}, "more than independent"), h("span", { class: "less" }, "less than independent")]
    : [h("span", {}, colouring === "joint" ? "probability under the joint" : "probability of independent blanks")],
  h("span", { class: "beside" }, "along the edges: independent blanks"));
