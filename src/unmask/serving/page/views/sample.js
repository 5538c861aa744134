// Sample: a chain as it runs. Every step is kept, so that it can be paused, stepped and scrubbed.
import { follow, Latest } from "../api.js";
import { call, command, copying, made, shell } from "../copy.js";
import { direction, failure, h, number, percent, select, shown } from "../drawing/dom.js";
import { card } from "../files.js";
import { keeping } from "../focus.js";
import { remember } from "../past.js";
import { Player } from "../player.js";
import { Sentence } from "../sentence.js";
import { trace } from "../trace.js";
import { Address } from "../state.js";

const SPEEDS = [["2", "slow"], ["8", "a few steps a second"], ["30", "fast"], ["240", "as fast as it comes"]];

export function open(root, about, values) {
  const example = about.examples.sample ?? { text: "", blanks: "" };
  const address = new Address("sample", values, { text: example.text, blanks: example.blanks, pin: "", start: "sentence", kernel: "mh", energy: "norm", temperature: 1, chains: 2, sweeps: 20, seed: 0, speed: "8", ran: false, at: "" });
  const { state } = address;
  const latest = new Latest();
  const [problem, stage] = [h("div", { class: "slot" }), h("div", { class: "stack", hidden: true })];
  const controls = h("div", { class: "controls" });
  const entry = () => about.kernels.find((k) => k.name === state.kernel) ?? about.kernels[0];
  const uses = (option) => entry().options.includes(option);
  let begun = null;
  let asked = null;
  let swept = [];

  const sentence = new Sentence({
    about, text: state.text, blanks: state.blanks, pin: state.pin, hides: false, hint: "Chosen words are sampled, the others are held; if none is chosen, all are sampled. Click to change.",
    change: (reason) => {
      if (reason === "begin") {
        address.save("quiet");
        if (state.ran) run();
        return;
      }
      Object.assign(state, { text: sentence.text, blanks: sentence.blanks, pin: sentence.pin, ran: false, at: "" });
      address.save(reason);
    },
    fail: (error) => { state.text = sentence.text; address.save("typing"); problem.replaceChildren(failure(error)); } });
  const { status } = sentence;

  const player = new Player(draw);
  const template = () => sentence.template((word) => Array(word.pieces).fill("[MASK]").join(about.by_character ? "" : " "), (i) => !sentence.pressed.size || sentence.pressed.has(i), true);
  const body = () => ({
    template: template(), init: state.start === "sentence" && uses("init") && !sentence.typed ? sentence.whole : null,
    kernel: state.kernel, energy: state.energy, temperature: uses("temperature") ? state.temperature : null, chains: state.chains, sweeps: state.sweeps, seed: state.seed });

  // A run that is in the address runs again; where it was paused, it is paused.
  async function run() {
    const goal = state.at === "" ? null : Number(state.at);
    player.stop();
    Object.assign(player, { frames: [], at: 0, ended: false, carry: 0, speed: Number(state.speed) });
    swept = [];
    problem.replaceChildren();
    const signal = latest.begin();
    asked = body();
    status.say("the chains find their starts …");
    status.stoppable(() => { latest.stop(); player.ended = true; status.say(`Stopped after sweep ${swept.at(-1)?.sweep ?? 0} of ${asked.sweeps}.`); status.stoppable(null); });
    try {
      for await (const [name, value] of follow("sample", asked, signal)) {
        if (name === "begun") {
          begun = value;
          stage.hidden = false;
          swept.push({ sweep: 0, energies: value.energies, acceptance: null, novelty: null, r_hat: null, texts: value.texts });
          player.add({ tokens: value.tokens, moves: null, swept: 0, sweep: 0 });
          if (goal === null) player.play();
        } else if (name === "stepped") {
          const last = player.frames.at(-1).tokens;
          const tokens = last.map((line, chain) => moved(line, value.moves[chain]));
          player.add({ tokens, moves: value.moves, swept: swept.length - 1, sweep: value.sweep });
          if (player.frames.length - 1 === goal) player.go(goal);
          status.say(`sweep ${value.sweep} of ${asked.sweeps}`, value.sweep / asked.sweeps);
        } else if (name === "swept") {
          swept.push(value);
          player.frames.at(-1).swept = swept.length - 1;
        }
      }
      status.say(`${swept.at(-1)?.passes?.toLocaleString("en") ?? 0} passes of the model`);
      player.ended = true;
      const last = swept.at(-1);
      about.tell?.({ by: "the chains’ last sweep", values: { "accepted": last.acceptance, "novel": last.novelty, "R-hat of the energy": last.r_hat, ...Object.fromEntries(last.energies.map((energy, n) => [`energy of chain ${n + 1}`, energy])) } });
      remember("Sample", asked.template);
    } catch (error) {
      player.ended = true;
      if (error.name === "AbortError") return;
      status.say("");
      problem.replaceChildren(failure(error));
    }
    status.stoppable(null);
    if (!player.playing && player.frames.length) draw();
  }

  const start = () => { Object.assign(state, { ran: true, at: "" }); address.save(); run(); };
  const stay = (at) => { player.pause(); player.go(at); state.at = String(player.at); address.save("quiet"); };

  function moved(line, move) {
    const next = [...line];
    move.positions.forEach((position, n) => { next[position] = move.tokens[n]; });
    return next;
  }

  const button = (label, text, act) => h("button", { type: "button", "aria-label": label, onclick: act }, text);
  const play = button("Pause", "❚❚ Pause", () => { if (player.playing) return stay(player.at); state.at = ""; address.save("quiet"); player.play(); return undefined; });
  const scrub = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "step of the chain", oninput: () => stay(Number(scrub.value)) });
  const where = h("output", {});
  const lines = h("div", { class: "chains", role: "group", "aria-label": "the chains' texts" });
  const numbersBox = h("dl", { class: "facts" });
  const energies = h("figure", {});
  const rates = h("figure", {});
  const [energyBox, rateBox] = [h("div", {}), h("div", {})];
  energies.append(h("figcaption", {}, "Energy of each chain"), energyBox);
  rates.append(h("figcaption", {}, "Share of steps accepted (blue) and novel (orange)"), rateBox);
  const energyRows = () => [["sweep", "chain", "energy", "acceptance", "novelty", "r_hat", "text"], ...swept.flatMap((one) => one.energies.map((energy, chain) => [one.sweep, chain + 1, energy, one.acceptance, one.novelty, one.r_hat, one.texts?.[chain]]))];
  const files = { rows: energyRows, data: () => ({ asked, begun, swept }) };
  stage.append(
    card({ title: "Texts of the chains", name: "chains", ...files }, h("div", { class: "transport" }, play, button("One step back", "‹ Back", () => stay(player.at - 1)), button("One step on", "Step ›", () => stay(player.at + 1)), scrub, where),
      lines, h("p", { class: "key" }, h("span", { class: "less" }, "novel: another word was taken"), h("span", { class: "ring" }, "refused: another word was offered"), h("span", {}, "redrawn, the same word"))),
    card({ title: "Sweep by sweep", name: "energies", ...files }, numbersBox, h("div", { class: "columns" }, energies, rates)));

  let drawn = -1;
  function draw() {
    const frame = player.frames[player.at];
    if (!frame) return;
    play.textContent = player.playing ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    scrub.max = player.frames.length - 1;
    scrub.value = player.at;
    where.textContent = `step ${player.at} of ${player.frames.length - 1}, sweep ${frame.sweep}`;
    const free = new Set(begun.free);
    lines.replaceChildren(...frame.tokens.map((line, chain) => h("div", { class: about.by_character ? "chain letters" : "chain", dir: direction(line.slice(1).join(" ")) }, h("span", { class: "who" }, String(chain + 1)), line.map((token, position) => word(token, position, frame.moves?.[chain], free, line)))));
    const told = swept[frame.swept] ?? swept[0];
    const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    numbersBox.replaceChildren(
      fact("accepted", told.acceptance === null ? "–" : percent(told.acceptance)), fact("novel", told.novelty === null ? "–" : percent(told.novelty)),
      fact("R-hat of the energy", told.r_hat === null ? "–" : told.r_hat.toFixed(2)), fact("mean energy", told.energies.length ? (told.energies.reduce((a, b) => a + b, 0) / told.energies.length).toFixed(1) : "–"));
    const stamp = swept.length * 1e6 + frame.swept;
    if (stamp === drawn) return;
    drawn = stamp;
    const past = swept.filter((s) => s.energies.length);
    const series = frame.tokens.map((_, chain) => ({ x: past.map((s) => s.sweep), y: past.map((s) => s.energies[chain]) }));
    energyBox.replaceChildren(trace(series, { label: "energy of each chain over sweeps", now: told.sweep, last: state.sweeps }));
    const told2 = swept.filter((s) => s.acceptance !== null);
    rateBox.replaceChildren(trace([{ x: told2.map((s) => s.sweep), y: told2.map((s) => s.acceptance) }, { x: told2.map((s) => s.sweep), y: told2.map((s) => s.novelty) }], { label: "acceptance and novelty over sweeps", now: told.sweep, range: [0, 1], last: state.sweeps }));
  }

  function word(token, position, move, free, line) {
    if (position === 0 || position === line.length - 1) if (/^[[<].*[\]>]$/.test(token)) return null;
    const n = move ? move.positions.indexOf(position) : -1;
    const kind = n < 0 ? "" : move.changed[n] ? "novel" : move.proposed[n] ? "refused" : "same";
    const piece = token.startsWith("##");
    return h("span", { class: `token ${kind} ${free.has(position) ? "" : "held"} ${piece ? "piece" : ""}` }, piece ? token.slice(2) : shown(token));
  }

  function drawControls() {
    const change = (name) => (value) => { Object.assign(state, { [name]: value, ran: false, at: "" }); address.save(); drawControls(); };
    keeping(controls, () => controls.replaceChildren(...[
      select("Kernel or decoder", state.kernel, about.kernels.map((k) => [k.name, k.label, k.step]), change("kernel")),
      select("Energy", state.energy, [["norm", "normalised"], ["raw", "raw"]], change("energy")),
      uses("init") ? select("Start from", state.start, [["sentence", "the sentence"], ["blanks", "blanks"]], change("start")) : null,
      uses("temperature") ? number("Temperature", state.temperature, { min: 0.05, max: 100, step: 0.05 }, change("temperature")) : null,
      number("Chains", state.chains, { min: 1, max: about.limits.most_chains }, change("chains")),
      number("Sweeps", state.sweeps, { min: 1, max: about.limits.most_sweeps }, change("sweeps")),
      number("Seed", state.seed, { min: 0, max: 2 ** 31 }, change("seed")),
      select("Speed", state.speed, SPEEDS, (speed) => { state.speed = speed; player.speed = Number(speed); address.save(); }),
      h("button", { type: "button", class: "main", "data-key": "run", onclick: start }, "Run")].filter(Boolean)));
    said.textContent = `${entry().label}: ${entry().step}. It leaves invariant: ${entry().invariant}.`;
  }

  const said = h("p", { class: "note" });
  root.append(
    h("section", { class: "intro" }, h("h1", {}, "A chain over sentences"), h("p", {}, "The model proposes a word for one place at a time; the energy of the whole sentence decides whether it is taken.")),
    sentence.element, controls, said, problem, stage,
    copying(() => {
      const { template: held, init, kernel, temperature, ...rest } = body();
      const method = temperature === null ? kernel : { code: made(entry().class, [], { temperature }) };
      const start = init ? { code: made("Start", [], { init: [init] }) } : null;
      return {
        python: `print(${call(about, "sample", [held], { kernel: method, ...rest, start })}.last)`,
        command: command(about, "sample", [held], { kernel, temperature, ...rest, init: init ? "-" : null }).replace(/^/, init ? `printf '%s\\n' ${shell(init)} | ` : "") };
    }));
  drawControls();
  sentence.begin();
  return () => { latest.stop(); player.stop(); sentence.leave(); };
}
