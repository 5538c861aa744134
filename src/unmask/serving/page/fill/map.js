// Two blanks together: the map, and what a word that is pinned in one says of the other.
import { bars } from "../drawing/bars.js";
import { choices, h, percent, percentAtLeast, shown } from "../drawing/dom.js";
import { COLOURINGS, heatKey, heatmap } from "../drawing/heatmap.js";
import { card } from "../files.js";

const LISTED = 8;

// found: the answer; colour, pinned, chosen: what is shown; names: of the two blanks; act: {colour, pin, choose}.
export function mapCard(found, { colour, pinned, chosen, names, act }) {
  const { axes: [rows, columns], joint, product } = found.map;
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const look = (i, j) => readout.replaceChildren(
    h("strong", {}, `${shown(rows.tokens[i])} … ${shown(columns.tokens[j])}`), ` ${percent(joint[i][j])} under ${found.joint}, ${percent(product[i][j])} if the blanks were independent`,
    product[i][j] > 0 ? ` (${(joint[i][j] / product[i][j]).toPrecision(2)} times)` : "");
  if (chosen) look(...chosen);
  else readout.textContent = "Point at a cell, or use the arrow keys; a click puts its words into the sentence.";
  const every = () => [["first", "second", found.joint, "product"], ...rows.tokens.flatMap((first, i) => columns.tokens.map((second, j) => [first, second, joint[i][j], product[i][j]]))];
  const held = percentAtLeast(found.candidates_mass);
  return card({ title: "The two blanks together", label: "joint of the two blanks", name: "map", kind: "map", rows: every, data: () => found, tools: [choices("colour", colour, COLOURINGS, act.colour)] },
    heatmap(found.map, { colouring: colour, pinned, chosen, names, pin: act.pin, choose: act.choose, look }),
    heatKey(found.map, colour), readout,
    h("p", { class: "note" }, `${found.shape.map((n) => n.toLocaleString("en")).join(" × ")} tokens considered; they hold ${held} of the independent blanks’ mass, and every number is given that the blanks lie among them. The map shows the ${rows.ids.length} likeliest of each.`));
}

export function pinCard(found, { pinned, names, act }) {
  const { given, axes } = found.map;
  const column = (blank) => {
    const pick = (id, token) => act.pin(blank, id, token);
    if (given && given.blank !== blank) {
      return h("div", {}, h("h3", {}, `${capital(names[blank])}, given “${shown(given.token)}”`),
        bars({ blank, tokens: given.tokens.slice(0, LISTED), ids: given.ids, now: given.given, before: given.marginal, most: Math.max(...given.given, ...given.marginal), pick }));
    }
    const axis = axes[blank];
    return h("div", {}, h("h3", {}, capital(names[blank])), bars({ blank, tokens: axis.tokens.slice(0, LISTED), ids: axis.ids, now: axis.marginal, pressed: given ? pinned?.token : null, pick }));
  };
  const rows = () => (given
    ? [["token", "given", "before", "model"], ...given.tokens.map((token, i) => [token, given.given[i], given.marginal[i], given.model[i]])]
    : [["blank", "token", "joint", "product"], ...axes.flatMap((axis, n) => axis.tokens.map((token, i) => [n + 1, token, axis.marginal[i], axis.product[i]]))]);
  return card({ title: "Pin a word", label: "pin a word", name: "pinned", rows, data: () => given ?? axes, tools: given ? [h("button", { type: "button", "data-key": `bar:${given.blank}:unpin`, onclick: () => act.pin(null) }, "Unpin")] : [] },
    h("p", { class: "note" }, given ? `With “${shown(given.token)}” in ${names[given.blank]}, the other blank changes; the mark is where it was before.` : "Pin a word in one blank and watch the other change."),
    column(0), column(1));
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
