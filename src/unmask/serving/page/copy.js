// "Copy link", "Copy as Python" and "Copy as command": the same question, outside of this tab.
import { h } from "./drawing/dom.js";

const quoted = (text) => JSON.stringify(text);
export const shell = (text) => (/^[\w.,:=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function python(value) {
  if (value === true) return "True";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return typeof value === "string" ? quoted(value) : String(value);
}

const given = (options) => Object.entries(options).filter(([, value]) => value !== null && value !== undefined && value !== false);

// A call of the function `verb`; options that are null are left out, those of the model are added.
export const call = (about, verb, first, options = {}) =>
  `unmask.${verb}(${[...first.map(python), ...given({ ...options, model: about.given, ...about.options }).map(([name, value]) => `${name}=${python(value)}`)].join(", ")})`;

// The command `verb`, likewise.
export function command(about, verb, first, options = {}) {
  const parts = ["unmask", verb, ...first.map(shell)];
  for (const [name, value] of given({ ...options, model: about.given, ...about.options })) {
    parts.push(`--${name.replaceAll("_", "-")}`);
    if (value !== true) parts.push(shell(Array.isArray(value) ? value.join(",") : String(value)));
  }
  return parts.join(" ");
}

// The buttons; `question` is called when one is pressed, and gives {python, command}. What was copied is shown as well, for where copying is barred.
export function copying(question) {
  const text = h("pre", { hidden: true, tabIndex: 0, "aria-label": "what was copied" });
  const said = h("span", { role: "status" });
  const button = (label, make) => h("button", { type: "button", onclick: async () => {
    text.textContent = make();
    text.hidden = false;
    try {
      await navigator.clipboard.writeText(text.textContent);
      said.textContent = "Copied:";
    } catch {
      said.textContent = "Copy it from here:";
    }
  } }, label);
  return h("div", { class: "copying" },
    button("Copy link", () => location.href),
    button("Copy as Python", () => `import unmask\n\n${question().python}`),
    button("Copy as command", () => question().command),
    said, text);
}
