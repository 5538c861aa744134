// Elements in one expression. Text is always set as text, so that nothing a model or a user writes is read as markup.
const SVG = "http://www.w3.org/2000/svg";
const ATTRIBUTES = ["list"]; // whose properties cannot be set
const SAID_AS_FALSE = ["spellcheck"]; // left out they are true

// An element with properties, attributes, handlers (on...) and variables of its style (--...). A property that is
// null, undefined or false is left out; so is such a child. Children may be nested lists.
export const h = (tag, props, ...children) => filled(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => filled(document.createElementNS(SVG, tag), props, children);

// A place in a drawing, to a tenth of a pixel.
export const px = (x) => Math.round(10 * x) / 10;

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    const isFalse = value === false && !SAID_AS_FALSE.includes(name);
    const isLeftOut = value === null || value === undefined || isFalse;
    if (!isLeftOut) setProperty(element, name, value);
  }
  const isThere = (child) => child !== null && child !== undefined && child !== false;
  element.append(...children.flat(Infinity).filter(isThere));
  return element;
}

function setProperty(element, name, value) {
  if (name.startsWith("on")) {
    element.handlers = { ...element.handlers, [name]: value }; // for `update`
    element[name] = value;
    return;
  }
  if (name.startsWith("--")) {
    element.style.setProperty(name, value);
    return;
  }
  const hasProperty = element instanceof HTMLElement && name in element && !ATTRIBUTES.includes(name);
  if (hasProperty) element[name] = value;
  else element.setAttribute(name, value === true ? "" : value);
}
