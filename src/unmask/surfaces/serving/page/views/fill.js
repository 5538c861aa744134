// Fill: the joint of the blanks, beside what independent blanks would say.
import { card } from "../cards.js";
import { bars } from "../drawing/bars.js";
import { choices, h, percent, shown } from "../drawing/dom.js";
import { COLOURINGS, heatmap } from "../drawing/heatmap.js";
import { lasting } from "../drawing/update.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

const LISTED = 8; // bars of a blank
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export default view({
  name: "fill",
  title: "Fill",
  verb: "fill",
  options: ["construction", "candidates"],
  intro: () => [
    "What stands in the blanks?",
    "Independent blanks are what a masked model says of each alone; the joint says what they say together.",
  ],
  hint: (page) => `Click a ${page.word} to blank it; click it again to put it back.`,
  state: () => [{ colour: "joint", cell: "" }, { colour: COLOURINGS.map(([name]) => name) }],
  sentence: ({ about }) => ({
    hides: true,
    kinds: about.kinds.map((kind) => kind.name).filter((name) => name !== "word" || about.whole_words),
  }),

  make(page) {
    const { state, sentence, about, word } = page;
    page.forgotten = { cell: "" };
    let compared = null; // all constructions on the same blanks,
    let comparedFor = ""; // which are those of this question

    // The construction of an answer whose question names none.
    const used = () => (state.construction === "" ? page.answer?.construction : undefined);
    const names = () => sentence.chosen.map((i, n) => (about.by_character ? `residue ${i + 1}` : `blank ${n + 1}`));

    // A whole text whose blanks are words of one token each is asked as such: then what stands there is shown, too.
    function text() {
      const words = sentence.chosen.map((i) => sentence.words[i]);
      const isWhole = !sentence.several && !sentence.typed && words.every((one) => one.known && one.pieces === 1);
      if (!isWhole) return { text: sentence.template() };
      return { text: sentence.text, positions: words.flatMap((one) => one.positions) };
    }

    function body() {
      if (!sentence.chosen.length) {
        compared = null;
        return `Click one ${word} to see what could stand there, or two to see how they depend on each other.`;
      }
      const { pinned } = sentence;
      const given = pinned ? { given: { [pinned.blank + 1]: pinned.word } } : {};
      const options = sentence.several ? {} : page.options();
      return { ...text(), ...options, ...given };
    }

    async function ask(question, { construction, given, ...blanks }) {
      const ofBlanks = JSON.stringify(blanks);
      if (comparedFor !== ofBlanks) compared = null;
      page.show(await question.slowly("fill", page.body()));
      const isPair = sentence.chosen.length === 2 && !page.answer.search;
      if (isPair && !compared) await compare(question, blanks);
    }

    async function compare(question, blanks) {
      question.say("comparing constructions …");
      compared = await question.slowly("compare", blanks);
      comparedFor = JSON.stringify(blanks);
      page.draw();
    }

    // Of three blanks or more it takes as long as the answer, and is asked for.
    function compareButton() {
      const { construction, given, ...blanks } = page.body();
      const onclick = () => page.question.run((question) => compare(question, blanks));
      return h("button", { type: "button", "data-key": "compare", onclick }, "Compare every construction");
    }

    function pin(value, reason = "quiet") {
      state.pin = sentence.pin = value;
      sentence.filled.clear();
      sentence.draw();
      page.address.save(reason);
    }

    function setPin(blank, id, token) {
      const now = sentence.pinned;
      const isSame = now && now.blank === blank && now.token === id;
      state.cell = "";
      pin(blank === null || isSame ? "" : `${blank}:${id}:${token}`, "");
      return page.ask();
    }

    function choose(map, i, j) {
      const [rows, across] = map.axes;
      sentence.fillIn([rows.tokens[i], across.tokens[j]]);
      page.set({ cell: `${rows.ids[i]}:${across.ids[j]}` }, { ask: false });
    }

    // The cell that the address names, if it is on the map.
    function chosenCell(map) {
      const [first, second] = state.cell.split(":").map(Number);
      const at = [map.axes[0].ids.indexOf(first), map.axes[1].ids.indexOf(second)];
      return state.cell && at.every((i) => i >= 0) ? at : null;
    }

    const keep = () => {
      const { filled, words } = sentence;
      return sentence.set(sentence.template((one) => filled.get(words.indexOf(one)) ?? one.text));
    };

    const of = (answer) => () => [`“${answer.text}”`, about.model, ...answer.view.about, ...answer.view.verdict];
    const readout = lasting(h("p", { class: "readout", "aria-live": "polite" }));

    function cards(answer) {
      const map = answer.drawn;
      const canKeep = sentence.filled.size > 0 && !sentence.typed;
      const canCompare = sentence.chosen.length > 2 && !answer.search && !compared;
      const above = h("section", { class: "card", "aria-label": "what is asked", "data-key": "panel" },
        h("div", { "aria-live": "polite" }, sentences(answer.view.about, "lead")),
        sentences(answer.view.verdict),
        canCompare && compareButton(),
        canKeep
          && h("button", { type: "button", class: "main", "data-key": "keep", onclick: keep }, `Keep these ${word}s`));
      const left = [map ? mapCard(answer, map) : completionsCard(answer), compared && comparedCard()];
      const right = [above, map && pinCard(map), map && completionsCard(answer)];
      return [h("div", { class: "columns wide-left" },
        h("div", { class: "stack", "data-key": "left" }, left),
        h("div", { class: "stack", "data-key": "right" }, right))];
    }

    function mapCard(answer, map) {
      const { axes: [rows, across], joint, product } = map;
      const look = (i, j) => readout.replaceChildren(
        h("strong", {}, `${shown(rows.tokens[i])} … ${shown(across.tokens[j])}`),
        ` ${percent(joint[i][j])} under ${answer.construction},`,
        ` ${percent(product[i][j])} if the blanks were independent`,
        product[i][j] > 0 ? ` (${(joint[i][j] / product[i][j]).toPrecision(2)} times)` : "");
      const chosen = chosenCell(map);
      if (chosen) {
        if (!sentence.filled.size) sentence.fillIn([rows.tokens[chosen[0]], across.tokens[chosen[1]]]);
        look(...chosen);
      } else {
        readout.textContent = `Point at a cell, or use the arrow keys; a click puts its ${word}s into the text.`;
      }
      const every = () => [
        ["first", "second", answer.construction, "product"],
        ...rows.tokens.flatMap((first, i) => across.tokens.map((second, j) => [
          first, second, joint[i][j], product[i][j],
        ])),
      ];
      const tools = [choices("colour", state.colour, COLOURINGS, (colour) => page.set({ colour }, { ask: false }))];
      return card({
        title: "The two blanks together", label: "joint of the two blanks", name: "map", kind: "map", rows: every,
        data: () => answer, of: of(answer), tools,
      },
        heatmap(map, {
          colouring: state.colour, pinned: sentence.pinned, chosen, names: names(), pin: setPin,
          choose: (i, j) => choose(map, i, j), look,
        }),
        readout, h("p", { class: "note" }, map.shown),
        map.given && h("p", { class: "note" }, "The map is without the pin."));
    }

    function pinCard(map) {
      const { given, axes } = map;
      const column = (blank) => {
        const pick = (id, token) => setPin(blank, id, token);
        if (given && given.blank !== blank) {
          const most = Math.max(...given.given, ...given.marginal);
          return h("div", { "data-key": `column:${blank}` },
            h("h3", {}, `${capital(names()[blank])}, given “${shown(given.token)}”`),
            bars({
              blank, tokens: given.tokens.slice(0, LISTED), ids: given.ids, now: given.given, before: given.marginal,
              most, pick,
            }));
        }
        const { tokens, ids, marginal } = axes[blank];
        const pressed = given ? sentence.pinned?.token : null;
        return h("div", { "data-key": `column:${blank}` }, h("h3", {}, capital(names()[blank])),
          bars({ blank, tokens: tokens.slice(0, LISTED), ids, now: marginal, pressed, pick }));
      };
      const rows = () => (given
        ? [
          ["token", "given", "before", "model"],
          ...given.tokens.map((token, i) => [token, given.given[i], given.marginal[i], given.model[i]]),
        ]
        : [
          ["blank", "token", "joint", "product"],
          ...axes.flatMap((axis, n) => axis.tokens.map((token, i) => [
            n + 1, token, axis.marginal[i], axis.product[i],
          ])),
        ]);
      const unpinKey = given && `bar:${given.blank}:unpin`;
      const unpin = given
        && h("button", { type: "button", "data-key": unpinKey, onclick: () => setPin(null) }, "Unpin");
      const note = given
        ? `“${shown(given.token)}” in ${names()[given.blank]} changes the other one; a mark is where it was before.`
        : `The likeliest ${word}s of the map: pin one, and watch the other blank change.`;
      return card({
        title: `Pin a ${word}`, label: `pin a ${word}`, name: "pinned", rows, data: () => given ?? axes,
        tools: [unpin].filter(Boolean),
      },
        h("p", { class: "note" }, note), column(0), column(1));
    }

    // A click on a completion puts its words into the blanks.
    function completionsCard(answer) {
      const [table, ...others] = answer.view.tables;
      const at = table.columns.length - 1;
      const likely = answer.completions.map((one) => Math.exp(Number(one.log_prob)) || 0);
      const most = Math.max(...likely);
      const put = (row) => {
        const { parts, tokens } = answer.completions[row];
        sentence.fillIn(parts ?? tokens);
        page.draw();
      };
      const cell = (row, column, content) => column === at
        && [
          h("button", { type: "button", class: "put", "data-key": `put:${row}`, onclick: () => put(row) }, content),
          table.rows[row][at].mark,
        ];
      const bar = { 0: (row) => (most ? likely[row] / most : 0) };
      return card({
        title: "Best completions", label: "completions", name: "completions", kind: "best", rows: () => rowsOf(table),
        data: () => answer,
      },
        drawnTable(table, { label: "best completions", cell, bars: bar }), sentences(table.notes),
        others.map((one) => drawnTable(one, { label: "answers" })));
    }

    function comparedCard() {
      const [, table] = compared.view.tables;
      const [completions] = compared.view.tables;
      const { choices: offered } = page.known.construction;
      const choice = (row, column) => {
        if (column > 0) return null;
        const name = table.rows[row][0];
        return h("button", {
          type: "button", "data-key": `construction:${name}`, "aria-pressed": String(name === page.answer.construction),
          onclick: () => page.set({ construction: name, cell: "" }),
        }, name);
      };
      const meanings = table.rows.map(([name]) => offered.find(([known]) => known === name)).filter(Boolean);
      const all = () => [...rowsOf(table), [], ...rowsOf(completions)];
      return card({
        title: "Every construction", name: "constructions", kind: "later", rows: all, data: () => compared,
      },
        h("p", { class: "note" }, `${table.title}.`), drawnTable(table, { label: "constructions", cell: choice }),
        sentences(compared.view.verdict), sentences(compared.view.about),
        h("p", { class: "note" }, `${completions.title}.`), drawnTable(
          completions, { label: "completions by construction" }),
        sentences(completions.notes),
        h(
          "dl", { class: "meanings" },
          meanings.map(([, label, meaning]) => [h("dt", {}, label), h("dd", {}, meaning)])));
    }

    const set = (name) => (value) => {
      const unpinned = name === "candidates" ? { pin: "" } : {};
      sentence.pin = unpinned.pin ?? sentence.pin;
      page.set({ [name]: value, cell: "", ...unpinned });
    };

    return {
      body,
      ask,
      // Of one blank, and of blanks of several lengths, there is nothing to choose.
      controls: () => (sentence.several || sentence.chosen.length < 2 ? [] : [
        page.option("construction", { label: "Construction", change: set("construction"), usual: used() }),
        page.option("candidates", { label: `${capital(word)}s considered`, change: set("candidates") }),
        page.meaning("construction") && h("p", { class: "note" }, page.meaning("construction")),
      ]),
      cards,
      tell: (answer) => ({
        by: "log-probability of completions",
        values: Object.fromEntries(answer.completions.map((one) => [one.text, Number(one.log_prob)])),
      }),
    };
  },
});
