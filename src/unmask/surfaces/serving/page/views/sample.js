// Sample: chains as they run. Every step is kept, so that it can be paused, stepped and scrubbed.
import { card } from "../cards.js";
import { trace } from "../charts.js";
import { h, percent, select } from "../drawing/dom.js";
import { lasting } from "../drawing/update.js";
import { moved, Replay, SPEEDS } from "../replay.js";
import { drawnTable, sentences } from "../result.js";
import { maskedTemplate } from "../sentence.js";
import { view } from "../view.js";

const COLUMNS = ["sweep", "chain", "energy", "acceptance", "novelty", "text"];

export default view({
  name: "sample",
  title: "Sample",
  verb: "sample",
  options: ["kernel", "energy", "energy_temperature", "chains", "sweeps", "seed"],
  intro: (page) => [
    `A chain over ${page.text}s`,
    `The model proposes a ${page.word} for one place at a time; the energy of the whole text decides if it is taken.`,
  ],
  hint: (page) => `Chosen ${page.word}s are sampled, the others are held; if none is chosen, all are sampled.`,
  state: () => [
    { start: "blanks", speed: "30", at: "" },
    { start: ["sentence", "blanks"], speed: SPEEDS.map(([speed]) => speed) },
  ],

  make(page) {
    const { state, about } = page;
    page.forgotten = { at: "" };
    let asked = null;
    let begun = null;
    let run = null; // the run so far, and at the end the whole run
    let swept = [];

    const replay = new Replay({
      letters: about.by_character,
      unit: "sweep",
      frameShown: () => drawCurves(),
      stayed: (at) => { state.at = at; page.address.save("quiet"); },
      token: (position, frame, chain) => ({ kinds: [kindOf(frame.moves?.[chain], position)] }),
    });

    // What a step did at a position: took another token, refused one, or drew the same again.
    function kindOf(move, position) {
      const n = move ? move.positions.indexOf(position) : -1;
      if (n < 0) return "";
      if (move.changed[n]) return "novel";
      return move.proposed[n] ? "refused" : "same";
    }

    const sweeps = () => run?.settings.sweeps ?? begun.sweeps;
    const done = () => swept.at(-1)?.sweep ?? 0;
    const part = () => (page.question.stopped && done() < sweeps() ? `${done()} of ${sweeps()} sweeps` : "");

    function take(name, value) {
      if (name === "job") page.question.job = value.id;
      if (name === "begun") begin(value);
      if (name === "stepped") step(value);
      if (name === "swept") {
        swept.push(value);
        replay.frames.at(-1).swept = swept.length - 1;
      }
      if (name === "partial" || name === "answer") {
        run = value;
        page.show({ run });
      }
    }

    function begin(value) {
      begun = value;
      swept = [{ sweep: 0, energies: value.energies, acceptance: null, novelty: null, texts: value.texts }];
      const goal = state.at === "" ? null : Number(state.at);
      replay.begin({ free: value.free, speed: state.speed, goal });
      page.show({ run });
      page.question.stale(false);
      replay.add({ tokens: value.tokens, moves: null, swept: 0, sweep: 0 });
    }

    function step({ moves, sweep }) {
      const { tokens } = replay.frames.at(-1);
      replay.add({
        tokens: tokens.map((line, n) => moved(line, moves[n], moves[n].tokens)),
        moves, swept: swept.length - 1, sweep,
      });
      const steps = (replay.frames.length - 1) / begun.free.length;
      const past = Math.max(sweep - 1, Math.min(sweep, steps));
      if (!page.question.stopped) page.question.say(`sweep ${sweep} of ${begun.sweeps}`, past / begun.sweeps);
    }

    async function ask(question, body) {
      replay.stop();
      [asked, run, begun, swept] = [body, null, null, []];
      delete page.stage.dataset.passes;
      try {
        for await (const [name, value] of about.api.follow("sample", body, question.signal)) take(name, value);
      } finally {
        replay.end();
      }
      const { passes } = swept.at(-1);
      replay.where.title = `${(passes ?? 0).toLocaleString("en")} passes of the model`;
      page.stage.dataset.passes = passes;
      page.show({ run });
    }

    const facts = lasting(h("dl", { class: "facts" }));
    const energyBox = lasting(h("div", {}));
    const rateBox = lasting(h("div", {}));

    function cards() {
      const rows = () => [COLUMNS, ...swept.flatMap((one) => one.energies.map((energy, chain) =>
        [one.sweep, chain + 1, energy, one.acceptance, one.novelty, one.texts?.[chain]]))];
      const data = () => ({ asked, run, swept, stopped: part() || null });
      const files = { rows, data, part: part() };
      const of = () => [`“${asked.template}”`, about.model, ...run.view.about, ...run.view.verdict];
      const signs = [
        ["novel", `novel: another ${page.word} was taken`],
        ["ring", `refused: another ${page.word} was offered`],
        ["same", `redrawn, the same ${page.word}`],
      ];
      const key = h("p", { class: "key" }, signs.map(([kind, text]) => h("span", { class: kind }, text)));
      const curve = (caption, box) => h("figure", {}, h("figcaption", {}, caption), box);
      return [
        card({ title: "Texts of the chains", name: "chains", ...files }, replay.transport, replay.lines, key),
        run && verdictCard(),
        card({ title: "Sweep by sweep", name: "energies", ...files, of }, facts, h("div", { class: "columns" },
          curve("Energy of each chain", energyBox),
          curve("Share of steps accepted (blue) and novel (orange)", rateBox))),
      ];
    }

    // How far to trust the chains, in the sentences and numbers of the verb.
    function verdictCard() {
      const { about: lines, tables, verdict } = run.view;
      const numbers = (table, n) => drawnTable(table, { label: table.title || `numbers of the run, ${n + 1}` });
      const isSoFar = done() < sweeps() && !page.question.stopped;
      return card({
        title: isSoFar ? "So far" : "How far to trust them", name: "verdict", kind: "verdict", data: () => run,
        part: part(),
      },
        sentences(lines), tables.map(numbers), sentences(verdict, "lead"));
    }

    let drawn = "";
    function drawCurves() {
      const { frame } = replay;
      const now = swept[frame.swept] ?? swept[0];
      const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
      const share = (value) => (value === null ? "–" : percent(value));
      const mean = now.energies.reduce((sum, energy) => sum + energy, 0) / now.energies.length;
      facts.replaceChildren(
        fact(
          "accepted", share(now.acceptance)), fact("novel", share(now.novelty)), fact("mean energy", mean.toFixed(1)));
      const last = part() ? done() : begun.sweeps;
      const stamp = `${swept.length} ${frame.swept} ${last}`;
      if (stamp === drawn) return;
      drawn = stamp;
      const x = swept.map((one) => one.sweep);
      const energies = frame.tokens.map((_, chain) => ({ x, y: swept.map((one) => one.energies[chain]) }));
      energyBox.replaceChildren(trace(energies, { label: "energy of each chain over sweeps", now: now.sweep, last }));
      const known = swept.filter((one) => one.acceptance !== null);
      const rates = ["acceptance", "novelty"].map((name) => ({
        x: known.map((one) => one.sweep), y: known.map((one) => one[name]),
      }));
      const label = "acceptance and novelty over sweeps";
      rateBox.replaceChildren(trace(rates, { label, now: now.sweep, range: [0, 1], last }));
    }

    const setSpeed = (speed) => {
      replay.player.speed = Number(speed);
      page.set({ speed }, { ask: false });
    };
    const starts = [["blanks", "blanks"], ["sentence", `the ${page.text}`]];

    return {
      body: () => {
        const { sentence } = page;
        if (!sentence.words.length) return `Write a ${page.text}.`;
        const start = state.start === "sentence" && !sentence.typed ? { start: sentence.whole } : {};
        return { template: maskedTemplate(sentence), ...start, ...page.options() };
      },
      ask,
      controls: () => [
        page.option("kernel", { label: "Kernel" }),
        page.option("energy", { label: "Energy" }),
        select("Start from", state.start, starts, (start) => page.set({ start, at: "" })),
        page.option("energy_temperature", { label: "Temperature" }),
        page.option("chains", { label: "Chains" }),
        page.option("sweeps", { label: "Sweeps" }),
        page.option("seed", { label: "Seed" }),
        select("Speed", state.speed, SPEEDS, setSpeed),
        h("button", {
          type: "button", class: "main", "data-key": "run", onclick: () => page.set({
            seed: Number(state.seed) + 1, at: "",
          }),
        }, "Run another"),
        h("p", { class: "note" }, page.meaning("kernel")),
      ],
      cards,
      tell: () => {
        const last = swept.at(-1);
        const energies = last.energies.map((energy, n) => [`energy of chain ${n + 1}`, energy]);
        const rates = { accepted: last.acceptance, novel: last.novelty };
        return { by: "the last sweep", values: { ...rates, ...Object.fromEntries(energies) } };
      },
      past: () => asked.template,
      leave: () => replay.stop(),
    };
  },
});
