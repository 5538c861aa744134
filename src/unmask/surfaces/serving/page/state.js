// The address is the state: #/view?name=value. What is the default is left out; empty is a value.
const SENTENCE = ["text", "blanks", "second"];
const OF_ONE_TEXT = ["second", "pin", "cell", "pair", "at"];
const remembered = new Map();
let carried = null;

// Numbers of the model that is asked, and of the one beside it: part of every address where they are not the default.
export const models = { model: "0", beside: "" };

export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const { model = "0", beside = "", ...values } = Object.fromEntries(new URLSearchParams(query));
  return { view: path || "fill", values, model, beside };
}

export function address(view, values) {
  const chosen = Object.entries(models).filter(([name, value]) => value !== { model: "0", beside: "" }[name]);
  const query = String(new URLSearchParams({ ...values, ...Object.fromEntries(chosen) }));
  return `#/${view}${query && `?${query}`}`;
}

// A value of the address as the default's kind; the default where it is none of that kind.
function asKind(value, usual) {
  if (typeof usual === "boolean") return value === "true";
  if (typeof usual !== "number") return value;
  return value !== "" && Number.isFinite(Number(value)) ? Number(value) : usual;
}

// Values from the address over defaults. A text that is given has no blanks but those given with it.
function typed(values, defaults) {
  const found = { ...defaults };
  if ("text" in values) for (const name of SENTENCE) if (name in defaults) found[name] = "";
  for (const [name, usual] of Object.entries(defaults)) if (name in values) found[name] = asKind(values[name], usual);
  return found;
}

// The state of one view. save() is a step of the history; typing goes on with the step before, and "quiet" is no step.
export class Address {
  // The views of a second model read the address, and leave it alone. allowed: {name: values}; any other is the
  // default.
  constructor(about, view, values, defaults, allowed = {}) {
    Object.assign(this, { second: about.second, view, defaults, state: typed(values, defaults), last: "" });
    for (const [name, some] of Object.entries(allowed)) {
      if (!some.includes(this.state[name])) this.state[name] = defaults[name];
    }
    this.#remember(values);
  }

  get #isExample() { return SENTENCE.every((name) => this.state[name] === this.defaults[name]); }

  // Whether the address has to say a value: an example and defaults go without saying.
  #isSaid(name, value) {
    if (!SENTENCE.includes(name)) return String(value) !== String(this.defaults[name]);
    return !this.#isExample && (value !== "" || name === "text");
  }

  save(reason = "") {
    if (this.second) return;
    const kept = Object.entries(this.state).filter(([name, value]) => this.#isSaid(name, value));
    const values = Object.fromEntries(kept.map(([name, value]) => [name, String(value)]));
    this.#remember(values);
    const next = address(this.view, values);
    if (next === location.hash) return;
    const goesOn = reason === "quiet" || (reason === "typing" && this.last === "typing");
    if (goesOn) history.replaceState(null, "", next);
    else history.pushState(null, "", next);
    if (reason !== "quiet") this.last = reason;
    dispatchEvent(new Event("asked"));
  }

  // The sentence, its blanks and its pin go along to the other views; each view keeps the rest of what it was asked.
  #remember(values) {
    if (this.second) return;
    remembered.set(this.view, values);
    if ("text" in this.state) {
      const { text, blanks = "", pin = "" } = this.state;
      carried = this.#isExample && !pin ? null : { text, blanks, pin };
    }
    for (const link of document.querySelectorAll("nav a, a.brand")) {
      const view = link.dataset.view ?? "fill";
      link.href = address(view, view === this.view ? values : along(view));
    }
  }
}

function along(view) {
  const own = { ...remembered.get(view) };
  if (!carried || view === "batch") return own;
  const isOther = own.text !== carried.text || (own.blanks ?? "") !== carried.blanks;
  if (isOther) for (const name of OF_ONE_TEXT) delete own[name];
  const kept = Object.entries(carried).filter(([name, value]) => name === "text" || value !== "");
  delete own.blanks;
  delete own.pin;
  return { ...own, ...Object.fromEntries(kept) };
}
