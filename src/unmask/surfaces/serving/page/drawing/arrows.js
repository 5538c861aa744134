// Arrow keys between buttons of which only one is a stop of the tab key: those with data-at="row,column".
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function arrows(box) {
  box.addEventListener("focusin", ({ target }) => {
    if (target.dataset.at === undefined) return;
    for (const one of box.querySelectorAll('[data-at][tabindex="0"]')) one.setAttribute("tabindex", -1);
    target.setAttribute("tabindex", 0);
  });
  box.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (target.dataset.at === undefined) return;
    if ((key === "Enter" || key === " ") && target instanceof SVGElement) {
      event.preventDefault();
      target.dispatchEvent(new MouseEvent("click"));
    }
    if (!(key in STEPS)) return;
    const [row, column] = target.dataset.at.split(",").map(Number);
    const next = box.querySelector(`[data-at="${row + STEPS[key][0]},${column + STEPS[key][1]}"]`);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  return box;
}
