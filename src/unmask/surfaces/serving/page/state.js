// The address is the state: #/view?name=value. A value that is the default is left out.
//
// The sentence (text, blanks and second text) is an exception, for its parts belong together:
//
// - If all three parts are those of the view's example, the address has none of them.
// - Else the address has the text, even if it is the example's, and each of the other two that is not empty.
//
// So if the address has a text, what it leaves out of the sentence is empty, and not that of the example.
const SENTENCE = ["text", "blanks", "second"]; // `second` is a second text, of the view of scores
const OF_ONE_TEXT = ["second", "pin", "cell", "pair", "at"]; // mean nothing for another text
const OF_ONE_MODEL = ["pin", "cell", "pair", "at"]; // are of the tokens of one model
const CARRIED = ["text", "blanks", "pin"]; // go along to the other views
const WITHOUT_SENTENCE = ["batch"]; // views
const FIRST_VIEW = "fill"; // where an address without a view leads, and the brand
const DEFAULT_MODELS = { model: "0", beside: "" };

// ---- the address ----

// Numbers, as texts, of the model that is asked and of the one beside it: part of every address where they are not the
// default. main.js sets them.
export const models = { ...DEFAULT_MODELS };

export function read() {
  const said = location.hash.replace(/^#\/?/, "");
  const mark = said.indexOf("?"); // the first one: a text may have a question mark, too
  const path = mark < 0 ? said : said.slice(0, mark);
  const query = mark < 0 ? "" : said.slice(mark + 1);
  const all = { ...DEFAULT_MODELS, ...Object.fromEntries(new URLSearchParams(query)) };
  const values = without(all, ["model", "beside"]);
  return { view: path || FIRST_VIEW, values, model: all.model, beside: all.beside };
}

export function address(view, values) {
  const query = new URLSearchParams(values);
  for (const [name, number] of Object.entries(models)) {
    if (number !== DEFAULT_MODELS[name]) query.set(name, number);
  }
  const said = String(query);
  return said ? `#/${view}?${said}` : `#/${view}`;
}

// ---- what the views remember ----

const remembered = new Map(); // the values of each view that was open, by its name
let carried = null; // the sentence of the last view that has one, by the names of CARRIED; null if it is its example

// The values of a view without those that mean nothing for another model; what the other views remember is forgotten.
export function forAnotherModel(values) {
  remembered.clear();
  if (carried) carried.pin = "";
  return without(values, OF_ONE_MODEL);
}

// The values of a view that is not open: those that it had, with the sentence that is carried along.
function valuesOfOther(view) {
  const own = remembered.get(view) ?? {};
  if (carried === null || WITHOUT_SENTENCE.includes(view)) return { ...own };
  const isSameSentence = own.text === carried.text && (own.blanks ?? "") === carried.blanks;
  const replaced = isSameSentence ? CARRIED : [...CARRIED, ...OF_ONE_TEXT];
  const values = { ...without(own, replaced), text: carried.text };
  if (carried.blanks !== "") values.blanks = carried.blanks;
  if (carried.pin !== "") values.pin = carried.pin;
  return values;
}

// ---- the state of one view ----

// save() is a step of the browser's history. With the reason "typing" it replaces the step before if that was one of
// typing; with "quiet" it replaces any.
export class Address {
  // about      the model. If it is the one beside (`second`), its view reads the address and never writes it.
  // values     those of the address, as texts
  // defaults   by name; a value of the address is taken as the kind of its default
  // allowed    by name, the values that there are; in the place of any other stands the default
  constructor(about, view, values, defaults, allowed = {}) {
    this.second = about.second;
    this.view = view;
    this.defaults = defaults;
    this.state = withDefaults(values, defaults);
    this.lastReason = "";
    for (const [name, choices] of Object.entries(allowed)) {
      if (!choices.includes(this.state[name])) this.state[name] = defaults[name];
    }
    this.#remember(values);
  }

  save(reason = "") {
    if (this.second) return;
    const values = {};
    for (const [name, value] of Object.entries(this.state)) {
      if (this.#isSaid(name, value)) values[name] = String(value);
    }
    this.#remember(values);
    const next = address(this.view, values);
    if (next === location.hash) return;
    const goesOn = reason === "typing" && this.lastReason === "typing";
    if (goesOn || reason === "quiet") history.replaceState(null, "", next);
    else history.pushState(null, "", next);
    if (reason !== "quiet") this.lastReason = reason; // a quiet one is no step: typing goes on after it
    dispatchEvent(new Event("asked")); // for the view of the second model
  }

  // Whether the address has to say a value.
  #isSaid(name, value) {
    const isOfSentence = SENTENCE.includes(name);
    if (!isOfSentence) return String(value) !== String(this.defaults[name]);
    if (this.#isExample) return false;
    return name === "text" || value !== "";
  }

  get #isExample() {
    return SENTENCE.every((name) => this.state[name] === this.defaults[name]);
  }

  // Keeps the values of this view for when it is opened again, and its sentence for the links to the others.
  #remember(values) {
    if (this.second) return;
    remembered.set(this.view, values);
    if ("text" in this.state) this.#carry();
    for (const link of document.querySelectorAll("nav a, a.brand")) {
      const view = link.dataset.view ?? FIRST_VIEW; // the brand is no view
      const isOwn = view === this.view;
      link.href = address(view, isOwn ? values : valuesOfOther(view));
    }
  }

  #carry() {
    const { text, blanks = "", pin = "" } = this.state;
    const isUntouched = this.#isExample && pin === "";
    carried = isUntouched ? null : { text, blanks, pin };
  }
}

// Values from the address over defaults.
function withDefaults(values, defaults) {
  const state = { ...defaults };
  if ("text" in values) {
    for (const name of SENTENCE) if (name in defaults) state[name] = "";
  }
  for (const [name, usual] of Object.entries(defaults)) {
    if (name in values) state[name] = asKindOf(usual, values[name]);
  }
  return state;
}

// A value of the address as the default's kind; the default where it is none of that kind.
function asKindOf(usual, value) {
  if (typeof usual === "boolean") {
    if (value === "true") return true;
    return value === "false" ? false : usual;
  }
  if (typeof usual !== "number") return value;
  return isNumber(value) ? Number(value) : usual;
}

// Whether a text is a number; spaces alone would be 0.
export const isNumber = (text) => /\S/.test(text) && Number.isFinite(Number(text));

const without = (values, names) => Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
