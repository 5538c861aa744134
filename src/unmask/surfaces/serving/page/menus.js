// Makes a <details> a menu: Escape, a click elsewhere, and the keyboard that moves away close it.
export function closing(box) {
  box.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    box.open = false;
    box.querySelector("summary").focus();
  });
  box.addEventListener("toggle", () => {
    const closeOutside = ({ target }) => { box.open = box.contains(target); };
    if (box.open) addEventListener("pointerdown", closeOutside, { once: true });
  });
  box.addEventListener("focusout", ({ relatedTarget: next }) => {
    if (next && !box.contains(next)) box.open = false;
  });
  return box;
}
