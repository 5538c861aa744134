// A view: what is asked of one model, with which options, and how the answer is drawn.
//
//   export default view({ name, title, verb, intro, options, ... })
//
// name       of the view in the address
// title      in the menu
// verb       the operation of the interface that is asked: its options, and what it answers
// shown      (about) => whether the menu has it for this model
// intro      (page) => [heading, line]
// hint       (page) => a line below the sentence
// example    whose example of the model it opens with, where it is not its own
// state      (page) => [values with their defaults, and values allowed by name]: the part of the address that is no
//            option of the verb
// options    names of the verb's options that the view offers; their defaults, bounds and choices are the verb's
// sentence   (page) => properties of `Sentence`; null for a view without one
// make       (page) => the parts below that differ from what most views do
//
//   body      () => the request, or a line that says what is missing for one
//   ask       (question) => asks; by default the verb with the body, as a question that may take long
//   controls  () => elements above the answer
//   cards     (answer) => what is drawn of an answer
//   tell      (answer) => {by, values} for the table beside another model
//   past      () => how the list of past questions calls it
//   leave     () => when the view is left
import { Question } from "./ask.js";
import { copying } from "./cards.js";
import { h, number, select } from "./drawing/dom.js";
import { update } from "./drawing/update.js";
import { remember } from "./past.js";
import { resultCards } from "./result.js";
import { Sentence } from "./sentence.js";
import { Address } from "./state.js";

export function view(spec) {
  const open = (root, about, values) => {
    const page = new Page(spec, root, about, values);
    page.begin();
    return () => page.leave();
  };
  return { shown: () => true, ...spec, open };
}

class Page {
  constructor(spec, root, about, values) {
    Object.assign(this, { spec, root, about, answer: null });
    this.word = about.by_character ? "residue" : "word";
    this.text = about.by_character ? "sequence" : "sentence";
    this.known = Object.fromEntries((about.options[spec.verb] ?? []).map((option) => [option.name, option]));
    this.example = about.examples[spec.example ?? spec.name] ?? { text: "", blanks: "", second: "" };
    this.#readAddress(values);
    this.controls = h("div", { class: "controls" });
    this.stage = h("div", { class: "stack" });
    this.question = new Question(about.api, this.stage, spec.hint?.(this) ?? "");
    this.question.partial = (answer) => {
      this.show(answer);
      this.question.stale(false);
    };
    if (spec.sentence !== null) this.sentence = this.#newSentence();
    this.parts = spec.make?.(this) ?? {};
    const [heading, line] = spec.intro(this);
    const intro = h("section", { class: "intro" }, h("h1", {}, heading), h("p", {}, line));
    const above = this.sentence ? [this.sentence.element] : [];
    const copies = this.about.copied.includes(spec.verb) ? copying(() => this.copies()) : null;
    root.append(...[
      intro, ...above, ...(this.parts.above ?? []), this.controls, this.question.problem, this.stage, copies,
    ]
      .filter(Boolean));
  }

  #readAddress(values) {
    const { text, blanks } = this.example;
    const [own, allowed] = this.spec.state?.(this) ?? [{}, {}];
    const state = { ...(this.spec.sentence === null ? {} : { text, blanks, pin: "" }), ...own };
    for (const name of this.spec.options ?? []) {
      const option = this.known[name];
      state[name] = option.default ?? "";
      if (option.closed) allowed[name] = ["", ...option.choices.map(([value]) => value)];
    }
    this.address = new Address(this.about, this.spec.name, values, state, allowed);
    this.state = this.address.state;
  }

  #newSentence() {
    const change = (reason) => {
      const { text, blanks, pin } = this.sentence;
      if (reason !== "begin") Object.assign(this.state, this.forgotten, { text, blanks, pin });
      this.address.save(reason === "begin" ? "quiet" : reason);
      if (reason !== "refused") this.ask();
    };
    const { about, question, state } = this;
    return new Sentence({ about, question, state, change, ...this.spec.sentence?.(this) });
  }

  // What another text makes meaningless: the parts of the state that are about one.
  forgotten = {};

  begin() {
    if (this.sentence) this.sentence.begin();
    else this.ask();
  }

  leave() {
    this.parts.leave?.();
    if (this.sentence) this.sentence.leave();
    this.question.leave();
  }

  // Another value of the state: a step of the history, and another question unless it is only drawn otherwise.
  set(values, { reason = "", ask = true } = {}) {
    Object.assign(this.state, values);
    this.address.save(reason);
    if (ask) this.ask();
    else this.draw();
  }

  // The options of the verb that the view offers, as the request has them: those that are not the default.
  options() {
    const given = {};
    for (const name of this.spec.options ?? []) {
      const { default: usual } = this.known[name];
      const value = this.state[name];
      if (value === "" || String(value) === String(usual) || !this.applies(name)) continue;
      given[name] = /^-?[\d.]+$/.test(value) ? Number(value) : value;
    }
    return given;
  }

  // An option of some methods is one only where the method is chosen.
  applies(name) {
    const { parameter, readers } = this.known[name];
    const method = this.state[parameter] || this.known[parameter]?.default;
    return !readers.length || readers.includes(method);
  }

  // A control for an option, with the choices and bounds of the verb.
  option(name, { label, change, usual } = {}) {
    const option = this.known[name];
    if (!this.applies(name)) return null;
    const set = change ?? ((value) => this.set({ ...this.forgotten, [name]: value }));
    const value = String(this.state[name]);
    const called = label ?? option.label;
    if (!option.choices.length) return number(called, value, option.range, set);
    const offered = option.default === null ? [["", `default: ${usual ?? option.usual}`, option.help]] : [];
    offered.push(...option.choices);
    if (!offered.some(([known]) => known === value)) offered.push([value, value, ""]);
    return select(called, value, offered, set);
  }

  // What the chosen method is, in the words of its docstring.
  meaning(name) {
    const { choices, default: usual } = this.known[name];
    const found = choices.find(([value]) => value === (this.state[name] || usual));
    return found ? `${found[1]}: ${found[2]}` : "";
  }

  body() { return (this.parts.body ?? (() => ({ text: this.sentence.template(), ...this.options() })))(); }
  async copies() { return this.about.api.ask(`${this.spec.verb}/copy`, this.body()); }

  ask() {
    this.about.asks?.();
    this.drawControls();
    const body = this.body();
    if (typeof body === "string") {
      this.answer = null;
      return this.question.clear(h("p", { class: "empty" }, body));
    }
    return this.question.run(async (question) => {
      if (this.parts.ask) await this.parts.ask(question, body);
      else this.show(await question.slowly(this.spec.verb, body));
      const said = this.parts.tell?.(this.answer);
      if (said) this.about.tell?.(said);
      const past = this.parts.past ? this.parts.past() : this.sentence.template();
      if (past && !this.about.second) remember(this.spec.title, past);
    });
  }

  // Shows an answer, or what there is of it so far.
  show(answer) {
    this.answer = answer;
    this.draw();
  }

  draw() {
    this.drawControls();
    if (this.answer) update(
      this.stage, (this.parts.cards ?? ((answer) => resultCards(answer, this.files())))(this.answer));
  }

  // What files of the answer say they are of.
  files() {
    const of = () => [this.answer.view?.heading, this.about.model, ...(this.answer.view?.about ?? [])];
    return { name: this.spec.name, data: () => this.answer, of };
  }

  drawControls() {
    const drawn = this.parts.controls?.() ?? (this.spec.options ?? []).map((name) => this.option(name));
    update(this.controls, drawn);
  }
}
