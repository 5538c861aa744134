// Redraws a part of the page and leaves the keyboard where it was: on what has the same data-key, or the same kind of thing.
export function keeping(box, draw) {
  const at = document.activeElement;
  const key = box.contains(at) ? at.dataset.key : undefined;
  draw();
  if (!key || box.contains(document.activeElement)) return;
  const kind = key.slice(0, key.lastIndexOf(":") + 1);
  const to = box.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? (kind ? box.querySelector(`[data-key^="${CSS.escape(kind)}"]`) : null);
  to?.focus({ preventScroll: true });
}
