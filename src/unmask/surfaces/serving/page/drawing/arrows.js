// Arrow keys between buttons of which only one is a stop of the tab key; grid[row][column] may have holes.
export function arrows(grid) {
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const all = grid.flat().filter(Boolean);
  const rest = (button) => all.forEach((one) => { one.tabIndex = one === button ? 0 : -1; });
  grid.forEach((row, i) => row.forEach((button, j) => {
    if (!button) return;
    button.addEventListener("focus", () => rest(button));
    button.addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && button instanceof SVGElement) {
        event.preventDefault();
        button.dispatchEvent(new MouseEvent("click"));
      }
      const step = STEPS[event.key];
      const to = step && grid[i + step[0]]?.[j + step[1]];
      if (!to) return;
      event.preventDefault();
      to.focus();
    });
  }));
  return rest;
}
