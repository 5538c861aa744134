// Cards: a heading, a body, and files to take away. Below the cards the question can be copied.
import { h } from "./drawing/dom.js";
import { saveMenu } from "./saving.js";

// A card, with a "Save" menu if there is something to save.
// title   the heading
// label   its name for readers of screens, where that is not the heading
// name    of the card in this view, and of its files
// kind    its class, besides "card"
// tools   controls beside the heading
// files   {rows, data, of, part} of `saveMenu`; a `part` is what there was when the question was stopped
export function card({ title, label = title, name, kind = "", tools = [], ...files }, ...body) {
  const isSaved = Boolean(files.rows || files.data || files.of);
  const beside = tools.length > 0 ? h("div", { class: "tools" }, tools) : null;
  const menu = isSaved ? saveMenu(name, files) : null;
  const header = h("header", {}, h("h2", {}, title), beside, menu);
  const part = files.part ? h("p", { class: "part" }, `${files.part}; stopped before the rest.`) : null;
  const props = { class: `card ${kind}`.trim(), "aria-label": label, "data-key": `card:${name}` };
  return h("section", props, header, part, ...body);
}

// "Copy link", "Copy as Python" and "Copy as command": the same question, outside of this tab.
// ask   () => {python, command}: the question in these words
// What was copied is shown as well, for where copying is barred.
export function copying(ask) {
  const shown = h("pre", { hidden: true, tabIndex: 0, role: "region", "aria-label": "what was copied" });
  const status = h("span", { role: "status" });
  let latest = null; // the copy that was asked for last: an earlier one that comes later is dropped

  const copy = async (textOf) => {
    const own = Symbol("copy");
    latest = own;
    shown.hidden = true;
    status.textContent = "";
    let text;
    try {
      text = await textOf();
    } catch (error) {
      if (latest === own) status.textContent = error.message;
      return;
    }
    if (latest !== own) return;
    shown.textContent = text;
    shown.hidden = false;
    const isAllowed = await isCopied(text);
    if (latest === own) status.textContent = isAllowed ? "Copied:" : "Copy it from here:";
  };

  const button = (label, textOf) => h("button", { type: "button", onclick: () => copy(textOf) }, label);
  return h("div", { class: "copying" },
    button("Copy link", () => location.href),
    button("Copy as Python", async () => (await ask()).python),
    button("Copy as command", async () => (await ask()).command), status, shown);
}

// Copies a text, and says whether the browser allowed it.
async function isCopied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
