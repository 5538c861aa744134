// Texts that change step by step, as frames: to be played, paused and scrubbed while more of them arrive.
import { direction, h, percent, shown } from "./drawing/dom.js";
import { lasting } from "./drawing/update.js";
import { Player } from "./player.js";

export const SPEEDS = [["2", "slow"], ["8", "a few steps a second"], ["30", "fast"], ["240", "as fast as it comes"]];

// What a move put at its positions: {position: value}.
export function moved(line, move, values) {
  const next = [...line];
  move.positions.forEach((position, n) => { next[position] = values[n]; });
  return next;
}

// moved(frame): called when another frame is shown; stayed(at): when it was stopped there, "" where it goes on.
// marks(position, frame, text): the class and more of a token of one of the texts.
export class Replay {
  constructor({ letters, frameShown, stayed, token, unit }) {
    Object.assign(this, { letters, frameShown, stayed, token, unit });
    this.player = new Player(() => this.draw());
    this.play = this.#button("Pause", "❚❚ Pause", () => this.#toggle());
    this.scrub = h("input", {
      type: "range", min: 0, max: 0, value: 0, "aria-label": "step of the chain",
      oninput: () => this.#stay(Number(this.scrub.value)),
    });
    this.where = h("output", {});
    this.lines = lasting(h("div", { class: "chains", role: "group", "aria-label": "the texts" }));
    const back = this.#button("Back one step", "‹ Back", () => this.#stay(this.player.at - 1));
    const on = this.#button("Step on", "Step ›", () => this.#stay(this.player.at + 1));
    this.transport = lasting(h("div", { class: "transport" }, this.play, back, on, this.scrub, this.where));
  }

  get frames() { return this.player.frames; }
  get frame() { return this.player.frames[this.player.at]; }

  // goal: the frame at which it was stopped before, null to play.
  begin({ free, speed, goal }) {
    this.free = new Set(free);
    this.goal = goal;
    Object.assign(this.player, { frames: [], at: 0, ended: false, carry: 0, speed: Number(speed) });
  }

  add(frame) {
    this.player.add(frame);
    const last = this.frames.length - 1;
    if (last === 0 && this.goal === null) this.player.play();
    if (last === this.goal) this.player.go(last);
  }

  end() {
    this.player.ended = true;
    if (!this.player.playing && this.frames.length) this.draw();
  }

  stop() { this.player.stop(); }

  #button(label, text, act) {
    return h("button", { type: "button", "aria-label": label, "data-key": `play:${text}`, onclick: act }, text);
  }

  #toggle() {
    if (this.player.playing) return this.#stay(this.player.at);
    this.stayed("");
    return this.player.play();
  }

  #stay(at) {
    this.player.pause();
    this.player.go(at);
    this.stayed(String(this.player.at));
  }

  draw() {
    const { frame, player } = this;
    if (!frame) return;
    this.play.textContent = player.playing ? "❚❚ Pause" : "▶ Play";
    this.play.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    this.scrub.max = player.frames.length - 1;
    this.scrub.value = player.at;
    const sweep = this.unit ? `, ${this.unit} ${frame.sweep}` : "";
    this.where.textContent = `step ${player.at} of ${player.frames.length - 1}${sweep}`;
    const lines = frame.tokens.map((line, text) => h("div", {
      class: this.letters ? "chain letters" : "chain", dir: direction(line.slice(1).join(" ")),
    }, h("span", { class: "who" }, String(text + 1)), line.map((_, position) => this.#token(position, frame, text))));
    this.lines.replaceChildren(...lines);
    this.frameShown(frame);
  }

  #token(position, frame, text) {
    const line = frame.tokens[text];
    const token = line[position];
    const special = /^[[<].*[\]>]$/.test(token);
    if (special && (position === 0 || position === line.length - 1)) return null;
    const piece = token.startsWith("##");
    const { kinds = [], confidence = null, draft = null } = this.token(position, frame, text, special);
    const held = !this.free.has(position);
    const marks = [held && "held", piece && "piece", special && "blank", confidence !== null && "sure", ...kinds];
    let written = shown(token);
    if (special) written = "▁";
    else if (piece) written = token.slice(2);
    return h("span", {
      class: ["token", ...marks].filter(Boolean).join(" "),
      "--p": confidence,
      title: confidence === null ? null : `${percent(confidence)} when it was chosen`,
    }, written, draft && h("s", { class: "draft", title: "drafted, and rejected" }, shown(draft.replace(/^##/, ""))));
  }
}
