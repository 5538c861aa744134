// A blank's distribution as bars: what it is now, and a mark where it was before a word was pinned.
import { h, percent, shown } from "./dom.js";

export function bars({ blank = 0, tokens, ids, now, before, pressed, pick, most }) {
  const scale = most ?? Math.max(...now, ...(before ?? []));
  const items = tokens.map((token, i) => {
    const bar = h("span", { class: "bar", "--p": (before ? before[i] : now[i]) / scale, "--q": before ? before[i] / scale : -1 }, h("i"), before ? h("b") : null);
    if (before) requestAnimationFrame(() => requestAnimationFrame(() => bar.style.setProperty("--p", now[i] / scale)));
    return h("li", {},
      h("button", { type: "button", "aria-pressed": String(ids[i] === pressed), "data-key": `bar:${blank}:${ids[i]}`, title: token, onclick: () => pick(ids[i], token) }, shown(token)),
      bar, h("span", { class: "n" }, percent(now[i])));
  });
  return h("ol", { class: "bars" }, items);
}
