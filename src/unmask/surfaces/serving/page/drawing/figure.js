// A figure that is drawn again when its place becomes wider or narrower.
import { h } from "./dom.js";
import { update } from "./update.js";

// draw(width) gives an SVG. `update` calls `redraw` with the function of a new drawing.
export function figure(draw, label) {
  const box = h("div", { class: "figure", role: "group", "aria-label": label });
  let width = 0; // 0 until the box is in the page
  box.drawing = draw;
  box.redraw = (next) => {
    box.drawing = next;
    if (width === 0) return;
    update(box, next(width));
    const isScrolled = box.scrollWidth > box.clientWidth + 1; // by a pixel it may be rounding
    box.tabIndex = isScrolled ? 0 : -1; // so that arrow keys can scroll it
  };
  const observer = new ResizeObserver(() => {
    const now = Math.floor(box.clientWidth);
    if (now === 0 || now === width) return;
    width = now;
    box.redraw(box.drawing);
  });
  observer.observe(box);
  return box;
}
