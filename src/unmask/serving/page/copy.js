// "Copy link", "Copy as Python" and "Copy as command": the same question, outside of this tab.
import { h } from "./drawing/dom.js";

const quoted = (text) => JSON.stringify(text);
export const shell = (text) => (/^[\w.,:=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function python(value) {
  if (value === true) return "True";
  if (value?.code) return value.code;
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return typeof value === "string" ? quoted(value) : String(value);
}

const given = (options) => Object.entries(options).filter(([, value]) => value !== null && value !== undefined && value !== false);

// A call of unmask's function or class `name`; options that are null are left out.
export const made = (name, first, options) =>
  `unmask.${name}(${[...first.map(python), ...given(options).map(([option, value]) => `${option}=${python(value)}`)].join(", ")})`;

// A call of the function `verb` on the page's model, which `load` makes where it was loaded with options.
export function call(about, verb, first, options = {}) {
  const loaded = { code: made("load", about.given === null ? [] : [about.given], about.options) };
  return made(verb, first, { ...options, model: Object.keys(about.options).length ? loaded : about.given });
}

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
