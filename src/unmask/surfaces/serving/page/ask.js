// Questions to a model: requests, progress, Stop, what is stale, and what to do when the server is away.
import { h } from "./drawing/dom.js";

const [SOON, AGAIN] = [3, 1500];
const ROOT = new URL("../", import.meta.url);

// A refusal is an error whose message can be shown as it is; `away` if the server did not answer.
export class Refused extends Error {
  constructor(line, away = false) { super(line); this.away = away; }
}

const sentence = (line) => line.charAt(0).toUpperCase() + line.slice(1) + (/[.!?]$/.test(line) ? "" : ".");

// The interface of one model: the first is at /api, others are at /models/N/api.
export class Api {
  constructor(number = 0) { this.base = new URL(number ? `models/${number}/api/` : "api/", ROOT); }

  async sent(path, body, signal) {
    const json = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    let answer;
    try {
      answer = await fetch(new URL(path, this.base), body === undefined ? { signal } : { ...json, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused("The server does not answer: is `unmask serve` still running?", true);
    }
    if (answer.ok) return answer;
    let line = `The server answered ${answer.status}.`;
    try { line = sentence((await answer.json()).error); } catch { /* not JSON: the status says enough */ }
    throw new Refused(line, answer.status === 503);
  }

  async ask(path, body, signal) { return (await this.sent(path, body, signal)).json(); }

  // Server-sent events of a POST, as they come: yields [name, value]; an `error` event is raised.
  async * follow(path, body, signal) {
    const answer = await this.sent(path, body, signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = ""; // the beginning of an event
    for (;;) {
      const read = await this.#next(reader);
      if (read.done) return;
      const parts = (waiting + read.value).split("\n\n");
      waiting = parts.pop();
      for (const part of parts) {
        const { event, data } = fields(part);
        if (!event) continue;
        const value = JSON.parse(data);
        if (event === "error" && value.stopped) throw new DOMException("stopped", "AbortError");
        if (event === "error") throw new Refused(sentence(value.error));
        yield [event, value];
      }
    }
  }

  async #next(reader) {
    try {
      return await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : new Refused("The server has gone away.", true);
    }
  }
}

// The fields of an event, "name: value" in lines; a line that begins with a colon is a comment.
function fields(text) {
  const lines = text.split("\n").filter((line) => !line.startsWith(":"));
  return Object.fromEntries(lines.map((line) => {
    const end = line.indexOf(": ");
    return [line.slice(0, end), line.slice(end + 2)];
  }));
}

const duration = (seconds) => (seconds < 90 ? `about ${Math.ceil(seconds)} s` : `about ${Math.ceil(seconds / 60)} min`);
const count = (n) => n.toLocaleString("en");

// The question of a view. Only the latest one counts: a new one cancels the one before, also on the server.
// box      holds what is drawn; it is dimmed, and marked as busy, while it shows the answer to an older question
// partial  (answer) => shows what there is of an answer so far
export class Question {
  constructor(api, box, hint = "") {
    Object.assign(this, { api, box, stops: 0 });
    this.line = h("span", { class: "said" });
    this.bar = h("progress", { max: 1, hidden: true, "aria-label": "progress" });
    const onclick = () => this.#press();
    this.button = h("button", { type: "button", hidden: true, "data-key": "stop", onclick }, "Stop");
    this.problem = h("div", { class: "slot" });
    const status = h("div", { class: "status", role: "status" }, this.line, this.bar, this.button);
    this.element = h("div", { class: "foot" }, h("p", { class: "note" }, hint), status);
  }

  say(text, share = null) {
    if (share === null || this.share > share) this.began = null;
    this.share = share;
    this.began ??= { time: performance.now(), share: share ?? 0 };
    const gone = (performance.now() - this.began.time) / 1000;
    const left = share > this.began.share ? (gone * (1 - share)) / (share - this.began.share) : null;
    this.line.textContent = gone > 1 && left !== null && left >= SOON ? `${text}, ${duration(left)} left` : text;
    this.bar.hidden = share === null;
    if (share !== null) this.bar.value = share;
    this.element.classList.toggle("busy", text !== "");
  }

  // work(question) asks and draws; it is called again by "Ask again".
  async run(work) {
    this.leave();
    const signal = (this.controller = new AbortController()).signal;
    Object.assign(this, { work, signal, job: null, stopped: false });
    this.stale(true);
    this.problem.replaceChildren();
    this.say("asking the model …");
    this.#offer("Stop");
    try {
      await work(this);
      if (signal !== this.signal) return;
      this.stale(false);
      if (!this.stopped) this.say("");
      this.#offer(this.stopped ? "Ask again" : null);
    } catch (error) {
      if (signal !== this.signal) return;
      if (error.name === "AbortError") {
        if (!this.box.childNodes.length) this.say("Stopped before there was an answer.");
        return this.#offer("Ask again");
      }
      this.say("");
      this.#offer(null);
      this.fail(error);
    }
  }

  // The events of a question whose answer may take long, until its answer.
  async slowly(path, body) {
    const { signal } = this;
    for await (const [name, value] of this.api.follow(`${path}/events`, body, signal)) {
      if (name === "answer") {
        signal.throwIfAborted();
        return value;
      }
      if (name === "job") this.job = value.id;
      else if (name === "partial") this.partial(value);
      else if (!this.stopped) this.#report(value);
    }
    throw new Refused("The answer broke off: ask again.", true);
  }

  #report({ done, total, what }) {
    if (total) this.say(`${count(done)} of ${count(total)} ${what}`, done / total);
    else this.say(`${what} …`);
  }

  // Shows why there is no answer. What was drawn for an older question goes, unless the server is only away.
  fail(error) {
    const again = () => this.work && this.run(this.work);
    const retry = error.away && h("button", { type: "button", onclick: again }, "Retry");
    this.problem.replaceChildren(h("p", { class: "error", role: "alert" }, error.message, retry));
    if (!error.away) this.clear();
    else this.#await(this.signal, again);
  }

  // Asks whether the server is back, and then the question again.
  #await(signal, again) {
    this.timer = setTimeout(async () => {
      try { await this.api.ask("about"); } catch { return void (signal === this.signal && this.#await(signal, again)); }
      if (signal === this.signal) again();
    }, AGAIN);
  }

  stale(is) {
    this.box.classList.toggle("stale", is && this.box.childNodes.length > 0);
    this.box.ariaBusy = String(is);
  }

  clear(...lines) {
    this.stale(false);
    this.box.replaceChildren();
    if (lines.length) { this.leave(); this.say(""); this.#offer(null); this.problem.replaceChildren(...lines); }
  }

  #offer(label) {
    this.button.hidden = !label;
    if (label) this.button.textContent = label;
  }

  // Stop: a job that has a name answers with what it has; any other is left.
  #press() {
    if (this.button.textContent !== "Stop") return this.run(this.work);
    this.stopped = true;
    this.say("Stopped.");
    this.#offer("Ask again");
    const { controller } = this;
    if (!this.job) return controller.abort();
    const job = new URL(`jobs/${this.job}`, this.api.base);
    const leave = () => controller.abort();
    return fetch(job, { method: "DELETE" }).then((answer) => answer.ok || leave(), leave);
  }

  leave() {
    clearTimeout(this.timer);
    this.signal = null;
    this.controller?.abort();
  }
}
