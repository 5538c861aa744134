// The map of two blanks in a notebook: the page's own drawing, told what to draw by Python and telling it what is pinned.
import { bars } from "./bars.js";
import { choices, h, percent, shown } from "./dom.js";
import { COLOURINGS, heatmap } from "./heatmap.js";

function render({ model, el }) {
  el.classList.add("unmask");
  let colouring = "joint";
  const pin = (blank, id) => {
    const held = model.get("pin");
    model.set("pin", held && held[0] === blank && held[1] === id ? null : [blank, id]);
    model.save_changes();
  };
  const draw = () => {
    const map = model.get("map");
    const held = model.get("pin");
    const readout = h("p", { class: "readout" }, model.get("summary"));
    const [rows, columns] = map.axes;
    const look = (i, j) => { readout.textContent = `${shown(rows.tokens[i])} … ${shown(columns.tokens[j])}: ${percent(map.joint[i][j])}, ${percent(map.product[i][j])} if the blanks were independent`; };
    const given = map.given;
    el.replaceChildren(
      choices("colour", colouring, COLOURINGS, (name) => { colouring = name; draw(); }),
      heatmap(map, { colouring, pinned: held && { blank: held[0], token: held[1] }, pin, look }), readout,
      ...(given ? [h("h4", {}, `Blank ${2 - given.blank}, given “${shown(given.token)}”`), bars({ blank: 1 - given.blank, tokens: given.tokens.slice(0, 8), ids: given.ids, now: given.given, before: given.marginal, pick: (id) => pin(1 - given.blank, id) })] : []));
  };
  model.on("change:map", draw);
  draw();
}

export default { render };
