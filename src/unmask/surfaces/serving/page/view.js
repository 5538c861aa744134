// A view: what is asked of one model, with which options, and how the answer is drawn.
//
//   export default view({ name, title, verb, heading, options, ... })
//
// name       of the view in the address
// title      in the menu
// verb       the operation of the interface that is asked: its options, and what it answers
// heading    (page) => the heading; the sentence beside it is the verb's own
// shown      (about) => whether the menu has it for this model
// hint       (page) => what a person can do with the sentence
// example    the name of the view whose example it opens with; by default its own
// state      (page) => {defaults, allowed}, for what the address has besides the sentence and the verb's options:
//            defaults   the default of each, by its name
//            allowed    the list of values of those that take no others, by name
// options    names of the verb's options that the view offers; their defaults, bounds and choices are the verb's
// sentence   (page) => properties of `Sentence`; null for a view without one, which has its own `body` and `past`
// make       (page) => the functions of the view that differ from what most views do:
//
//   body       () => the request; a text says what is missing for one
//   ask        (question, body) => asks; by default the verb, as a question that may take long
//   above      elements between the sentence and the controls
//   controls   () => elements above the answer
//   cards      (answer) => what is drawn of an answer
//   tell       (answer) => its numbers for the table beside another model, as {by, values}
//   past       () => how the list of past questions names it; null keeps it out of the list
//   leave      () => ends what the view has begun
import { Question } from "./ask.js";
import { copying } from "./cards.js";
import { number, select } from "./drawing/controls.js";
import { h } from "./drawing/dom.js";
import { update } from "./drawing/update.js";
import { remember } from "./past.js";
import { resultCards } from "./result.js";
import { Sentence } from "./sentence.js";
import { Address, isNumber } from "./state.js";

const NO_EXAMPLE = { text: "", blanks: "", second: "" };

// A view with what most views have. Its `open(root, about, values)` returns a function that closes it again.
export function view(spec) {
  const whole = {
    shown: () => true,
    hint: () => "",
    state: () => ({}),
    options: [],
    sentence: () => ({}),
    make: () => ({}),
    ...spec,
  };
  const open = (root, about, values) => {
    const page = new Page(whole, root, about, values);
    page.begin();
    return () => page.leave();
  };
  return { ...whole, open };
}

// One view that is open. The functions of a view read, besides the methods below:
//
// about       what the server says of the model
// word, text  what the page calls a word and a text of this model
// example     the example that it opens with
// known       what the server says of the verb's options, by name
// state       the values of the address
// sentence    the text with its words
// question    what is asked; `stage` is where the answer is drawn
// answer      the last one, or what there is of it so far; null without one
// forgotten   values that the state takes when the text or an option changes, such as {cell: ""}: what was chosen in
//             an answer means nothing in the next one. `make` sets it.
//
// `hint`, `state` and `sentence` are called before the page is complete: they read `about`, `word`, `text`, `example`
// and `known` alone.
class Page {
  constructor(spec, root, about, values) {
    this.spec = spec;
    this.root = root;
    this.about = about;
    this.answer = null;
    this.forgotten = {};
    this.word = about.by_character ? "residue" : "word";
    this.text = about.by_character ? "sequence" : "sentence";
    const options = about.options[spec.verb] ?? [];
    this.known = Object.fromEntries(options.map((option) => [option.name, option]));
    this.example = about.examples[spec.example ?? spec.name] ?? NO_EXAMPLE;
    this.address = this.#newAddress(values);
    this.state = this.address.state;
    this.controls = h("div", { class: "controls" });
    this.stage = h("div", { class: "stack" });
    this.question = new Question(about.api, this.stage, spec.hint(this));
    this.question.partial = (answer) => {
      this.show(answer);
      this.question.stale(false);
    };
    this.sentence = spec.sentence === null ? null : this.#newSentence();
    this.parts = { ...this.#usualParts(), ...spec.make(this) };
    this.#place();
  }

  #newAddress(values) {
    const { defaults = {}, allowed = {} } = this.spec.state(this);
    const { text, blanks } = this.example;
    const ofSentence = this.spec.sentence === null ? {} : { text, blanks, pin: "" };
    const allDefaults = { ...ofSentence, ...defaults, ...this.#defaultsOfOptions() };
    const allAllowed = { ...allowed, ...this.#choicesOfOptions() };
    return new Address(this.about, this.spec.name, values, allDefaults, allAllowed);
  }

  // The defaults of the options that the view offers; "" leaves the choice to the verb.
  #defaultsOfOptions() {
    const defaults = {};
    for (const name of this.spec.options) defaults[name] = this.known[name].default ?? "";
    return defaults;
  }

  // The values of the options that take nothing but their choices, by name.
  #choicesOfOptions() {
    const allowed = {};
    for (const name of this.spec.options) {
      const option = this.known[name];
      if (!option.closed) continue;
      const values = option.choices.map(([value]) => value);
      if (option.default === null) values.push(""); // leaves the choice to the verb
      allowed[name] = values;
    }
    return allowed;
  }

  #newSentence() {
    const change = (reason) => {
      const { text, blanks, pin } = this.sentence;
      if (reason === "begin") { // the state has this text already: it is that of the address, or the example
        this.address.save("quiet");
      } else {
        Object.assign(this.state, this.forgotten, { text, blanks, pin });
        this.address.save(reason);
      }
      if (this.sentence.unread) this.answer = null; // the sentence shows why it was refused, in the place of the answer
      this.ask();
    };
    const { about, question, state } = this;
    return new Sentence({ about, question, state, change, ...this.spec.sentence(this) });
  }

  // What most views do.
  #usualParts() {
    const { verb, options } = this.spec;
    return {
      body: () => ({ text: this.sentence.template(), ...this.options() }),
      ask: async (question, body) => this.show(await question.slowly(verb, body)),
      above: [],
      controls: () => options.map((name) => this.option(name)),
      cards: (answer) => resultCards(answer, this.files()),
      tell: (answer) => answer.drawn?.told,
      past: () => this.sentence.template(),
      leave: () => {},
    };
  }

  #place() {
    const { spec, about, question } = this;
    const intro = h("section", { class: "intro" },
      h("h1", {}, spec.heading(this)), h("p", {}, about.summaries[spec.verb]));
    const sentence = this.sentence ? [this.sentence.element] : [];
    const copies = about.copied.includes(spec.verb) ? [copying(() => this.copies())] : [];
    this.root.append(
      intro, ...sentence, ...this.parts.above, this.controls, question.problem, this.stage, ...copies);
  }

  begin() {
    if (this.sentence) this.sentence.begin();
    else this.ask();
  }

  leave() {
    this.parts.leave();
    this.sentence?.leave();
    this.question.leave();
  }

  // Gives the state other values.
  // reason   as `save` of state.js takes it; by default this is a step of the history
  // ask      whether the verb is asked again; else the answer is drawn again
  set(values, { reason = "", ask = true } = {}) {
    Object.assign(this.state, values);
    this.address.save(reason);
    if (ask) this.ask();
    else this.draw();
  }

  // ---- the options of the verb ----

  // The options that a request gives: those that the view offers, mean something now, and are not the default.
  options() {
    const given = {};
    for (const name of this.spec.options) {
      const { default: usual, numbers } = this.known[name];
      const value = this.state[name];
      const isDefault = value === "" || (usual !== null && String(value) === String(usual));
      if (isDefault || !this.applies(name)) continue;
      given[name] = numbers && isNumber(value) ? Number(value) : value;
    }
    return given;
  }

  // Whether an option means something now. Some options are read by some methods alone (`readers`). They mean something
  // only while one of these is chosen, by the option whose name is `parameter`.
  applies(name) {
    const { parameter, readers } = this.known[name];
    if (readers.length === 0) return true; // every method reads it
    const method = this.state[parameter] || this.known[parameter]?.default;
    return readers.includes(method);
  }

  // A control for an option, with the choices and bounds of the verb; null if it means nothing now.
  // change   (value) => takes another value; by default it is asked again
  // usual    what the verb chose for this answer, where the default leaves it to the verb: a menu names it
  option(name, { label, change, usual } = {}) {
    if (!this.applies(name)) return null;
    const option = this.known[name];
    const set = change ?? ((value) => this.set({ ...this.forgotten, [name]: value }));
    const value = String(this.state[name]);
    const called = label ?? option.label;
    const isVerbsChoice = option.default === null;
    if (option.choices.length === 0) return number(called, value, option.range, set, isVerbsChoice);
    const offered = [...option.choices];
    if (isVerbsChoice) offered.unshift(["", `default: ${usual ?? option.usual}`, option.help]);
    const isOffered = offered.some(([choice]) => choice === value);
    if (!isOffered) offered.push([value, value, ""]); // an address may give a value that is not offered
    return select(called, value, offered, set);
  }

  // What the chosen method is, in the words of its docstring.
  meaning(name) {
    const { choices, default: usual } = this.known[name];
    const chosen = this.state[name] || usual;
    const choice = choices.find(([value]) => value === chosen);
    if (!choice) return "";
    const [, label, meaning] = choice;
    return `${label}: ${meaning}`;
  }

  // ---- the question and its answer ----

  // The request; a text says what is missing for one.
  body() { return this.sentence?.unread || this.parts.body(); }

  // The question as Python and as a command.
  async copies() {
    const body = this.body();
    if (typeof body === "string") throw new Error(body); // what is missing for a question
    return this.about.api.ask(`${this.spec.verb}/copy`, body);
  }

  async ask() {
    this.about.asks?.(); // the table beside another model waits for the answers of both
    this.drawControls();
    if (this.sentence?.unread) return; // when it is read, it is asked about
    const body = this.body();
    if (typeof body === "string") {
      this.answer = null;
      this.question.clear(h("p", { class: "empty" }, body));
      return;
    }
    await this.question.run(async (question) => {
      await this.parts.ask(question, body);
      this.#report();
    });
    const isRefused = !this.stage.hasChildNodes(); // a refusal empties the stage
    if (isRefused) this.answer = null; // else the answer before would be drawn again with the next control
  }

  // Tells an answer to the table beside the other model, and to the list of past questions.
  #report() {
    const told = this.parts.tell(this.answer);
    if (told) this.about.tell?.(told);
    const past = this.parts.past();
    if (past && !this.about.second) remember(this.spec.title, past);
  }

  // Shows an answer, or what there is of it so far.
  show(answer) {
    this.answer = answer;
    this.draw();
  }

  draw() {
    this.drawControls();
    if (this.answer) update(this.stage, this.parts.cards(this.answer));
  }

  drawControls() { update(this.controls, this.parts.controls()); }

  // What the "Save" menus need: the name of the files, their JSON, and the lines that say what the figures are of.
  files() {
    const lines = () => [this.answer.view.heading, this.about.model, ...this.answer.view.about];
    return { name: this.spec.name, data: () => this.answer, of: lines };
  }
}
