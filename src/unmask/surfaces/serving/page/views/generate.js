// Generate: texts by a decoder, each with its log-probability, and how their blanks were filled.
import { keeping, Question } from "../ask.js";
import { card, copying, table } from "../cards.js";
import { h, nats, number, select } from "../drawing/dom.js";
import { remember } from "../past.js";
import { moved, Replay, SPEEDS } from "../replay.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

export function open(root, about, values) {
  const word = about.by_character ? "residue" : "word";
  const example = about.examples.sample ?? { text: "", blanks: "" };
  const defaults = {
    text: example.text, blanks: example.blanks, pin: "", decoder: "ancestral", n_texts: 4, seed: 0, speed: "8", at: "",
  };
  const allowed = { decoder: about.decoders.map((one) => one.name), speed: SPEEDS.map(([speed]) => speed) };
  const address = new Address(about, "generate", values, defaults, allowed);
  const { state } = address;
  const controls = h("div", { class: "controls" });
  const said = h("p", { class: "note" });
  const stage = h("div", { class: "stack" });
  const hint = `Chosen ${word}s are written by the decoder, the others are held; if none is chosen, it writes all.`;
  const question = new Question(about.api, stage, hint);
  const entry = () => about.decoders.find((one) => one.name === state.decoder);
  let asked = null;
  let answer = null;

  const sentence = new Sentence({
    about, question, state,
    change: (reason) => {
      const { text, blanks, pin } = sentence;
      if (reason !== "begin") Object.assign(state, { text, blanks, pin, at: "" });
      address.save(reason === "begin" ? "quiet" : reason);
      if (reason !== "refused") ask();
    },
  });

  const replay = new Replay({
    letters: about.by_character,
    frameShown: () => {},
    stayed: (at) => { state.at = at; address.save("quiet"); },
    token: (position, frame, text, special) => {
      const move = frame.moves?.[text];
      const draft = move?.rejected.find(([at]) => at === position)?.[1] ?? null;
      const isFree = replay.free.has(position) && !special;
      return {
        kinds: move?.positions.includes(position) ? ["new"] : [],
        confidence: isFree ? frame.confidence[text][position] : null,
        draft,
      };
    },
  });

  function template() {
    const masks = (one) => Array(one.pieces).fill("[MASK]").join(about.by_character ? "" : " ");
    const chosen = (i) => !sentence.pressed.size || sentence.pressed.has(i);
    return sentence.template(masks, chosen, true);
  }
  const body = () => ({ template: template(), decoder: state.decoder, n_texts: state.n_texts, seed: state.seed });

  function ask() {
    about.asks?.();
    replay.stop();
    drawControls();
    const what = about.by_character ? "sequence" : "sentence";
    if (!sentence.words.length) return question.clear(h("p", { class: "empty" }, `Write a ${what}.`));
    return question.run(async ({ signal }) => {
      asked = body();
      answer = null;
      delete stage.dataset.passes;
      try {
        for await (const [name, value] of about.api.follow("generate", asked, signal)) take(name, value);
      } finally {
        replay.end();
      }
      draw();
      stage.dataset.passes = answer.texts.reduce((sum, row) => sum + row.passes, 0);
      const logProbs = answer.texts.map((row, n) => [`text ${n + 1}`, row.log_prob]);
      about.tell?.({ by: "log-probability of each text", values: Object.fromEntries(logProbs) });
      if (!about.second) remember("Generate", asked.template);
    });
  }

  function take(name, value) {
    if (name === "job") question.job = value.id;
    if (name === "answer") answer = value;
    if (name === "begun") {
      const goal = state.at === "" ? null : Number(state.at);
      replay.begin({ free: value.free, speed: state.speed, goal });
      draw();
      question.stale(false);
      const unknown = value.tokens.map((line) => line.map(() => null));
      replay.add({ tokens: value.tokens, confidence: unknown, moves: null });
    } else if (name === "stepped") {
      const { tokens, confidence } = replay.frames.at(-1);
      replay.add({
        tokens: tokens.map((line, n) => moved(line, value.moves[n], value.moves[n].tokens)),
        confidence: confidence.map((line, n) => moved(line, value.moves[n], value.moves[n].confidence)),
        moves: value.moves,
      });
    }
  }

  function draw() {
    const signs = [
      ["", "the stronger the colour, the surer the model was of it"],
      ["box", "filled in this step"],
      ["struck", "struck out: drafted, and rejected"],
    ];
    const key = h("p", { class: "key" }, signs.map(([kind, text]) => h("span", { class: kind }, text)));
    const cards = [card({ title: "How the blanks were filled", name: "steps", data: () => ({ asked, answer }) }, replay.transport, replay.lines, key)];
    if (answer) cards.unshift(texts());
    keeping(stage, () => stage.replaceChildren(...cards));
  }

  function texts() {
    const columns = ["text", "log_prob", "passes"];
    const rows = () => [columns, ...answer.texts.map((row) => columns.map((name) => row[name]))];
    const cells = answer.texts.map((row) => [row.text, nats(row.log_prob), String(row.passes)]);
    return card({ title: "Texts", name: "texts", rows, data: () => answer },
      h("p", { class: "lead" }, answer.law),
      table("texts", ["text", "#log_prob", "#passes"], cells));
  }

  function drawControls() {
    const change = (name) => (value) => {
      Object.assign(state, { [name]: value, at: "" });
      address.save();
      ask();
    };
    const setSpeed = (speed) => {
      state.speed = speed;
      replay.player.speed = Number(speed);
      address.save();
    };
    const decoders = about.decoders.map((one) => [one.name, one.label, one.meaning]);
    keeping(controls, () => controls.replaceChildren(
      select("Decoder", state.decoder, decoders, change("decoder")),
      number("Texts", state.n_texts, { min: 1, max: about.limits.most_chains }, change("n_texts")),
      number("Seed", state.seed, { min: 0, max: 2 ** 31 }, change("seed")),
      select("Speed", state.speed, SPEEDS, setSpeed),
      h("button", { type: "button", class: "main", "data-key": "run", onclick: () => change("seed")(state.seed + 1) },
        "Run another")));
    said.textContent = `${entry().label}: ${entry().meaning}`;
  }

  const whole = about.by_character ? "sequences" : "sentences";
  const intro = `A decoder fills the blanks in a few passes. Each text is drawn independently of the others.`;
  root.append(
    h("section", { class: "intro" }, h("h1", {}, `New ${whole} by a decoder`), h("p", {}, intro)),
    sentence.element, controls, said, question.problem, stage, copying(() => about.api.ask("generate/copy", body())));
  sentence.begin();
  return () => { replay.stop(); sentence.leave(); };
}
