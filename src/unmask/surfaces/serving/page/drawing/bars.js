// A blank's distribution as bars: what it is now, and a mark where it was before a word was pinned.
import { h, percent, shown } from "./dom.js";

// now, before: probabilities of the tokens; most: the end of the scale; pressed: the id that is pinned.
export function bars({ blank = 0, tokens, ids, now, before, pressed, pick, most }) {
  const scale = most ?? Math.max(...now, ...(before ?? []));
  const items = tokens.map((token, i) => {
    const share = { "--p": now[i] / scale, "--q": before ? before[i] / scale : -1 };
    return h("li", { "data-key": `bar of ${ids[i]}` },
      h("button", {
        type: "button", "aria-pressed": String(ids[i] === pressed), "data-key": `bar:${blank}:${ids[i]}`, title: token,
        onclick: () => pick(ids[i], token),
      }, shown(token)),
      h("span", { class: "bar", ...share }, h("i"), before && h("b")),
      h("span", { class: "n" }, percent(now[i])));
  });
  return h("ol", { class: "bars" }, items);
}
