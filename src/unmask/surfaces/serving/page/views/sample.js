// Sample: a chain, or a decoder, as it runs. Every step is kept, so that it can be paused, stepped and scrubbed.
import { keeping, Question } from "../ask.js";
import { card, copying } from "../cards.js";
import { trace } from "../charts.js";
import { direction, h, number, percent, select, shown } from "../drawing/dom.js";
import { remember } from "../past.js";
import { Player } from "../player.js";
import { Sentence } from "../sentence.js";
import { Address } from "../state.js";

const SPEEDS = [["2", "slow"], ["8", "a few steps a second"], ["30", "fast"], ["240", "as fast as it comes"]];

export function open(root, about, values) {
  const [word, example] = [about.by_character ? "residue" : "word", about.examples.sample ?? { text: "", blanks: "" }];
  const address = new Address(about, "sample", values, { text: example.text, blanks: example.blanks, pin: "", start: "sentence", kernel: "mh", energy: "norm", energy_temperature: 1, chains: 2, sweeps: 10, seed: 0, speed: "8", at: "" },
    { kernel: about.kernels.map((one) => one.name), energy: ["norm", "raw"], start: ["sentence", "blanks"], speed: SPEEDS.map(([speed]) => speed) });
  const { state } = address;
  const [controls, stage, said] = [h("div", { class: "controls" }), h("div", { class: "stack" }), h("p", { class: "note" })];
  const question = new Question(about.api, stage, `Chosen ${word}s are sampled, the others are held; if none is chosen, all are sampled.`);
  const entry = () => about.kernels.find((k) => k.name === state.kernel);
  const uses = (option) => entry().options.includes(option);
  let begun = null;
  let asked = null;
  let swept = [];

  const sentence = new Sentence({
    about, question, state,
    change: (reason) => {
      if (reason !== "begin") Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin, at: "" });
      address.save(reason === "begin" ? "quiet" : reason);
      if (reason !== "refused") run();
    } });

  const player = new Player(draw);
  const template = () => sentence.template((one) => Array(one.pieces).fill("[MASK]").join(about.by_character ? "" : " "), (i) => !sentence.pressed.size || sentence.pressed.has(i), true);
  const body = () => ({
    template: template(), init: state.start === "sentence" && uses("init") && !sentence.typed ? sentence.whole : null, kernel: state.kernel, energy: state.energy, energy_temperature: uses("energy_temperature") ? state.energy_temperature : null, chains: state.chains, sweeps: entry().decodes ? null : state.sweeps, seed: state.seed });
  const sweepsAsked = () => asked.sweeps ?? 1;
  const unit = () => (entry().decodes ? "decoding" : "sweep");
  const part = () => { const done = swept.at(-1)?.sweep ?? 0; return question.stopped && done < sweepsAsked() ? `${done} of ${sweepsAsked()} ${unit()}s` : ""; };

  // Where the address says that a run was paused, it is paused.
  function run() {
    about.asks?.();
    player.stop();
    drawControls();
    if (!sentence.words.length) return question.clear(h("p", { class: "empty" }, `Write a ${about.by_character ? "sequence" : "sentence"}.`));
    return question.run(async ({ signal }) => {
      asked = body();
      const goal = state.at === "" ? null : Number(state.at);
      const decodes = entry().decodes;
      Object.assign(player, { frames: [], at: 0, ended: false, carry: 0, speed: Number(state.speed) });
      swept = [];
      delete stage.dataset.passes;
      try {
        for await (const [name, value] of about.api.follow("sample", asked, signal)) {
          if (name === "job") question.job = value.id;
          if (name === "begun") {
            begun = value;
            stage.replaceChildren(...cards);
            question.stale(false);
            swept.push({ sweep: 0, energies: value.energies, acceptance: null, novelty: null, r_hat: null, texts: value.texts });
            player.add({ tokens: value.tokens, sure: value.tokens.map((line) => line.map(() => null)), moves: null, swept: 0, sweep: 0 });
            if (goal === null) player.play();
          } else if (name === "stepped") {
            const last = player.frames.at(-1);
            const tokens = last.tokens.map((line, chain) => moved(line, value.moves[chain], value.moves[chain].tokens));
            const sure = decodes ? last.sure.map((line, chain) => moved(line, value.moves[chain], value.moves[chain].confidence)) : last.sure;
            player.add({ tokens, sure, moves: value.moves, swept: swept.length - 1, sweep: value.sweep });
            if (player.frames.length - 1 === goal) player.go(goal);
            const past = decodes ? 0 : Math.min(value.sweep, (player.frames.length - 1) / begun.free.length);
            if (!question.stopped) question.say(`${unit()} ${value.sweep} of ${sweepsAsked()}`, Math.max(value.sweep - 1, past) / sweepsAsked());
          } else if (name === "swept") {
            swept.push(value);
            player.frames.at(-1).swept = swept.length - 1;
          }
        }
      } finally {
        player.ended = true;
      }
      if (!player.playing && player.frames.length) draw();
      const last = swept.at(-1);
      where.title = `${last.passes?.toLocaleString("en") ?? 0} passes of the model`;
      about.tell?.({ by: `the last ${unit()}`, values: { "accepted": last.acceptance, "novel": last.novelty, "R-hat of the energy": last.r_hat, ...Object.fromEntries(last.energies.map((energy, n) => [`energy of chain ${n + 1}`, energy])) } });
      stage.dataset.passes = last.passes;
      drawFiles();
      if (!about.second) remember("Sample", asked.template);
    });
  }

  const stay = (at) => { player.pause(); player.go(at); state.at = String(player.at); address.save("quiet"); };

  function moved(line, move, by) {
    const next = [...line];
    move.positions.forEach((position, n) => { next[position] = by[n]; });
    return next;
  }

  const button = (label, text, act) => h("button", { type: "button", "aria-label": label, "data-key": `play:${text}`, onclick: act }, text);
  const play = button("Pause", "❚❚ Pause", () => { if (player.playing) return stay(player.at); state.at = ""; address.save("quiet"); player.play(); return undefined; });
  const scrub = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "step of the chain", oninput: () => stay(Number(scrub.value)) });
  const where = h("output", {});
  const lines = h("div", { class: "chains", role: "group", "aria-label": "the chains' texts" });
  const [facts, energyBox, rateBox, key] = [h("dl", { class: "facts" }), h("div", {}), h("div", {}), h("p", { class: "key" })];
  const rates = h("figure", {}, h("figcaption", {}, "Share of steps accepted (blue) and novel (orange)"), rateBox);
  let cards = [];

  // The cards are made once for each run, and their files say where it was stopped.
  function drawFiles() {
    const rows = () => [["sweep", "chain", "energy", "acceptance", "novelty", "r_hat", "text"], ...swept.flatMap((one) => one.energies.map((energy, chain) => [one.sweep, chain + 1, energy, one.acceptance, one.novelty, one.r_hat, one.texts?.[chain]]))];
    const files = { rows, data: () => ({ asked, begun, swept, stopped: part() || null }), part: asked ? part() : "" };
    const of = () => [`“${asked.template}”`, `${about.model}, ${entry().label}`];
    cards = [
      card({ title: "Texts of the chains", name: "chains", ...files }, h("div", { class: "transport" }, play, button("Back one step", "‹ Back", () => stay(player.at - 1)), button("Step on", "Step ›", () => stay(player.at + 1)), scrub, where), lines, key),
      card({ title: "Sweep by sweep", name: "energies", ...files, of }, facts, h("div", { class: "columns" }, h("figure", {}, h("figcaption", {}, "Energy of each chain"), energyBox), rates))];
    if (stage.childElementCount) keeping(stage, () => stage.replaceChildren(...cards));
  }

  let drawn = -1;
  function draw() {
    const frame = player.frames[player.at];
    if (!frame) return;
    play.textContent = player.playing ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    scrub.max = player.frames.length - 1;
    scrub.value = player.at;
    where.textContent = `step ${player.at} of ${player.frames.length - 1}, ${unit()} ${frame.sweep}`;
    const free = new Set(begun.free);
    lines.replaceChildren(...frame.tokens.map((line, chain) => h("div", { class: about.by_character ? "chain letters" : "chain", dir: direction(line.slice(1).join(" ")) }, h("span", { class: "who" }, String(chain + 1)), line.map((token, position) => one(token, position, frame, chain, free)))));
    const now = swept[frame.swept] ?? swept[0];
    const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    facts.replaceChildren(
      ...(entry().decodes ? [] : [fact("accepted", now.acceptance === null ? "–" : percent(now.acceptance)), fact("novel", now.novelty === null ? "–" : percent(now.novelty)), fact("R-hat of the energy", now.r_hat === null ? "–" : now.r_hat.toFixed(2))]), fact("mean energy", now.energies.length ? (now.energies.reduce((a, b) => a + b, 0) / now.energies.length).toFixed(1) : "–"));
    const last = part() ? swept.at(-1).sweep : sweepsAsked();
    const stamp = `${swept.length} ${frame.swept} ${last}`;
    if (stamp === drawn) return;
    drawn = stamp;
    const past = swept.filter((s) => s.energies.length);
    const series = frame.tokens.map((_, chain) => ({ x: past.map((s) => s.sweep), y: past.map((s) => s.energies[chain]) }));
    energyBox.replaceChildren(trace(series, { label: "energy of each chain over sweeps", now: now.sweep, last, unit: unit() }));
    const shares = swept.filter((s) => s.acceptance !== null);
    rates.hidden = entry().decodes;
    rateBox.replaceChildren(trace(["acceptance", "novelty"].map((name) => ({ x: shares.map((s) => s.sweep), y: shares.map((s) => s[name]) })), { label: "acceptance and novelty over sweeps", now: now.sweep, range: [0, 1], last }));
  }

  // A token of a chain: novel, refused or redrawn. Of a decoder: as dark as the model was sure of it, with the draft that was rejected there.
  function one(token, position, { tokens, sure, moves }, chain, free) {
    const [line, move] = [tokens[chain], moves?.[chain]];
    const special = /^[[<].*[\]>]$/.test(token);
    if (special && (position === 0 || position === line.length - 1)) return null;
    const n = move ? move.positions.indexOf(position) : -1;
    const decodes = entry().decodes;
    const kind = n < 0 ? "" : decodes ? "new" : move.changed[n] ? "novel" : move.proposed[n] ? "refused" : "same";
    const piece = token.startsWith("##");
    const draft = move?.rejected.find(([at]) => at === position);
    const confidence = decodes && free.has(position) && !special ? sure[chain][position] : null;
    return h("span", { class: `token ${kind} ${free.has(position) ? "" : "held"} ${piece ? "piece" : ""} ${confidence === null ? "" : "sure"} ${special ? "blank" : ""}`, "--p": confidence, title: confidence === null ? null : `${percent(confidence)} when it was chosen` },
      special ? "▁" : piece ? token.slice(2) : shown(token), draft ? h("s", { class: "draft", title: "drafted, and rejected" }, shown(draft[1].replace(/^##/, ""))) : null);
  }

  function drawControls() {
    const change = (name) => (value) => { Object.assign(state, { [name]: value, at: "" }); address.save(); run(); };
    keeping(controls, () => controls.replaceChildren(...[
      select("Kernel or decoder", state.kernel, about.kernels.map((k) => [k.name, k.label, k.step]), change("kernel")),
      select("Energy", state.energy, [["norm", "normalised"], ["raw", "raw"]], change("energy")),
      uses("init") ? select("Start from", state.start, [["sentence", about.by_character ? "the sequence" : "the sentence"], ["blanks", "blanks"]], change("start")) : null,
      uses("energy_temperature") ? number("Temperature", state.energy_temperature, { min: 0.05, max: 100, step: 0.05 }, change("energy_temperature")) : null,
      number(entry().decodes ? "Texts" : "Chains", state.chains, { min: 1, max: about.limits.most_chains }, change("chains")),
      entry().decodes ? null : number("Sweeps", state.sweeps, { min: 1, max: about.limits.most_sweeps }, change("sweeps")),
      number("Seed", state.seed, { min: 0, max: 2 ** 31 }, change("seed")),
      select("Speed", state.speed, SPEEDS, (speed) => { state.speed = speed; player.speed = Number(speed); address.save(); }),
      h("button", { type: "button", class: "main", "data-key": "run", onclick: () => change("seed")(state.seed + 1) }, "Run another")].filter(Boolean)));
    said.textContent = `${entry().label}: ${entry().meaning}${entry().decodes ? "" : ` It leaves invariant: ${entry().law}.`}`;
    const signs = entry().decodes
      ? [["", "the stronger the colour, the surer the model was of it"], ["box", "filled in this step"], ...(state.kernel === "verified" ? [["struck", "struck out: drafted, and rejected"]] : [])]
      : [["novel", `novel: another ${word} was taken`], ["ring", `refused: another ${word} was offered`], ["same", `redrawn, the same ${word}`]];
    key.replaceChildren(...signs.map(([kind, text]) => h("span", { class: kind }, text)));
  }

  drawFiles();
  root.append(
    h("section", { class: "intro" }, h("h1", {}, `A chain over ${about.by_character ? "sequences" : "sentences"}`), h("p", {}, `The model proposes a ${word} for one place at a time; the energy of the whole text decides whether it is taken. A decoder fills blanks in a few steps.`)),
    sentence.element, controls, said, question.problem, stage, copying(() => about.api.ask("sample/copy", body())));
  sentence.begin();
  return () => { player.stop(); sentence.leave(); };
}
