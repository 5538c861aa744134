// "Save": what a card shows as a file, in JSON, as a table (CSV), and as a picture that says what it is of.
import { h } from "./drawing/dom.js";
import { picture, png } from "./drawing/picture.js";
import { lasting } from "./drawing/update.js";
import { closing } from "./menus.js";

const UNTIL_SAVED = 10_000; // milliseconds for which a browser may read a file that it was given

// The menu of a card. The functions are called when a file is wanted.
// rows   () => the rows of the CSV, its heads first; without it there is no CSV
// data   () => the object of the JSON; without it there is no JSON
// of     () => lines that say what the figures are of; without it there is no picture
// part   such as "32 of 300 pairs" where the answer is not complete; it ends the files' names
export function saveMenu(name, { rows, data, of, part = "" }) {
  const words = ["unmask", name, ...part.split(/[^\p{L}\p{N}]+/u)];
  const called = words.filter(Boolean).join("-");
  const problem = lasting(h("div", {})); // `update` places this one as it is: the buttons write into it

  const item = (kind, contentOf) => {
    const onclick = async ({ currentTarget: button }) => {
      try {
        save(`${called}.${kind}`, await contentOf(button.closest("section.card")));
        button.closest("details").open = false;
        problem.replaceChildren();
      } catch (error) { // such as a picture that is too large for a canvas
        const line = `The file could not be made: ${error.message}`;
        problem.replaceChildren(h("p", { class: "error", role: "alert" }, line));
      }
    };
    return h("button", { type: "button", onclick }, kind.toUpperCase());
  };

  const pictureOf = (card) => {
    const lines = [...of(), part].filter(Boolean);
    return picture(card, card.querySelector("h2").textContent, lines);
  };
  const items = [];
  if (data) items.push(item("json", () => blob(`${JSON.stringify(data(), null, 1)}\n`, "application/json")));
  if (rows) items.push(item("csv", () => blob(csv(rows()), "text/csv")));
  if (of) items.push(item("svg", (card) => blob(pictureOf(card).source, "image/svg+xml")));
  if (of) items.push(item("png", (card) => png(pictureOf(card))));
  const summary = h("summary", { "aria-label": `Save ${name} as a file` }, "Save");
  return closing(h("details", { class: "take" }, summary, h("div", {}, items, problem)));
}

// Rows of values as CSV (RFC 4180).
function csv(rows) {
  const lines = rows.map((row) => row.map(quoted).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  const needsQuotes = /[",\r\n]/.test(text);
  return needsQuotes ? `"${text.replaceAll('"', '""')}"` : text;
}

const blob = (content, type) => new Blob([content], { type });

// Gives the browser a file to save.
function save(name, content) {
  const address = URL.createObjectURL(content);
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), UNTIL_SAVED);
}
