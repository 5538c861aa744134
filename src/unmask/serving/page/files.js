// Files to take away: JSON, CSV, and pictures of what is shown.
import { asPng, asSvg } from "./picture.js";
import { h } from "./drawing/dom.js";

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

// A menu of the files of one card; `rows` and `data` are functions, and are called when a file is wanted.
function menu(name, card, { rows, data, picture = true }) {
  const item = (kind, make) => h("button", { type: "button", onclick: async () => { save(`unmask-${name}.${kind}`, ...(await make())); box.open = false; } }, kind.toUpperCase());
  const box = h("details", { class: "take" }, h("summary", { "aria-label": `take ${name} away as a file` }, "Save"), h("div", {},
    data ? item("json", () => [`${JSON.stringify(data(), null, 1)}\n`, "application/json"]) : null,
    rows ? item("csv", () => [csv(rows()), "text/csv"]) : null,
    picture ? item("svg", () => [asSvg(card()), "image/svg+xml"]) : null,
    picture ? item("png", async () => [await asPng(card())]) : null));
  box.addEventListener("keydown", (event) => { if (event.key === "Escape") { box.open = false; box.querySelector("summary").focus(); } });
  return box;
}

// A card with a heading, and its files.
export function card({ title, name, label, kind = "", tools = [], ...files }, ...body) {
  const made = h("section", { class: `card ${kind}`.trim(), "aria-label": label ?? title },
    h("header", {}, h("h2", {}, title), tools.length ? h("div", { class: "tools" }, tools) : null, menu(name, () => made, files)), ...body);
  return made;
}
