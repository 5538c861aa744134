// Elements in one expression. Text is always set as text, so that nothing a model or a user writes is read as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || (value === false && name !== "spellcheck")) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (name in element && !(element instanceof SVGElement) && !name.includes("-") && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

export const percent = (p) => (p >= 0.0995 ? `${(100 * p).toFixed(0)} %` : p >= 0.00095 ? `${(100 * p).toFixed(1)} %` : p > 0 ? `${(100 * p).toPrecision(1)} %` : "0 %");
export const percentAtLeast = (p) => (p >= 1 ? "100 %" : p >= 0.001 ? `${(Math.floor(1000 * p * (1 - 1e-12)) / 10).toFixed(1)} %` : "0 %");
// Infinities come as the words "Infinity" and "-Infinity", which Number reads.
export const probability = (logProb) => Math.exp(Number(logProb)) || 0;
export const nats = (value, digits = 2) => (value === null || value === undefined || Number.isNaN(Number(value)) ? "–" : Number.isFinite(Number(value)) ? Number(value).toFixed(digits).replace(/^-(0\.?0*)$/, "$1") : value < 0 ? "−∞" : "∞");
export const shown = (token) => token.trim() || "␣";

// A text with some stretches marked: [[start, end], ...] in characters.
export function marked(text, spans) {
  const parts = [];
  let end = 0;
  for (const [start, stop] of [...spans].sort((a, b) => a[0] - b[0])) {
    parts.push(text.slice(end, start), h("mark", {}, text.slice(start, stop)));
    end = stop;
  }
  return [...parts, text.slice(end)];
}

export function select(label, value, options, change) {
  const box = h("select", { "aria-label": label, onchange: () => change(box.value) }, options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)));
  return h("label", {}, label, box);
}

export function number(label, value, range, change) {
  const box = h("input", { type: "number", value, ...range, onchange: () => box.checkValidity() && box.value !== "" && change(Number(box.value)) });
  return h("label", {}, label, box);
}

export function choices(label, value, options, change) {
  return h("div", { class: "group", role: "group", "aria-label": label }, options.map(([name, text]) =>
    h("button", { type: "button", "aria-pressed": String(name === value), onclick: () => change(name) }, text)));
}

// What is under way, told to screen readers too: a line, with a bar where the amount is known.
export class Status {
  constructor() {
    this.line = h("span", {});
    this.bar = h("progress", { max: 1, hidden: true, "aria-label": "progress" });
    this.element = h("div", { class: "status", role: "status" }, this.line, this.bar);
  }
  say(text, share = null) {
    this.line.textContent = text;
    this.bar.hidden = share === null;
    if (share !== null) this.bar.value = share;
  }
}

export const failure = (error) => h("p", { class: "error", role: "alert" }, error.message);
