// What is under way, told to screen readers too: a line, a bar and the time left where the amount is known, and a button to stop it.
import { h } from "./drawing/dom.js";

const SOON = 3;

export class Status {
  constructor(hint = "") {
    this.line = h("span", { class: "said" });
    this.bar = h("progress", { max: 1, hidden: true, "aria-label": "progress" });
    this.stopping = h("button", { type: "button", hidden: true, "data-key": "stop", onclick: () => this.halt?.() }, "Stop");
    this.hint = h("p", { class: "note" }, hint);
    this.element = h("div", { class: "foot" }, this.hint, h("div", { class: "status", role: "status" }, this.line, this.bar, this.stopping));
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

  // While `halt` is given there is a button that calls it.
  stoppable(halt) {
    this.halt = halt;
    this.stopping.hidden = !halt;
  }
}

const duration = (seconds) => (seconds < 90 ? `about ${Math.ceil(seconds)} s` : `about ${Math.ceil(seconds / 60)} min`);
