// Generate: texts by a decoder, each with its log-probability, and how their blanks were filled.
import { card } from "../cards.js";
import { h, select } from "../drawing/dom.js";
import { moved, Replay, SPEEDS } from "../replay.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { maskedTemplate } from "../sentence.js";
import { view } from "../view.js";

const SIGNS = [
  ["", "the stronger the colour, the surer the model was of it"],
  ["box", "filled in this step"],
  ["struck", "struck out: drafted, and rejected"],
];

export default view({
  name: "generate",
  title: "Generate",
  verb: "generate",
  example: "sample",
  options: ["decoder", "n_texts", "seed"],
  intro: (page) => [
    `New ${page.text}s by a decoder`,
    "A decoder fills the blanks in a few passes. Each text is drawn independently of the others.",
  ],
  hint: ({ word }) => `The decoder writes the chosen ${word}s, the others are held; if none is chosen, it writes all.`,
  state: () => [{ speed: "8", at: "" }, { speed: SPEEDS.map(([speed]) => speed) }],

  make(page) {
    const { state } = page;
    page.forgotten = { at: "" };
    let asked = null;
    let texts = null;

    const replay = new Replay({
      letters: page.about.by_character,
      frameShown: () => {},
      stayed: (at) => { state.at = at; page.address.save("quiet"); },
      token: (position, frame, text, special) => {
        const move = frame.moves?.[text];
        const isFree = replay.free.has(position) && !special;
        return {
          kinds: move?.positions.includes(position) ? ["new"] : [],
          confidence: isFree ? frame.confidence[text][position] : null,
          draft: move?.rejected.find(([at]) => at === position)?.[1] ?? null,
        };
      },
    });

    function take(name, value) {
      if (name === "job") page.question.job = value.id;
      if (name === "answer") texts = value;
      if (name === "begun") {
        const goal = state.at === "" ? null : Number(state.at);
        replay.begin({ free: value.free, speed: state.speed, goal });
        page.show({ texts });
        page.question.stale(false);
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

    async function ask(question, body) {
      [asked, texts] = [body, null];
      delete page.stage.dataset.passes;
      try {
        for await (const [name, value] of page.about.api.follow("generate", body, question.signal)) take(name, value);
      } finally {
        replay.end();
      }
      page.show({ texts });
      page.stage.dataset.passes = texts.texts.reduce((sum, row) => sum + row.passes, 0);
    }

    function textsCard() {
      const { about, tables: [table], verdict } = texts.view;
      const files = { rows: () => rowsOf(table), data: () => texts };
      return card({ title: "Texts", label: "texts of the decoder", name: "texts", ...files },
        sentences([...about, ...verdict], "lead"), drawnTable(table, { label: "texts" }), sentences(table.notes));
    }

    function cards() {
      const key = h("p", { class: "key" }, SIGNS.map(([kind, text]) => h("span", { class: kind }, text)));
      const steps = card({ title: "How the blanks were filled", name: "steps", data: () => ({ asked, texts }) },
        replay.transport, replay.lines, key);
      return texts ? [textsCard(), steps] : [steps];
    }

    const setSpeed = (speed) => {
      replay.player.speed = Number(speed);
      page.set({ speed }, { ask: false });
    };

    return {
      body: () => {
        if (!page.sentence.words.length) return `Write a ${page.text}.`;
        return { template: maskedTemplate(page.sentence), ...page.options() };
      },
      ask: (question, body) => { replay.stop(); return ask(question, body); },
      controls: () => [
        page.option("decoder", { label: "Decoder" }),
        page.option("n_texts", { label: "Texts" }),
        page.option("seed", { label: "Seed" }),
        select("Speed", state.speed, SPEEDS, setSpeed),
        h("button", {
          type: "button", class: "main", "data-key": "run", onclick: () => page.set({
            seed: Number(state.seed) + 1, at: "",
          }),
        }, "Run another"),
        h("p", { class: "note" }, page.meaning("decoder")),
      ],
      cards,
      tell: () => ({
        by: "log-probability of each text",
        values: Object.fromEntries(texts.texts.map((row, n) => [`text ${n + 1}`, row.log_prob])),
      }),
      past: () => asked.template,
      leave: () => replay.stop(),
    };
  },
});
