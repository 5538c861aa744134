// "Copy as Python" and "copy as command": the same question, outside of the page.
import { h } from "./drawing/dom.js";

const quoted = (text) => JSON.stringify(text);
const shell = (text) => (/^[\w.,:=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function python(value) {
  if (value === true) return "True";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return typeof value === "string" ? quoted(value) : String(value);
}

// {verb, first: [positional], options: {name: value}}, as Python; options that are null are left out.
export function asPython({ verb, first, options }, about) {
  const named = Object.entries({ ...options, model: about.given }).filter(([, v]) => v !== null && v !== undefined && v !== false);
  const inside = [...first.map(python), ...named.map(([n, v]) => `${n}=${python(v)}`)].join(", ");
  return `import unmask\n\nunmask.${verb}(${inside})`;
}

export function asCommand({ verb, first, options, files = {} }, about) {
  const parts = ["unmask", verb, ...first.map(shell)];
  for (const [name, value] of Object.entries({ ...options, model: about.given })) {
    if (value === null || value === undefined || value === false) continue;
    parts.push(`--${name.replaceAll("_", "-")}`);
    if (value !== true) parts.push(shell(Array.isArray(value) ? value.join(",") : String(value)));
  }
  const before = Object.entries(files).map(([name, text]) => `printf '%s\\n' ${text.map(shell).join(" ")} > ${name}`);
  return [...before, parts.join(" ")].join("\n");
}

// The two buttons; `question` is called when one is pressed. What was copied is shown as well, for where copying is barred.
export function copying(about, question) {
  const text = h("pre", { hidden: true, tabIndex: 0, "aria-label": "what was copied" });
  const said = h("span", { role: "status" });
  const copy = (make) => async () => {
    const asked = question();
    text.textContent = make(asked.python && make === asPython ? asked.python : asked.command && make === asCommand ? asked.command : asked, about);
    text.hidden = false;
    try {
      await navigator.clipboard.writeText(text.textContent);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "Copy it from here:";
    }
  };
  return h("div", { class: "copying" },
    h("button", { type: "button", onclick: copy(asPython) }, "Copy as Python"),
    h("button", { type: "button", onclick: copy(asCommand) }, "Copy as command"),
    said, text);
}
