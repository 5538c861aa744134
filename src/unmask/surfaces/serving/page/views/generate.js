// Generate: texts by a decoder, each with its log-probability, and how their blanks were filled.
import { card } from "../cards.js";
import { h } from "../drawing/dom.js";
import { frameState, legend, Replay, SPEEDS_ALLOWED } from "../replay.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { maskedTemplate } from "../sentence.js";
import { view } from "../view.js";

export default view({
  name: "generate",
  title: "Generate",
  verb: "generate",
  example: "sample", // the first text of both
  options: ["decoder", "n_texts", "seed"],
  heading: (page) => `New ${page.text}s by a decoder`,
  hint: ({ word }) => `The decoder writes the chosen ${word}s, the others are held; if none is chosen, it writes all.`,
  state: () => ({ defaults: frameState("8"), allowed: { speed: SPEEDS_ALLOWED } }),

  make(page) {
    let asked = null; // the question whose texts and answer are shown
    const replay = new Replay(page);

    // Handlers of the step events of a question.
    const stepsOf = (body) => ({
      begun: (event) => {
        asked = body; // until now the cards are those of the question before
        replay.begin(event);
        page.show({}); // of the answer there is nothing yet
        page.question.stale(false);
      },
      stepped: (event) => replay.step(event),
    });

    async function ask(question, body) {
      const answer = await replay.follow(question, "generate", body, stepsOf(body));
      page.show(answer);
      page.stage.dataset.passes = answer.drawn.passes;
    }

    function textsCard(answer, data) {
      const { about, tables, verdict } = answer.view;
      const [table] = tables;
      const files = { rows: () => rowsOf(table), data };
      return card({ title: "Texts", label: "texts of the decoder", name: "texts", ...files },
        sentences([...about, ...verdict], "lead"), drawnTable(table, { label: "texts" }), sentences(table.notes));
    }

    // answer: without any field while the decoder runs
    function cards(answer) {
      const data = () => ({ asked, ...answer });
      const steps = card({ title: "How the blanks were filled", name: "steps", data },
        replay.transport, replay.lines, legend(replay.begun.legend));
      if (!answer.view) return [steps];
      return [textsCard(answer, data), steps];
    }

    return {
      body: () => {
        const { sentence } = page;
        if (sentence.words.length === 0) return `Write a ${page.text}.`;
        return { template: maskedTemplate(sentence), ...page.options() };
      },
      ask,
      controls: () => [
        page.option("decoder"),
        page.option("n_texts", { label: "Texts" }),
        page.option("seed"),
        replay.controls(),
        h("p", { class: "note" }, page.meaning("decoder")),
      ],
      cards,
      tell: (answer) => answer.drawn.told,
      past: () => asked.template,
      leave: () => replay.stop(),
    };
  },
});
