// Sample: chains as they run. Every step is kept, so that it can be paused, stepped and scrubbed.
import { keeping, Question } from "../ask.js";
import { card, copying } from "../cards.js";
import { trace } from "../charts.js";
import { h, number, percent, select } from "../drawing/dom.js";
import { remember } from "../past.js";
import { moved, Replay, SPEEDS } from "../replay.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

const COLUMNS = ["sweep", "chain", "energy", "acceptance", "novelty", "text"];

export function open(root, about, values) {
  const word = about.by_character ? "residue" : "word";
  const whole = about.by_character ? "sequence" : "sentence";
  const example = about.examples.sample ?? { text: "", blanks: "" };
  const defaults = {
    text: example.text, blanks: example.blanks, pin: "", start: "sentence", kernel: "mh", energy: "norm",
    energy_temperature: 1, chains: 2, sweeps: 10, seed: 0, speed: "8", at: "",
  };
  const allowed = {
    kernel: about.kernels.map((one) => one.name), energy: ["norm", "raw"], start: ["sentence", "blanks"],
    speed: SPEEDS.map(([speed]) => speed),
  };
  const address = new Address(about, "sample", values, defaults, allowed);
  const { state } = address;
  const controls = h("div", { class: "controls" });
  const said = h("p", { class: "note" });
  const stage = h("div", { class: "stack" });
  const hint = `Chosen ${word}s are sampled, the others are held; if none is chosen, all are sampled.`;
  const question = new Question(about.api, stage, hint);
  const entry = () => about.kernels.find((one) => one.name === state.kernel);
  const uses = (option) => entry().options.includes(option);
  let asked = null;
  let answer = null; // the run so far, and at the end the whole run
  let begun = null;
  let swept = [];

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
    unit: "sweep",
    frameShown: () => drawCurves(),
    stayed: (at) => { state.at = at; address.save("quiet"); },
    token: (position, frame, chain) => ({ kinds: [kindOf(frame.moves?.[chain], position)] }),
  });

  // What a step did at a position: took another token, refused one, or drew the same again.
  function kindOf(move, position) {
    const n = move ? move.positions.indexOf(position) : -1;
    if (n < 0) return "";
    if (move.changed[n]) return "novel";
    return move.proposed[n] ? "refused" : "same";
  }

  function template() {
    const masks = (one) => Array(one.pieces).fill("[MASK]").join(about.by_character ? "" : " ");
    const chosen = (i) => !sentence.pressed.size || sentence.pressed.has(i);
    return sentence.template(masks, chosen, true);
  }

  const body = () => ({
    template: template(),
    start: state.start === "sentence" && !sentence.typed ? sentence.whole : null,
    kernel: state.kernel,
    energy: state.energy,
    energy_temperature: uses("energy_temperature") ? state.energy_temperature : null,
    chains: state.chains,
    sweeps: state.sweeps,
    seed: state.seed,
  });

  const done = () => swept.at(-1)?.sweep ?? 0;
  const isPart = () => question.stopped && done() < asked.sweeps;
  const part = () => (asked && isPart() ? `${done()} of ${asked.sweeps} sweeps` : "");

  // Where the address says that a run was paused, it is paused.
  function ask() {
    about.asks?.();
    replay.stop();
    drawControls();
    if (!sentence.words.length) return question.clear(h("p", { class: "empty" }, `Write a ${whole}.`));
    return question.run(async ({ signal }) => {
      asked = body();
      answer = null;
      swept = [];
      delete stage.dataset.passes;
      try {
        for await (const [name, value] of about.api.follow("sample", asked, signal)) take(name, value);
      } finally {
        replay.end();
      }
      const last = swept.at(-1);
      replay.where.title = `${(last.passes ?? 0).toLocaleString("en")} passes of the model`;
      const energies = last.energies.map((energy, n) => [`energy of chain ${n + 1}`, energy]);
      const rates = { accepted: last.acceptance, novel: last.novelty };
      about.tell?.({ by: "the last sweep", values: { ...rates, ...Object.fromEntries(energies) } });
      stage.dataset.passes = last.passes;
      draw();
      if (!about.second) remember("Sample", asked.template);
    });
  }

  function take(name, value) {
    if (name === "job") question.job = value.id;
    if (name === "begun") {
      begun = value;
      const goal = state.at === "" ? null : Number(state.at);
      replay.begin({ free: value.free, speed: state.speed, goal });
      draw();
      question.stale(false);
      swept.push({ sweep: 0, energies: value.energies, acceptance: null, novelty: null, texts: value.texts });
      replay.add({ tokens: value.tokens, moves: null, swept: 0, sweep: 0 });
    } else if (name === "stepped") {
      const { tokens } = replay.frames.at(-1);
      replay.add({
        tokens: tokens.map((line, n) => moved(line, value.moves[n], value.moves[n].tokens)),
        moves: value.moves, swept: swept.length - 1, sweep: value.sweep,
      });
      const steps = (replay.frames.length - 1) / begun.free.length;
      const past = Math.max(value.sweep - 1, Math.min(value.sweep, steps));
      if (!question.stopped) question.say(`sweep ${value.sweep} of ${asked.sweeps}`, past / asked.sweeps);
    } else if (name === "swept") {
      swept.push(value);
      replay.frames.at(-1).swept = swept.length - 1;
    } else if (name === "partial" || name === "answer") {
      answer = value;
      drawVerdict();
    }
  }

  const facts = h("dl", { class: "facts" });
  const verdict = h("div", { class: "verdict", role: "status" });
  const energyBox = h("div", {});
  const rateBox = h("div", {});
  let drawn = "";

  // The cards are made once for each run, and their files say where it was stopped.
  function draw() {
    const rows = () => [COLUMNS, ...swept.flatMap((one) => one.energies.map((energy, chain) =>
      [one.sweep, chain + 1, energy, one.acceptance, one.novelty, one.texts?.[chain]]))];
    const data = () => ({ asked, answer, swept, stopped: part() || null });
    const files = { rows, data, part: part() };
    const of = () => [`“${asked.template}”`, `${about.model}, ${entry().label}`, ...(answer?.diagnosis.verdict ?? [])];
    const signs = [
      ["novel", `novel: another ${word} was taken`],
      ["ring", `refused: another ${word} was offered`],
      ["same", `redrawn, the same ${word}`],
    ];
    const key = h("p", { class: "key" }, signs.map(([kind, text]) => h("span", { class: kind }, text)));
    const caption = (text, box) => h("figure", {}, h("figcaption", {}, text), box);
    const cards = [
      card({ title: "Texts of the chains", name: "chains", ...files }, replay.transport, replay.lines, key),
      card({ title: "Sweep by sweep", name: "energies", ...files, of }, verdict, facts, h("div", { class: "columns" },
        caption("Energy of each chain", energyBox),
        caption("Share of steps accepted (blue) and novel (orange)", rateBox))),
    ];
    keeping(stage, () => stage.replaceChildren(...cards));
    drawn = "";
    drawVerdict();
    if (replay.frames.length) drawCurves();
  }

  // How far to trust the chains, in the sentences of `unmask diagnose`.
  function drawVerdict() {
    const sentences = answer?.diagnosis.verdict ?? [];
    const after = answer && answer.diagnosis.draws < asked.sweeps ? `After ${answer.diagnosis.draws} sweeps:` : "";
    const lines = sentences.map((sentence, n) => h("p", { class: n ? "note" : "lead" }, sentence));
    verdict.replaceChildren(...(after ? [h("p", { class: "note" }, after)] : []), ...lines);
  }

  function drawCurves() {
    const { frame } = replay;
    const now = swept[frame.swept] ?? swept[0];
    const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const share = (value) => (value === null ? "–" : percent(value));
    const mean = now.energies.reduce((sum, energy) => sum + energy, 0) / now.energies.length;
    facts.replaceChildren(
      fact("accepted", share(now.acceptance)), fact("novel", share(now.novelty)), fact("mean energy", mean.toFixed(1)));
    const last = isPart() ? done() : asked.sweeps;
    const stamp = `${swept.length} ${frame.swept} ${last}`;
    if (stamp === drawn) return;
    drawn = stamp;
    const sweeps = swept.map((one) => one.sweep);
    const energies = frame.tokens.map((_, chain) => ({ x: sweeps, y: swept.map((one) => one.energies[chain]) }));
    energyBox.replaceChildren(trace(energies, { label: "energy of each chain over sweeps", now: now.sweep, last }));
    const known = swept.filter((one) => one.acceptance !== null);
    const rates = ["acceptance", "novelty"].map((name) => ({
      x: known.map((one) => one.sweep), y: known.map((one) => one[name]),
    }));
    const label = "acceptance and novelty over sweeps";
    rateBox.replaceChildren(trace(rates, { label, now: now.sweep, range: [0, 1], last }));
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
    const kernels = about.kernels.map((one) => [one.name, one.label, one.meaning]);
    const most = about.limits;
    const starts = [["sentence", `the ${whole}`], ["blanks", "blanks"]];
    const temperature = { min: 0.05, max: 100, step: 0.05 };
    keeping(controls, () => controls.replaceChildren(...[
      select("Kernel", state.kernel, kernels, change("kernel")),
      select("Energy", state.energy, [["norm", "normalised"], ["raw", "raw"]], change("energy")),
      select("Start from", state.start, starts, change("start")),
      uses("energy_temperature")
        ? number("Temperature", state.energy_temperature, temperature, change("energy_temperature")) : null,
      number("Chains", state.chains, { min: 1, max: most.most_chains }, change("chains")),
      number("Sweeps", state.sweeps, { min: 1, max: most.most_sweeps }, change("sweeps")),
      number("Seed", state.seed, { min: 0, max: 2 ** 31 }, change("seed")),
      select("Speed", state.speed, SPEEDS, setSpeed),
      h("button", { type: "button", class: "main", "data-key": "run", onclick: () => change("seed")(state.seed + 1) },
        "Run another")].filter(Boolean)));
    said.textContent = `${entry().label}: ${entry().meaning} It leaves invariant: ${entry().law}.`;
  }

  const intro = `The model proposes a ${word} for one place at a time; the energy of the whole text decides whether it is taken.`;
  root.append(
    h("section", { class: "intro" }, h("h1", {}, `A chain over ${whole}s`), h("p", {}, intro)),
    sentence.element, controls, said, question.problem, stage, copying(() => about.api.ask("sample/copy", body())));
  sentence.begin();
  return () => { replay.stop(); sentence.leave(); };
}
