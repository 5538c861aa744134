// One way to draw again: a box gets what a new drawing holds, and elements that are in both stay.
//
// An element of the new drawing is one of the old if both have the same tag and the same data-key; those without a
// key are taken in turn. The old element stays in the page, with the keyboard on it, and gets the attributes, handlers
// and contents of the new one. What a person changed by hand stays, too: whether a <details> is open, how far a box is
// scrolled.
//
// element.lasting   it is placed as it is: whoever made it keeps it up to date
// element.handlers  its event handlers by property, such as {onclick}; `h` sets them
// element.redraw    a figure: draws again with the function of the new one

const OF_A_PERSON = ["open"];
const PROPERTIES = ["value", "checked"];

export function update(box, ...drawn) {
  const nodes = drawn.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false)
    .map((one) => (one instanceof Node ? one : document.createTextNode(one)));
  const at = document.activeElement;
  const key = box.contains(at) ? at.dataset.key : undefined;
  place(box, nodes);
  if (key && !box.contains(at)) follow(box, key);
  // The stop of the tab key is where the keyboard is (`arrows`), whatever the new drawing said.
  else if (key) at.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
}

// Moves the keyboard to something of the same kind, where what had it is gone: "bar:0:17" is a kind of "bar:0:".
function follow(box, key) {
  const same = box.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const kind = key.slice(0, key.lastIndexOf(":") + 1);
  const next = same ?? (kind && box.querySelector(`[data-key^="${CSS.escape(kind)}"]`));
  next?.focus({ preventScroll: true });
}

// What two nodes have in common if they are the same: for texts nothing more is needed.
function identity(node) {
  return node instanceof Element ? `${node.nodeName} ${node.dataset.key ?? ""}` : node.nodeName;
}

function place(parent, nodes) {
  const waiting = new Map(); // old children that no new node has taken, by identity
  for (const child of parent.childNodes) {
    if (child.lasting || nodes.includes(child)) continue;
    const same = identity(child);
    if (!waiting.has(same)) waiting.set(same, []);
    waiting.get(same).push(child);
  }
  const kept = nodes.map((node) => {
    const old = node.lasting || node.parentNode === parent ? undefined : waiting.get(identity(node))?.shift();
    if (old === undefined) return node;
    copy(node, old);
    return old;
  });
  // First the rest goes: an element that is moved in the page would lose the keyboard.
  for (const child of [...parent.childNodes]) if (!kept.includes(child)) child.remove();
  let next = parent.firstChild;
  for (const node of kept) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

// Gives `old` what `node` has.
function copy(node, old) {
  if (!(node instanceof Element)) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  copyAttributes(node, old);
  for (const name of Object.keys({ ...old.handlers, ...node.handlers })) old[name] = node.handlers?.[name] ?? null;
  old.handlers = node.handlers;
  if (old.redraw) {
    old.redraw(node.drawing);
    return;
  }
  place(old, [...node.childNodes]);
  for (const name of PROPERTIES) if (name in old && old[name] !== node[name]) old[name] = node[name];
}

function copyAttributes(node, old) {
  for (const { name, value } of node.attributes) {
    if (name === "style") old.style.cssText = value; // the page's policy forbids the attribute
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!node.hasAttribute(name) && !OF_A_PERSON.includes(name)) old.removeAttribute(name);
  }
}

// Marks an element that its maker keeps up to date.
export function lasting(element) {
  element.lasting = true;
  return element;
}
