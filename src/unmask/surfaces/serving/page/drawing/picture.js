// The figures of a card as a picture that stands alone: SVG, or PNG made of it.
import { svg } from "./dom.js";
import { wide } from "./text.js";

// What a style sheet says of a figure, and its file has to say itself.
const PAINTS = ["fill", "stroke"];
const STYLED = [
  "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-weight",
  "font-family", "text-anchor",
];
const OF_THE_PAGE = ["class", "style", "role", "tabindex"]; // attributes that mean nothing in a file
const LEAST_WIDTH = 360; // pixels
const MARGIN = 16; // pixels
const LINE = 18; // pixels of a line of the head
const TITLE = { "font-size": 16, "font-weight": 600 };
const TEXT = { "font-size": 13, "font-weight": 400 };
const FONT = 'system-ui, "DejaVu Sans", sans-serif'; // with which `wide` measures
const BOLD_WIDTH = 1.1; // a bold text is at most 1.1 times as wide as the same text in normal weight
const SHARPNESS = 2; // pixels of a PNG for each pixel of the SVG
const plainColours = new Map(); // by colour of the style sheet

// The figures in `box` as one SVG, under `title` and the lines that say what they are of.
export function picture(box, title, lines) {
  const figures = [...box.querySelectorAll(".figure > svg")];
  const widths = figures.map((figure) => Number(figure.getAttribute("width")));
  const inside = Math.max(LEAST_WIDTH, ...widths);
  const width = inside + 2 * MARGIN;
  const { backgroundColor, color } = getComputedStyle(box);
  const paper = plainColour(backgroundColor);
  const isTransparent = paper.opacity === 0; // the white of the page is then behind the box
  const ground = isTransparent ? "#ffffff" : paper.colour;
  const head = headOf(title, lines, inside, plainColour(color).colour);
  const out = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width },
    svg("rect", { width: "100%", height: "100%", fill: ground }), head);
  let y = MARGIN + (head.length + 0.5) * LINE; // the half line parts the head from the figures
  for (const figure of figures) {
    const copy = styledCopy(figure);
    copy.setAttribute("x", MARGIN);
    copy.setAttribute("y", y);
    y += Number(figure.getAttribute("height")) + MARGIN;
    out.append(copy);
  }
  out.setAttribute("height", y);
  return { source: new XMLSerializer().serializeToString(out), width, height: y };
}

// A picture as the bytes of a PNG.
export async function png({ source, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
  await image.decode();
  const canvas = new OffscreenCanvas(Math.ceil(SHARPNESS * width), Math.ceil(SHARPNESS * height));
  const pen = canvas.getContext("2d");
  pen.scale(SHARPNESS, SHARPNESS);
  pen.drawImage(image, 0, 0, width, height);
  return canvas.convertToBlob({ type: "image/png" });
}

// The title and the lines, folded to a width in pixels.
function headOf(title, lines, width, ink) {
  const large = folded(title, width / BOLD_WIDTH, TITLE["font-size"]);
  const small = lines.flatMap((line) => folded(line, width, TEXT["font-size"]));
  return [...large, ...small].map((text, n) => {
    const style = n < large.length ? TITLE : TEXT;
    const baseLine = MARGIN + (n + 0.7) * LINE; // a letter takes about 0.7 of its line above the base line
    return svg("text", { x: MARGIN, y: baseLine, fill: ink, "font-family": FONT, ...style }, text);
  });
}

// A text in lines that are at most so wide; a word that is wider is cut.
function folded(text, width, size) {
  const lines = [];
  let line = "";
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (wide(longer, size) <= width) {
      line = longer;
      continue;
    }
    if (line !== "") lines.push(line);
    const pieces = cut(word, width, size); // a single piece of a word that fits into a line
    line = pieces.pop(); // the next word may stand beside it
    lines.push(...pieces);
  }
  return line === "" ? lines : [...lines, line];
}

// A word in pieces that are at most so wide.
function cut(word, width, size) {
  const pieces = [];
  let piece = "";
  for (const letter of word) {
    const isFull = piece !== "" && wide(piece + letter, size) > width;
    if (isFull) {
      pieces.push(piece);
      piece = "";
    }
    piece += letter;
  }
  return [...pieces, piece];
}

// A copy of a figure whose elements have their computed style as attributes.
function styledCopy(figure) {
  const copy = figure.cloneNode(true);
  const originals = [figure, ...figure.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  for (const [n, original] of originals.entries()) takeStyle(copies[n], getComputedStyle(original));
  return copy;
}

function takeStyle(element, computed) {
  for (const name of STYLED) element.setAttribute(name, computed.getPropertyValue(name));
  const isUnderlined = computed.getPropertyValue("text-decoration-line") === "underline";
  if (isUnderlined) element.setAttribute("text-decoration", "underline"); // no file has the long name of the page
  for (const name of PAINTS) {
    const value = computed.getPropertyValue(name);
    const isColour = value !== "none" && !value.startsWith("url(");
    if (!isColour) {
      element.setAttribute(name, value);
      continue;
    }
    const { colour, opacity } = plainColour(value);
    element.setAttribute(name, colour);
    if (opacity < 1) element.setAttribute(`${name}-opacity`, opacity);
  }
  for (const name of OF_THE_PAGE) element.removeAttribute(name);
}

// Any colour of a style sheet as #rrggbb and an opacity, which every program reads.
function plainColour(css) {
  if (!plainColours.has(css)) plainColours.set(css, drawnColour(css));
  return plainColours.get(css);
}

// A colour as a canvas draws it.
function drawnColour(css) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.fillStyle = css;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data; // each from 0 to 255
  const digits = [red, green, blue].map((part) => part.toString(16).padStart(2, "0"));
  const thousandths = Math.round((1000 * alpha) / 255);
  return { colour: `#${digits.join("")}`, opacity: thousandths / 1000 };
}
