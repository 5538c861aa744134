// What is shown as an SVG that stands alone: boxes, lines and texts where the browser has put them, with colours that every program reads.
const SVG = "http://www.w3.org/2000/svg";
const LEFT_OUT = "details.take, .tools, select, input, [hidden], .readout, .copying";
const SIDES = ["Top", "Right", "Bottom", "Left"];
const known = new Map();

// Any CSS colour as #rrggbb and an opacity; null if nothing is seen.
function colour(css) {
  if (!known.has(css)) {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    known.set(css, a ? { hex: `#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`, opacity: a / 255 } : null);
  }
  return known.get(css);
}

function made(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) element.setAttribute(name, typeof value === "number" ? Number(value.toFixed(2)) : value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const paint = (name, found) => (found ? { [name]: found.hex, [`${name}-opacity`]: found.opacity < 1 ? found.opacity : null } : {});

function boxes(style, { x, y, width, height }, out) {
  const ground = colour(style.backgroundColor);
  if (ground) out.append(made("rect", { x, y, width, height, rx: parseFloat(style.borderTopLeftRadius) || null, ...paint("fill", ground) }));
  const ends = [[x, y, x + width, y], [x + width, y, x + width, y + height], [x, y + height, x + width, y + height], [x, y, x, y + height]];
  SIDES.forEach((side, n) => {
    const [thick, line] = [parseFloat(style[`border${side}Width`]), colour(style[`border${side}Color`])];
    if (!thick || style[`border${side}Style`] === "none" || !line) return;
    const [x1, y1, x2, y2] = ends[n];
    out.append(made("line", { x1, y1, x2, y2, "stroke-width": thick, "stroke-dasharray": style[`border${side}Style`] === "dashed" ? "4 3" : null, ...paint("stroke", line) }));
  });
}

// The words of a text node, those of one line together.
function lines(node) {
  const found = [];
  const range = document.createRange();
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const box = range.getBoundingClientRect();
    if (!box.width) continue;
    const last = found.at(-1);
    if (last && Math.abs(last.box.top - box.top) < 2) Object.assign(last, { text: `${last.text} ${word}`, box: new DOMRect(Math.min(last.box.left, box.left), last.box.top, Math.max(last.box.right, box.right) - Math.min(last.box.left, box.left), last.box.height) });
    else found.push({ text: word, box });
  }
  return found;
}

function write(node, style, frame, out) {
  const common = { ...paint("fill", colour(style.color)), "font-size": parseFloat(style.fontSize), "font-weight": style.fontWeight, "font-family": /mono/i.test(style.fontFamily.split(",")[0]) ? "monospace" : "sans-serif" };
  for (const { text, box } of lines(node)) {
    const [x, y] = [box.left - frame.left, box.top - frame.top];
    if (style.writingMode.startsWith("vertical")) {
      const [across, up] = [x + box.width / 2 + common["font-size"] * 0.35, y + box.height];
      out.append(made("text", { transform: `translate(${across.toFixed(2)} ${up.toFixed(2)}) rotate(-90)`, ...common }, text));
    } else {
      const right = style.direction === "rtl";
      out.append(made("text", { x: right ? x + box.width : x, y: y + box.height / 2 + common["font-size"] * 0.35, direction: right ? "rtl" : null, textLength: box.width, lengthAdjust: "spacingAndGlyphs", ...common }, text));
    }
  }
}

function drawing(element, frame, out) {
  const box = element.getBoundingClientRect();
  const copy = element.cloneNode(true);
  const originals = [element, ...element.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((one, n) => {
    const style = getComputedStyle(originals[n]);
    for (const name of ["fill", "stroke"]) if (style[name] !== "none") Object.entries(paint(name, colour(style[name]))).forEach(([key, value]) => value !== null && one.setAttribute(key, value)); else one.setAttribute(name, "none");
    for (const name of ["stroke-width", "opacity", "font-size", "text-anchor", "stroke-dasharray"]) one.setAttribute(name, style.getPropertyValue(name));
    one.removeAttribute("class");
    one.removeAttribute("style");
  });
  for (const [name, value] of Object.entries({ x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height })) copy.setAttribute(name, value.toFixed(2));
  copy.setAttribute("overflow", "visible");
  out.append(copy);
}

function walk(element, frame, out) {
  if (element.matches(LEFT_OUT)) return;
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden") return;
  if (element instanceof SVGElement) return drawing(element, frame, out);
  const box = element.getBoundingClientRect();
  if (box.width && box.height) boxes(style, { x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height }, out);
  const sign = getComputedStyle(element, "::before");
  if (element.parentElement?.matches(".key") && sign.display !== "none" && parseFloat(sign.width)) {
    const [width, height] = [parseFloat(sign.width), parseFloat(sign.height)];
    boxes(sign, { x: box.left - frame.left, y: box.top - frame.top + (box.height - height) / 2, width, height }, out);
  }
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) write(child, style, frame, out);
    else if (child.nodeType === Node.ELEMENT_NODE) walk(child, frame, out);
  }
}

function picture(element) {
  const frame = element.getBoundingClientRect();
  const [width, height] = [Math.max(frame.width, ...[...element.querySelectorAll(".scroll, .arcs")].map((one) => one.scrollWidth + 40)), frame.height];
  const out = made("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width.toFixed(2)} ${height.toFixed(2)}` });
  out.append(made("title", {}, element.getAttribute("aria-label") ?? "unmask"));
  out.append(made("rect", { width, height, ...paint("fill", colour(getComputedStyle(element).backgroundColor) ?? colour("white")) }));
  walk(element, frame, out);
  return { source: new XMLSerializer().serializeToString(out), width, height };
}

export const asSvg = (element) => picture(element).source;

export async function asPng(element, sharpness = 2) {
  const { source, width, height } = picture(element);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(width * sharpness), Math.ceil(height * sharpness)];
  const context = canvas.getContext("2d");
  context.scale(sharpness, sharpness);
  context.drawImage(image, 0, 0, width, height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}
