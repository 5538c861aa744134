// Texts that change step by step, as frames: to be played, paused and scrubbed while more of them arrive.
//
// A frame is {name, texts, moves}: its name, the texts after a step, each as a list of {text, kind, confidence}, and
// what the step did to each text (`moves`; null in the first frame). A view may keep more in it.
import { select } from "./drawing/controls.js";
import { h } from "./drawing/dom.js";
import { direction } from "./drawing/text.js";
import { lasting } from "./drawing/update.js";
import { Player } from "./player.js";

// Steps a second.
const SPEEDS = [["2", "slow"], ["8", "a few steps a second"], ["30", "fast"], ["240", "as fast as it comes"]];
export const SPEEDS_ALLOWED = SPEEDS.map(([speed]) => speed);

// What the address says of the frames: how many a second, and the number of the one at which a person has stopped;
// "" where it plays.
export const frameState = (speed) => ({ speed, at: "" });

// The number of the frame at which an address stands still; null: it plays, also where the address gives no number.
function frameOf(at) {
  const isNumber = /^\d+$/.test(at);
  return isNumber ? Number(at) : null;
}

// How the legend shows some kinds of mark; of the others the kind is the class.
const SIGNS = { refused: "ring", new: "box", draft: "struck" };

// signs: [{kind, text}], what the marks of tokens mean. The kind "" stands for the colour: every token has one, so it
// has no class of its own.
export function legend(signs) {
  const items = signs.map(({ kind, text }) => h("span", { class: SIGNS[kind] ?? kind }, text));
  return h("p", { class: "key" }, items);
}

const firstToken = ([text, kind]) => ({ text, kind, confidence: null });

// The text after a move {positions, tokens, confidence, ...}. The lists are parallel, except that a kernel has no
// confidence: its list is empty.
function written(line, move) {
  if (move.positions.length === 0) return line; // frames share the texts that do not change
  const next = [...line];
  move.positions.forEach((position, n) => {
    const [text, kind] = move.tokens[n];
    next[position] = { text, kind, confidence: move.confidence[n] ?? null };
  });
  return next;
}

export class Replay {
  // frameShown  (frame) => what the view does when a frame was drawn
  constructor(page, frameShown = () => {}) {
    this.page = page;
    this.frameShown = frameShown;
    this.begun = null; // the first step event of the texts
    this.free = new Set(); // positions that are sampled or decoded; the tokens at the others are held
    this.goal = null; // number of the frame that the address names; the player goes there once it has come
    page.forgotten = { at: "" }; // another text or option has other frames
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
  get frame() { return this.frames[this.player.at]; }

  // Asks a verb whose steps are events, and returns its answer.
  // taken   handlers of the events, by their kind; that of `begun` calls `begin`, and until then the frames are those
  //         of the question before
  async follow(question, verb, body, taken) {
    const { signal } = question; // a later question puts another one there
    this.player.pause();
    delete this.page.stage.dataset.passes; // the view sets it again with the answer: so a test knows that it is there
    question.step = (event) => taken[event.kind](event);
    try {
      return await question.slowly(verb, body);
    } finally {
      const isLatest = signal === question.signal; // else the frames may be those of a later question
      if (isLatest) this.#end();
    }
  }

  // begun: the first step event of the texts. more: what the view keeps in its frame
  begin(begun, more = {}) {
    const { state } = this.page;
    this.begun = begun;
    this.free = new Set(begun.free);
    this.goal = frameOf(state.at);
    this.where.title = ""; // of the answer to the question before: a view sets it
    this.player.begin(Number(state.speed));
    const texts = begun.tokens.map((line) => line.map(firstToken));
    this.#add({ name: begun.frame, texts, moves: null, ...more });
  }

  // The event of a step: a frame.
  step({ frame, moves }, more = {}) {
    const { texts } = this.frames.at(-1);
    const next = texts.map((line, n) => written(line, moves[n]));
    this.#add({ name: frame, texts: next, moves, ...more });
  }

  // Adds to the last frame what the view has got to know after it.
  amend(more) {
    const frame = this.frames.at(-1);
    Object.assign(frame, more);
    if (frame === this.frame) this.frameShown(frame);
  }

  // There are no more frames.
  #end() {
    const { player } = this;
    player.ended = true;
    const isBeyond = this.goal !== null && this.goal > player.last; // an address of a longer run
    if (isBeyond) player.go(player.last);
    this.goal = null;
  }

  stop() { this.player.stop(); }

  // Controls: how fast it plays, and another run.
  controls() {
    const { page } = this;
    const setSpeed = (speed) => {
      this.player.speed = Number(speed);
      page.set({ speed }, { ask: false });
    };
    const onclick = () => page.set({ seed: this.#nextSeed(), at: "" });
    return [
      select("Speed", page.state.speed, SPEEDS, setSpeed),
      h("button", { type: "button", class: "main", "data-key": "run", onclick }, "Run another"),
    ];
  }

  #nextSeed() {
    const { state, known } = this.page;
    const { default: first, range } = known.seed;
    const seed = Number(state.seed);
    const hasNext = Number.isInteger(seed) && seed >= range.min && seed < range.max; // an address may give anything
    return hasNext ? seed + 1 : first;
  }

  #add(frame) {
    const { player, goal } = this;
    player.add(frame);
    this.scrub.max = player.last; // not in `draw`, which is not called while the player stands still
    const isFirst = player.last === 0;
    if (isFirst && goal === null) player.play();
    if (player.last === goal) player.go(goal);
  }

  // label is said, and text is seen. `draw` changes both of the play button; its key stays.
  #button(label, text, onclick) {
    return h("button", { type: "button", "aria-label": label, "data-key": `play:${text}`, onclick }, text);
  }

  #toggle() {
    if (this.player.playing) {
      this.#stay(this.player.at);
      return;
    }
    this.#remember("");
    this.player.play();
  }

  #stay(at) {
    this.player.stop();
    this.player.go(at);
    this.#remember(String(this.player.at));
  }

  // What a person chose counts, and no longer the frame of the address. The history gets no step of it. A number among
  // the frames of an older question is not kept: the next frames would stand still at it.
  #remember(at) {
    if (this.#isOld) return;
    this.goal = null;
    this.page.state.at = at;
    this.page.address.save("quiet");
  }

  // Whether the frames are of an older question than the one that was asked last.
  get #isOld() { return this.page.stage.classList.contains("stale"); }

  draw() {
    const { frame, player } = this;
    if (!frame) return;
    this.play.textContent = player.playing ? "❚❚ Pause" : "▶ Play";
    this.play.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    this.scrub.value = player.at;
    this.where.textContent = frame.name;
    const lines = frame.texts.map((line, n) => {
      const move = frame.moves === null ? null : frame.moves[n];
      return this.#line(line, this.begun.names[n], move);
    });
    this.lines.replaceChildren(...lines);
    this.frameShown(frame);
  }

  // A text with its name; `move` is what the step of the frame did to it.
  #line(line, name, move) {
    const words = line.map(({ text }) => text).join(" ");
    const kind = this.page.about.by_character ? "chain letters" : "chain";
    const tokens = line.map((token, position) => this.#token(token, position, move));
    return h("div", { class: kind, dir: direction(words) }, h("span", { class: "who" }, name), tokens);
  }

  #token({ text, kind, confidence }, position, move) {
    if (kind === "edge") return null;
    const classes = ["token"];
    if (!this.free.has(position)) classes.push("held");
    if (kind !== "") classes.push(kind);
    if (confidence !== null) classes.push("sure");
    const n = move === null ? -1 : move.positions.indexOf(position);
    if (n >= 0) classes.push(move.marks[n]);
    const [share, said] = confidence ?? [null, null];
    const props = { class: classes.join(" "), "--p": share, title: said }; // the style makes a colour of --p
    return h("span", props, text, move && this.#draft(position, move));
  }

  // The draft that the step rejected at a position; null if it rejected none there.
  #draft(position, move) {
    const rejected = move.rejected.find(([at]) => at === position);
    if (!rejected) return null;
    const [, token] = rejected;
    return h("s", { class: "draft", title: this.begun.rejected }, token);
  }
}
