// Sample: chains as they run. Every step is kept, so that it can be paused, stepped and scrubbed.
import { card } from "../cards.js";
import { select } from "../drawing/controls.js";
import { h } from "../drawing/dom.js";
import { frameState, legend, Replay, SPEEDS_ALLOWED } from "../replay.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { maskedTemplate } from "../sentence.js";
import { Sweeps } from "../sweeps.js";
import { view } from "../view.js";

export default view({
  name: "sample",
  title: "Sample",
  verb: "sample",
  options: ["kernel", "energy", "energy_temperature", "chains", "sweeps", "seed"],
  heading: (page) => `A chain over ${page.text}s`,
  hint: (page) => `Chosen ${page.word}s are sampled, the others are held; if none is chosen, all are sampled.`,
  state: () => ({
    defaults: { start: "blanks", ...frameState("30") },
    allowed: { start: ["sentence", "blanks"], speed: SPEEDS_ALLOWED },
  }),

  make(page) {
    const { state } = page;
    let asked = null; // the question whose texts and answer are shown
    const sweeps = new Sweeps();
    const replay = new Replay(page, (frame) => sweeps.draw(frame.sweep));

    // Handlers of the step events of a question. A frame has the number of the last sweep that is done in it.
    const stepsOf = (body) => ({
      begun: (event) => {
        asked = body; // until now the cards are those of the question before
        sweeps.begin(event);
        replay.begin(event, { sweep: 0 });
        page.show({}); // of the answer there is nothing yet
        page.question.stale(false);
      },
      stepped: (event) => replay.step(event, { sweep: sweeps.last }),
      swept: (event) => { // after the last step of the sweep
        sweeps.add(event.swept);
        replay.amend({ sweep: sweeps.last });
      },
    });

    async function ask(question, body) {
      const answer = await replay.follow(question, "sample", body, stepsOf(body));
      sweeps.ends = answer.drawn.ends; // a run that was stopped ends earlier
      page.show(answer);
      replay.draw();
      replay.where.title = answer.drawn.passes;
      page.stage.dataset.passes = answer.drawn.passes;
    }

    // The lines that say what the figures are of.
    function caption({ view: seen }) {
      const lines = [`“${asked.template}”`, page.about.model];
      if (seen) lines.push(...seen.about, ...seen.verdict);
      return lines;
    }

    // answer: that to the sweeps so far; without any field before the first look at them
    function cards(answer) {
      const files = { data: () => ({ asked, ...answer }) };
      if (answer.drawn) {
        files.rows = () => rowsOf(answer.drawn.sweeps);
        files.part = answer.drawn.part;
      }
      const of = () => caption(answer);
      return [
        card({ title: "Texts of the chains", name: "chains", ...files },
          replay.transport, replay.lines, legend(replay.begun.legend)),
        answer.view && verdictCard(answer),
        card({ title: "Sweep by sweep", name: "energies", ...files, of }, sweeps.facts, sweeps.figures),
      ];
    }

    // How far to trust the chains: the sentences and numbers of the verb, under the heading of the drawing.
    function verdictCard(answer) {
      const { heading, part } = answer.drawn;
      const { about, tables, verdict } = answer.view;
      const numbers = tables.map((table, n) => {
        const label = table.title || `numbers of the run, ${n + 1}`;
        return drawnTable(table, { label });
      });
      const data = () => ({ asked, ...answer });
      return card({ title: heading, name: "verdict", kind: "verdict", data, part },
        sentences(about), numbers, sentences(verdict, "lead"));
    }

    // A sentence with blanks of its own is no text to start from: there is nothing to choose.
    function startControl() {
      if (page.sentence.typed) return null;
      const starts = [["blanks", "blanks"], ["sentence", `the ${page.text}`]];
      return select("Start from", state.start, starts, (start) => page.set({ start, at: "" }));
    }

    // The request; where something is missing for it, a line that says so.
    function requestOrReason() {
      const { sentence } = page;
      if (sentence.words.length === 0) return `Write a ${page.text}.`;
      const request = { template: maskedTemplate(sentence), ...page.options() };
      const isStart = state.start === "sentence" && !sentence.typed;
      if (isStart) request.start = sentence.whole;
      return request;
    }

    return {
      body: requestOrReason,
      ask,
      controls: () => [
        page.option("kernel"),
        page.option("energy"),
        startControl(),
        page.option("energy_temperature", { label: "Temperature" }),
        page.option("chains"),
        page.option("sweeps"),
        page.option("seed"),
        replay.controls(),
        h("p", { class: "note" }, page.meaning("kernel")),
      ],
      cards,
      tell: (answer) => answer.drawn.told,
      past: () => asked.template,
      leave: () => replay.stop(),
    };
  },
});
