// Draws a box again without losing what a person is doing in it.
//
// `update(box, ...drawn)` gives the box the contents of a new drawing. An old element stays in the page and takes over
// the attributes, handlers and contents of the new one of the same identity: tag, data-key, and whether it is a figure.
// Of several that are alike the first old one stands for the first new one, and so on. So these stay: the keyboard,
// whether a <details> is open, how far a box is scrolled, and what is being typed where the keyboard is.
//
// element.lasting   its maker keeps it up to date: it is placed, and never given the contents of another
// element.handlers  its event handlers by property, such as {onclick}; `h` sets them
// element.redraw    of a figure: draws again with the function of the new one (`drawing`)

const OF_A_PERSON = ["open"]; // attributes that only a person changes
const PROPERTIES = ["value", "checked"];

export function update(box, ...drawn) {
  const active = document.activeElement;
  const focused = box.contains(active) ? active : null;
  place(box, nodesOf(drawn));
  if (focused?.dataset.key) keepKeyboard(box, focused);
}

// Marks an element that its maker keeps up to date.
export function lasting(element) {
  element.lasting = true;
  return element;
}

// The nodes of a drawing: lists are flat, what is left out (null, undefined, false) is not there, texts are nodes.
function nodesOf(drawn) {
  const nodes = [];
  for (const part of drawn.flat(Infinity)) {
    const isLeftOut = part === null || part === undefined || part === false;
    if (isLeftOut) continue;
    nodes.push(part instanceof Node ? part : document.createTextNode(part));
  }
  return nodes;
}

// Moves the keyboard back to `focused`, which had it, or to what stands in its place now.
function keepKeyboard(box, focused) {
  if (!box.contains(focused)) {
    follow(box, focused.dataset.key);
    return;
  }
  const lostKeyboard = document.activeElement !== focused; // an element that is moved in the page loses it
  if (lostKeyboard) {
    focused.focus({ preventScroll: true });
    return;
  }
  // `arrows` makes the element with the keyboard the stop of the tab key; the new drawing may have named another one.
  // It hears of the keyboard by this event, which no browser sends where the keyboard stayed.
  focused.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
}

// Moves the keyboard to the element with this key. If there is none, to the first one of its kind: the kind of
// "bar:0:17" is "bar:0:", what stands before its last part.
function follow(box, key) {
  const same = box.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (same) {
    same.focus({ preventScroll: true });
    return;
  }
  const kind = key.slice(0, key.lastIndexOf(":") + 1);
  if (kind === "") return;
  const alike = box.querySelector(`[data-key^="${CSS.escape(kind)}"]`);
  alike?.focus({ preventScroll: true });
}

// What two nodes have in common if one may take the part of the other.
function identity(node) {
  if (!(node instanceof Element)) return node.nodeName;
  const kind = node.redraw ? "figure" : "box"; // a figure has a drawing of its own, other boxes have contents
  return `${node.nodeName} ${kind} ${node.dataset.key ?? ""}`;
}

// Makes `nodes`, or the old children that stand for them, the children of `parent`.
function place(parent, nodes) {
  const waiting = childrenByIdentity(parent, new Set(nodes));
  const next = [];
  for (const node of nodes) {
    const old = oldOf(node, parent, waiting);
    if (old !== undefined) takeFrom(node, old);
    next.push(old ?? node);
  }
  const staying = new Set(next);
  // Those that go, go first: the others then mostly stand in their order, and need not be moved. An element that is
  // moved in the page loses the keyboard.
  for (const child of [...parent.childNodes]) {
    if (!staying.has(child)) child.remove();
  }
  let at = parent.firstChild;
  for (const node of next) {
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
}

// The old child that stands for a new node, taken out of `waiting`; undefined if there is none.
function oldOf(node, parent, waiting) {
  const isPlacedAsItIs = node.lasting || node.parentNode === parent;
  if (isPlacedAsItIs) return undefined;
  const alike = waiting.get(identity(node)) ?? [];
  return alike.shift();
}

// The old children that may stand for a new node, in lists by identity.
function childrenByIdentity(parent, placedAgain) {
  const lists = new Map();
  for (const child of parent.childNodes) {
    if (child.lasting || placedAgain.has(child)) continue;
    const key = identity(child);
    if (!lists.has(key)) lists.set(key, []);
    lists.get(key).push(child);
  }
  return lists;
}

// Gives `old` the attributes, handlers and contents of `node`.
function takeFrom(node, old) {
  if (!(node instanceof Element)) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  takeAttributes(node, old);
  takeHandlers(node, old);
  if (old.redraw) {
    old.redraw(node.drawing);
    return;
  }
  const names = PROPERTIES.filter((name) => name in old);
  const wanted = names.map((name) => [name, node[name]]); // read first: a <select> loses its value with its options
  place(old, [...node.childNodes]);
  if (isTypedIn(old)) return;
  for (const [name, value] of wanted) if (old[name] !== value) old[name] = value;
}

function takeAttributes(node, old) {
  for (const { name, value } of node.attributes) {
    if (OF_A_PERSON.includes(name)) continue;
    if (name === "style") old.style.cssText = value; // the page's policy forbids to set the attribute
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const isGone = !node.hasAttribute(name) && !OF_A_PERSON.includes(name);
    if (isGone) old.removeAttribute(name);
  }
}

function takeHandlers(node, old) {
  const handlers = node.handlers ?? {};
  for (const name of Object.keys(old.handlers ?? {})) old[name] = null;
  Object.assign(old, handlers);
  old.handlers = handlers;
}

// Whether a person may be typing in a box, whose text then stays.
function isTypedIn(element) {
  const takesText = element.matches("textarea, input:not([type=checkbox], [type=range], [type=file])");
  return takesText && element === document.activeElement;
}
