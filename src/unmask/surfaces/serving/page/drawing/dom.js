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
export const nats = (value, digits = 2) => (value === null || value === undefined || Number.isNaN(Number(value)) ? "–" : Number.isFinite(Number(value)) ? Number(value).toFixed(digits).replace(/^-(0\.?0*)$/, "$1") : value < 0 ? "−∞" : "∞");
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
  const box = h("select", { "aria-label": label, "data-key": `select:${label}`, onchange: () => change(box.value) }, options.map(([name, text, title]) => h("option", { value: name, selected: name === value, title }, text)));
  return h("label", {}, label, box);
}

// A number in bounds. What is outside them is not taken, and said so.
export function number(label, value, range, change) {
  const said = h("small", { class: "refused", role: "alert" });
  const box = h("input", { type: "number", value, ...range, "data-key": `number:${label}`, onchange: () => {
    const right = box.checkValidity() && box.value !== "";
    said.textContent = right ? "" : `${range.min} to ${range.max.toLocaleString("en")}: ${value} is used`;
    if (right) { value = Number(box.value); change(value); }
  } });
  return h("label", {}, label, box, said);
}

export function choices(label, value, options, change) {
  return h("div", { class: "group", role: "group", "aria-label": label }, options.map(([name, text, title]) =>
    h("button", { type: "button", "aria-pressed": String(name === value), "data-key": `${label}:${name}`, title, onclick: () => change(name) }, text)));
}

// The width of a text in pixels, as SVG draws it in this size.
let pen = null;
export function wide(text, size = 13) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = `${size}px system-ui, "DejaVu Sans", sans-serif`;
  return pen.measureText(text).width;
}

// The data-key of what had the keyboard, while its figure is not drawn yet.
export const waiting = { key: null };

// A figure that is drawn again when its place becomes wider or narrower: draw(width) gives an SVG.
export function figure(draw, label) {
  const box = h("div", { class: "figure", role: "group", "aria-label": label });
  let before = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (!width || width === before) return;
    before = width;
    const at = box.contains(document.activeElement) ? document.activeElement.dataset.key : document.activeElement === document.body ? waiting.key : null;
    box.replaceChildren(draw(width));
    box.tabIndex = box.scrollWidth > box.clientWidth + 1 ? 0 : -1;
    const to = at && box.querySelector(`[data-key="${CSS.escape(at)}"]`);
    if (to) { to.focus({ preventScroll: true }); waiting.key = null; }
  }).observe(box);
  return box;
}
