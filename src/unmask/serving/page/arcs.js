// Arcs over the words of a sentence: width and strength by a number, colour by another where it is known.
import { direction, h, shown, svg } from "./drawing/dom.js";

const HIGHEST = 230;

// pairs: [{i, j, value, off}] with off from 0 to 1 or undefined; look(pair) on hover, pick(pair) on a click.
export function arcs(tokens, pairs, { look, pick, on }) {
  const words = tokens.map((token, i) => h("button", { type: "button", class: on && (on.i === i || on.j === i) ? "on" : "", tabIndex: -1 }, shown(token)));
  const line = h("div", { class: "line", "aria-hidden": "true", dir: direction(tokens.join(" ")) }, words);
  const drawing = svg("svg", { role: "img", "aria-label": "arcs between the words; the table below lists them" });
  const box = h("div", { class: "arcs", tabIndex: 0, role: "region", "aria-label": "arcs between words" }, drawing, line);
  const most = Math.max(...pairs.map((pair) => pair.value), 1e-9);
  const draw = () => {
    const middle = words.map((word) => word.offsetLeft + word.offsetWidth / 2);
    const width = line.offsetWidth;
    const longest = Math.max(1, ...pairs.map(({ i, j }) => Math.abs(middle[j] - middle[i])));
    const top = Math.min(HIGHEST, 30 + longest * 0.32);
    drawing.setAttribute("width", width);
    drawing.setAttribute("height", top + 8);
    drawing.replaceChildren(...[...pairs].sort((a, b) => a.value - b.value).map((pair) => {
      const [x, u] = [middle[pair.i], middle[pair.j]];
      const high = top + 6 - ((top - 4) / 0.75) * (Math.abs(u - x) / longest) ** 0.75;
      const share = pair.value / most;
      const chosen = on && on.i === pair.i && on.j === pair.j;
      return svg("path", {
        d: `M ${x} ${top + 6} C ${x} ${high}, ${u} ${high}, ${u} ${top + 6}`, "stroke-width": (1 + 6 * share).toFixed(2), opacity: (0.12 + 0.8 * share).toFixed(3),
        class: [pair.off > 0.5 && "off", chosen && "on"].filter(Boolean).join(" "), onmouseenter: () => look(pair), onclick: () => pick(pair) },
        svg("title", {}, `${shown(tokens[pair.i])} – ${shown(tokens[pair.j])}: ${pair.value.toFixed(3)} nats`));
    }));
  };
  const watcher = new ResizeObserver(draw);
  watcher.observe(line);
  return box;
}
