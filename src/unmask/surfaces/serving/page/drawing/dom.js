// Elements in one expression. Text is always set as text, so that nothing a model or a user writes is read as markup.
import { update } from "./update.js";

const SVG = "http://www.w3.org/2000/svg";

function setProperty(element, name, value) {
  const isAttribute = element instanceof SVGElement || name.includes("-") || name === "list" || !(name in element);
  if (name.startsWith("on")) {
    element.handlers = { ...element.handlers, [name]: value };
    element[name] = value;
  } else if (name.startsWith("--")) element.style.setProperty(name, value);
  else if (isAttribute) element.setAttribute(name, value === true ? "" : value);
  else element[name] = value;
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    const isLeftOut = value === null || value === undefined || (value === false && name !== "spellcheck");
    if (!isLeftOut) setProperty(element, name, value);
  }
  const isThere = (child) => child !== null && child !== undefined && child !== false;
  element.append(...children.flat(Infinity).filter(isThere));
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

// Probabilities from a millionth on in percent, smaller ones by their power of ten.
export function percent(p) {
  if (p >= 0.0995) return `${(100 * p).toFixed(0)} %`;
  if (p >= 0.00095) return `${(100 * p).toFixed(1)} %`;
  if (p >= 0.00001) return `${(100 * p).toPrecision(1)} %`;
  if (!(p > 0)) return "0 %";
  const [digit, power] = p.toExponential(0).split("e-");
  return `${digit}·10⁻${[...power].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("")}`;
}
// Infinities come as the words "Infinity" and "-Infinity", which Number reads.
export const probability = (logProb) => Math.exp(Number(logProb)) || 0;
export function nats(value, digits = 2) {
  const number = Number(value);
  if (value === null || value === undefined || Number.isNaN(number)) return "–";
  if (!Number.isFinite(number)) return number < 0 ? "−∞" : "∞";
  return number.toFixed(digits).replace(/^-(0\.?0*)$/, "$1"); // no minus before a zero
}
export const shown = (token) => token.trim() || "␣";

// The direction that a text is written in, by its first letter.
export const direction = (text) => (/^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u.test(text) ? "rtl" : "ltr");

// A text with some stretches marked: [[start, end], ...] in characters. Of a long one, what is around them.
export function marked(text, spans, around = 9, long = 90) {
  const points = [...text];
  const cut = (from, to, first, last) => {
    const piece = points.slice(from, to);
    if (points.length <= long || piece.length <= 2 * around + 2) return piece.join("");
    return `${first ? "" : piece.slice(0, around).join("")}\u2060…\u2060${last ? "" : piece.slice(-around).join("")}`;
  };
  const parts = [];
  let end = 0;
  for (const [start, stop] of [...spans].sort((a, b) => a[0] - b[0])) {
    parts.push(cut(end, start, end === 0, false), h("mark", {}, points.slice(start, stop).join("")));
    end = stop;
  }
  return [...parts, cut(end, points.length, false, true)];
}

export const clipped = (text, room, size) => {
  let short = text;
  while (short.length > 1 && wide(short + (short === text ? "" : "…"), size) > room) short = short.slice(0, -1);
  return short === text ? text : `${short}…`;
};

export function select(label, value, options, change) {
  const offered = options.map(([name, text, title]) =>
    h("option", { value: name, selected: name === value, title }, text));
  const onchange = ({ currentTarget }) => change(currentTarget.value);
  return h("label", {}, label, h("select", { "aria-label": label, "data-key": `select:${label}`, onchange }, offered));
}

// A number in bounds. What is outside them is not taken, and said so.
export function number(label, value, range, change) {
  const onchange = ({ currentTarget: box }) => {
    const isRight = box.checkValidity() && box.value !== "";
    const bounds = `${range.min} to ${range.max.toLocaleString("en")}`;
    box.nextElementSibling.textContent = isRight ? "" : `${bounds}: ${value} is used`;
    if (isRight) change(Number(box.value));
  };
  return h("label", {}, label,
    h("input", { type: "number", value, ...range, "data-key": `number:${label}`, onchange }),
    h("small", { class: "refused", role: "alert" }));
}

export function choices(label, value, options, change) {
  const buttons = options.map(([name, text, title]) => h("button", {
    type: "button", "aria-pressed": String(name === value), "data-key": `${label}:${name}`, title,
    onclick: () => change(name),
  }, text));
  return h("div", { class: "group", role: "group", "aria-label": label }, buttons);
}

// The width of a text in pixels, as SVG draws it in this size.
let pen = null;
export function wide(text, size = 13) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
  return pen.measureText(text).width;
}

// A figure that is drawn again when its place becomes wider or narrower: draw(width) gives an SVG.
export function figure(draw, label) {
  const box = h("div", { class: "figure", role: "group", "aria-label": label });
  let width = 0;
  box.drawing = draw;
  box.redraw = (next = box.drawing) => {
    box.drawing = next;
    if (!width) return;
    update(box, next(width));
    box.tabIndex = box.scrollWidth > box.clientWidth + 1 ? 0 : -1;
  };
  new ResizeObserver(() => {
    const now = Math.floor(box.clientWidth);
    if (!now || now === width) return;
    width = now;
    box.redraw();
  }).observe(box);
  return box;
}
