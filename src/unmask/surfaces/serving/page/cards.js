// Cards: a heading, a body, and files to take away: JSON, CSV, and the figures as pictures that say what they are of.
import { h, svg } from "./drawing/dom.js";

// Rows of values, the first one the names of the columns.
export const csv = (rows) => rows.map((row) => row.map((value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\r\n") + "\r\n";

function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// What a style sheet says of a figure, and its file has to say itself.
const DRAWN = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "font-family",
  "text-anchor",
];
const [MARGIN, LINE] = [16, 18];

// Any colour as #rrggbb and an opacity, which every program reads.
function plain(css) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.fillStyle = css;
  pen.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
  return [`#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`, a / 255];
}

// The figures of a card as one SVG that stands alone, under its heading and the lines that say what they are of.
function picture(card, lines) {
  const figures = [...card.querySelectorAll(".figure svg")];
  const width = Math.max(360, ...figures.map((one) => Number(one.getAttribute("width")))) + 2 * MARGIN;
  const style = getComputedStyle(card);
  const ink = { fill: plain(style.color)[0], "font-family": "sans-serif" };
  const fits = (line) => line.match(new RegExp(`.{1,${Math.floor(width / 7)}}(\\s|$)|\\S+`, "g")) ?? [];
  const head = [card.querySelector("h2").textContent, ...lines.filter(Boolean)].flatMap(fits);
  const ground = svg("rect", { width: "100%", height: "100%", fill: plain(style.backgroundColor)[0] });
  const font = (n) => ({ "font-size": n ? 13 : 16, "font-weight": n ? 400 : 600, ...ink });
  const texts = head.map((line, n) => svg(
    "text", { x: MARGIN, y: MARGIN + (n + 0.7) * LINE, ...font(n) }, line.trim()));
  const out = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width }, ground, texts);
  let y = MARGIN + (head.length + 0.5) * LINE;
  for (const one of figures) {
    const copy = one.cloneNode(true);
    const originals = [one, ...one.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, n) => {
      const computed = getComputedStyle(originals[n]);
      for (const name of DRAWN) {
        const value = computed.getPropertyValue(name);
        const colour = (name === "fill" || name === "stroke") && value !== "none" ? plain(value) : null;
        element.setAttribute(name, colour ? colour[0] : value);
        if (colour && colour[1] < 1) element.setAttribute(`${name}-opacity`, colour[1].toFixed(3));
      }
      for (const name of ["class", "style", "role", "tabindex"]) element.removeAttribute(name);
    });
    copy.setAttribute("x", MARGIN);
    copy.setAttribute("y", y);
    y += Number(one.getAttribute("height")) + MARGIN;
    out.append(copy);
  }
  out.setAttribute("height", y);
  return { source: new XMLSerializer().serializeToString(out), width, height: y };
}

async function png({ source, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
  await image.decode();
  const canvas = new OffscreenCanvas(Math.ceil(2 * width), Math.ceil(2 * height));
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.drawImage(image, 0, 0, width, height);
  return canvas.convertToBlob({ type: "image/png" });
}

// A menu that Escape, and a click elsewhere, closes.
export function closing(box) {
  box.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape") return;
    box.open = false;
    box.querySelector("summary").focus();
  });
  box.addEventListener("toggle", () => {
    const look = ({ target }) => { box.open = box.contains(target); };
    if (box.open) addEventListener("pointerdown", look, { once: true });
  });
  box.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !box.contains(relatedTarget)) box.open = false;
  });
  return box;
}

// `rows` and `data` are functions, and are called when a file is wanted; `of`: lines that say what the figures are of.
// `part`: "32 of 300 pairs" where the answer is not complete; it is part of the files' names.
function menu(name, { rows, data, of, part = "" }) {
  const called = `unmask-${name}${part && `-${part.replaceAll(/[ ,]/g, "-")}`}`;
  const item = (kind, make) => h("button", { type: "button", onclick: async ({ currentTarget: button }) => {
    const content = await make(button.closest("section.card"));
    save(`${called}.${kind}`, ...content);
    button.closest("details").open = false;
  } }, kind.toUpperCase());
  const drawn = (card) => picture(card, [...of(), part]);
  const items = [];
  if (data) items.push(item("json", () => [`${JSON.stringify(data(), null, 1)}\n`, "application/json"]));
  if (rows) items.push(item("csv", () => [csv(rows()), "text/csv"]));
  if (of) items.push(item("svg", (card) => [drawn(card).source, "image/svg+xml"]));
  if (of) items.push(item("png", async (card) => [await png(drawn(card))]));
  return closing(h("details", { class: "take" }, h("summary", { "aria-label": `Save ${name} as a file` }, "Save"),
    h("div", {}, items)));
}

export function card({ title, name, label, kind = "", tools = [], ...files }, ...body) {
  return h("section", { class: `card ${kind}`.trim(), "aria-label": label ?? title, "data-key": `card:${name}` },
    h("header", {}, h("h2", {}, title), tools.length ? h("div", { class: "tools" }, tools) : null,
      files.rows || files.data ? menu(name, files) : null),
    files.part ? h("p", { class: "part" }, `${files.part}; stopped before the rest.`) : null, ...body);
}

// "Copy link", "Copy as Python" and "Copy as command": the same question, outside of this tab. `lines` asks for
// {python, command}. What was copied is shown as well, for where copying is barred.
export function copying(lines) {
  const text = h("pre", { hidden: true, tabIndex: 0, role: "region", "aria-label": "what was copied" });
  const said = h("span", { role: "status" });
  const copy = async (make) => {
    try {
      text.textContent = await make();
    } catch (error) {
      said.textContent = error.message;
      return;
    }
    text.hidden = false;
    try {
      await navigator.clipboard.writeText(text.textContent);
      said.textContent = "Copied:";
    } catch {
      said.textContent = "Copy it from here:";
    }
  };
  const button = (label, make) => h("button", { type: "button", onclick: () => copy(make) }, label);
  return h("div", { class: "copying" },
    button("Copy link", () => location.href),
    button("Copy as Python", async () => (await lines()).python),
    button("Copy as command", async () => (await lines()).command), said, text);
}
