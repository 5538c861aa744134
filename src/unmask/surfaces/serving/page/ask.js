// Questions to a model: requests, progress, Stop, what is stale, and what to do when the server is away.
import { h } from "./drawing/dom.js";

// Milliseconds until the page looks whether the server is back. They double each time that the question was asked again
// by itself, and not with each look.
const AGAIN = 1500;
const MOST_TRIES = 3; // how often a question that a person asked is asked again by itself
const STOPPED = "Stopped.";
const ROOT = new URL("../", import.meta.url);

// A refusal is an error whose message can be shown as it is; `away` if the server did not answer.
export class Refused extends Error {
  constructor(line, away = false) {
    super(line);
    this.away = away;
  }
}

// A line of the server as a sentence: with a capital, and a full stop unless it has an end.
function sentence(line) {
  const capital = line.charAt(0).toUpperCase() + line.slice(1);
  const hasEnd = /[.!?]$/.test(line);
  return hasEnd ? capital : `${capital}.`;
}

// The error to raise where the body of an answer could not be read. One that was aborted stays what it is.
function errorOfBody(error) {
  if (error.name === "AbortError") return error;
  if (error instanceof SyntaxError) return new Refused("The server's answer is not JSON.");
  return new Refused("The server has gone away.", true);
}

// The interface of one model: the first is at /api, others are at /models/N/api.
export class Api {
  constructor(number = 0) { this.base = new URL(number ? `models/${number}/api/` : "api/", ROOT); }

  // Sends a request, a POST if there is a body, and returns the response; raises `Refused`, or AbortError.
  async request(path, body, signal) {
    const options = { signal };
    if (body !== undefined) {
      options.method = "POST";
      options.headers = { "content-type": "application/json" };
      options.body = JSON.stringify(body);
    }
    let response;
    try {
      response = await fetch(new URL(path, this.base), options);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused("The server does not answer: is `unmask serve` still running?", true);
    }
    if (response.ok) return response;
    const isAway = response.status === 503;
    throw new Refused(await this.#reason(response), isAway);
  }

  // Why a request was refused: the line that the server gives, or else its status.
  async #reason(response) {
    try {
      const { error } = await response.json();
      return sentence(error);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      return `The server answered ${response.status}.`; // no JSON, or none of our server
    }
  }

  async ask(path, body, signal) {
    const response = await this.request(path, body, signal);
    try {
      return await response.json();
    } catch (error) {
      throw errorOfBody(error);
    }
  }

  // Server-sent events of a POST, as they come: yields [name, value]; an `error` event is raised.
  async * follow(path, body, signal) {
    const response = await this.request(path, body, signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = ""; // the beginning of an event whose end has not come
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const parts = (rest + value).split("\n\n"); // an empty line ends an event
        rest = parts.pop();
        yield* eventsOf(parts);
      }
    } catch (error) {
      throw error instanceof Refused ? error : errorOfBody(error);
    } finally {
      reader.cancel().catch(() => {}); // the connection may be broken already
    }
  }
}

// Events one after the other. An `error` is raised when its turn comes: the events before it are taken first.
function * eventsOf(texts) {
  for (const text of texts) {
    const event = eventOf(text);
    if (event !== null) yield event;
  }
}

// An event as [name, value], of lines "name: value"; null for one without a name, such as a comment.
function eventOf(text) {
  const fields = {};
  for (const line of text.split("\n")) {
    const end = line.indexOf(":");
    const isField = end > 0; // at 0 it begins a comment
    if (isField) fields[line.slice(0, end)] = line.slice(end + 1).trimStart();
  }
  if (!fields.event) return null;
  const value = JSON.parse(fields.data);
  if (fields.event !== "error") return [fields.event, value];
  if (value.stopped) throw new DOMException("stopped", "AbortError");
  throw new Refused(sentence(value.error));
}

// Whether an answer is what there was when its job was stopped. A search of Fill says so in `search`, other answers in
// `part`; an answer with neither is whole, for its verb raises an error where it is stopped.
const isCutOff = ({ drawn, search }) => Boolean(drawn?.part) || search?.stopped === "asked";

// The question of a view. Only the latest one counts: a new one aborts the request of the one before, and the server
// cancels a job whose client has left.
//
// box      holds what is drawn. It is dimmed while it shows the answer to an older question, and marked as busy while
//          a question runs whose answer is not there.
// partial  (answer) => shows what there is of an answer so far; the view sets it
// step     (step) => shows a step of what runs; a view whose questions are answered step by step sets it
// stopped  whether Stop was pressed: the view then asks for nothing more
// isPart   whether something is missing because the question was stopped: `slowly` sees it of an answer, and a view
//          sets it if it asks for less than it would
//
// Its own:
// work        what `run` was given last
// controller  ends the requests of the latest question
// signal      the abort signal of the latest question; null if it was left. A question whose own signal is another one
//             is not the latest
// job         the server's name of the job that runs; null before it is known
// wait        the latest timer that looks whether the server is back, also after it has fired, so that a look can tell
//             whether it is the latest; null if the question was left
// tries       how often the question was asked again by itself since a person asked it
// act         what the button does
export class Question {
  constructor(api, box, hint = "") {
    this.api = api;
    this.box = box;
    this.partial = () => {};
    this.step = () => {};
    this.work = null;
    this.controller = null;
    this.signal = null;
    this.job = null;
    this.stopped = false;
    this.isPart = false;
    this.wait = null;
    this.tries = 0;
    this.act = () => {};
    this.line = h("span", { class: "said" });
    this.bar = h("progress", { max: 1, hidden: true, "aria-label": "progress" });
    const onclick = () => this.act();
    this.button = h("button", { type: "button", hidden: true, "data-key": "stop", onclick }, "Stop");
    this.problem = h("div", { class: "slot" });
    const status = h("div", { class: "status", role: "status" }, this.line, this.bar, this.button);
    this.element = h("div", { class: "foot" }, h("p", { class: "note" }, hint), status);
  }

  // What is under way, with its share of the work from 0 to 1 where it is known, or how it ended. It stands in the
  // place of the hint.
  say(text, share = null) {
    this.line.textContent = text;
    this.bar.hidden = share === null;
    if (share !== null) this.bar.value = share;
    this.element.classList.toggle("saying", text !== "");
  }

  // work(question) asks and draws; it is called again by "Ask again" and "Retry".
  run(work) {
    this.tries = 0;
    return this.#run(work);
  }

  async #run(work) {
    this.leave();
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.signal = signal;
    this.work = work;
    this.job = null;
    this.stopped = false;
    this.isPart = false;
    this.stale(true);
    this.problem.replaceChildren();
    this.say("asking the model …");
    this.#offerStop();
    try {
      await work(this);
    } catch (error) {
      const isLatest = signal === this.signal;
      if (isLatest) this.#end(error);
      return;
    }
    if (signal !== this.signal) return;
    this.stale(false);
    if (this.isPart) { // and not `stopped`: the answer may have been whole when Stop was pressed
      this.say(STOPPED);
      this.#offerAgain();
    } else {
      this.say("");
      this.#offerNothing();
    }
  }

  // The latest question has ended without an answer. If it was stopped, here or elsewhere, what stands in the box
  // stays: a part of its answer, or the answer to an older question, which stays dimmed.
  #end(error) {
    const isLostWhileStopping = this.stopped && error.away; // nobody waits for the answer: it is not asked for again
    if (error.name === "AbortError" || isLostWhileStopping) {
      this.box.ariaBusy = "false";
      this.say(this.box.hasChildNodes() ? STOPPED : "Stopped before there was an answer.");
      this.#offerAgain();
      return;
    }
    if (!(error instanceof Refused)) console.error(error); // a fault of the page: here is where
    this.#showWhy(error);
  }

  // The answer to a question that may take long; on the way its events are shown.
  async slowly(path, body) {
    const { signal } = this;
    this.job = null; // a view may ask several things, one after the other
    const handlers = {
      job: ({ id }) => { this.job = id; },
      progress: ({ said, share }) => { if (!this.stopped) this.say(said, share); },
      partial: (answer) => this.partial(answer),
      step: (step) => this.step(step),
    };
    for await (const [name, value] of this.api.follow(`${path}/events`, body, signal)) {
      signal.throwIfAborted(); // events may have come before the abort
      if (name === "answer") {
        this.job = null;
        if (isCutOff(value)) this.isPart = true;
        return value;
      }
      handlers[name]?.(value);
    }
    throw new Refused("The answer broke off.", true);
  }

  // Shows why nothing can be asked, for example of a text that the server refused. What is being asked is ended.
  // work   as of `run`, for "Retry"
  fail(error, work) {
    this.leave();
    this.work = work;
    this.tries = 0;
    this.#showWhy(error);
  }

  // Shows why there is no answer. Whatever was drawn goes, unless the server is only away.
  #showWhy(error) {
    this.say("");
    this.#offerNothing();
    const retry = h("button", { type: "button", onclick: () => this.run(this.work) }, "Retry");
    this.problem.replaceChildren(h("p", { class: "error", role: "alert" }, error.message, error.away && retry));
    if (!error.away) {
      this.#empty();
      return;
    }
    this.box.ariaBusy = "false";
    const hasTriesLeft = this.tries < MOST_TRIES; // the server may be there and always fail at this question
    if (hasTriesLeft) this.#askWhenBack();
  }

  // Asks the question again as soon as the server is back, unless another is asked before or the view is left.
  #askWhenBack() {
    clearTimeout(this.wait);
    const timer = setTimeout(() => this.#look(timer), AGAIN * 2 ** this.tries);
    this.wait = timer;
  }

  // Asks the question again if the server is back, else looks once more later.
  // timer   that of this look
  async #look(timer) {
    const isBack = await this.api.ask("about").then(() => true, () => false);
    const isLatest = timer === this.wait; // another question may have begun while the server was asked
    if (!isLatest) return;
    if (!isBack) {
      this.#askWhenBack();
      return;
    }
    this.tries += 1;
    this.#run(this.work);
  }

  // isWaiting: a question runs, and what is drawn is not its answer
  stale(isWaiting) {
    this.box.classList.toggle("stale", isWaiting && this.box.hasChildNodes());
    this.box.ariaBusy = String(isWaiting);
  }

  // Shows these lines in the place of an answer, and asks nothing.
  clear(...lines) {
    this.leave();
    this.#empty();
    this.say("");
    this.#offerNothing();
    this.problem.replaceChildren(...lines);
  }

  #empty() {
    this.stale(false);
    this.box.replaceChildren();
  }

  #offerStop() { this.#offer("Stop", () => this.#stop()); }

  #offerAgain() { this.#offer("Ask again", () => this.run(this.work)); }

  #offerNothing() { this.button.hidden = true; }

  #offer(label, act) {
    this.button.hidden = false;
    this.button.textContent = label;
    this.act = act;
  }

  // Stops the question. If the name of its job is known, the server is asked to stop that, and the job answers with
  // what it has. If not, or if no such answer comes, the request is aborted.
  async #stop() {
    const { controller, job } = this; // of this question, also if another one begins meanwhile
    this.stopped = true;
    this.say("stopping …"); // until the job has answered with what it has, which may be more than what is shown
    this.#offerAgain();
    if (job === null) {
      controller.abort();
      return;
    }
    const isAnswering = await this.#askToStop(job);
    if (!isAnswering) controller.abort();
  }

  // Asks the server to stop a job. True if an answer is on the way: what the job has, or, where it has just ended, all
  // of it.
  async #askToStop(job) {
    try {
      const response = await fetch(new URL(`jobs/${job}`, this.api.base), { method: "DELETE" });
      return response.ok || response.status === 404; // it knows only those that run
    } catch {
      return false;
    }
  }

  // Ends what the question does. What is drawn stays.
  leave() {
    clearTimeout(this.wait);
    this.wait = null;
    this.signal = null;
    this.controller?.abort();
  }
}
