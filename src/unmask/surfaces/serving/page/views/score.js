// Score: how probable each word is, by named definitions; two texts against each other.
import { card } from "../cards.js";
import { profile } from "../charts.js";
import { direction, h, nats, select, shown } from "../drawing/dom.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";

export default view({
  name: "score",
  title: "Score",
  verb: "score",
  options: ["unit"],
  intro: (page) => [
    `How good is a ${page.text}?`,
    "Several scores, each by its own definition; only some of them are probabilities.",
  ],
  hint: (page) => `The whole ${page.text} is scored; ${page.word}s chosen here are the blanks of the other views.`,
  sentence: (page) => ({ label: `First ${page.text}`, blanked: false, pins: false }),
  state: (page) => [{ second: page.example.second ?? "", score: page.known.score.default, show: "" }, {}],

  make(page) {
    const { state, about, sentence } = page;
    const letters = about.by_character;
    const most = about.limits.most_scores;
    const offered = page.known.score.choices;
    const wanted = () => state.score.split(",").filter((name) => offered.some(([known]) => known === name));
    const chosen = () => wanted().slice(0, most);
    const unknown = h("p", { class: "unsaid", role: "status", hidden: true });
    const limit = h("p", { class: "note", role: "status" });

    const other = h("input", {
      type: "text", value: state.second, dir: "auto", spellcheck: false, autocomplete: "off",
      onchange: async () => { await readSecond(other.value); page.set({}); },
    });
    sentence.list.before(h("label", { class: "field" }, h("span", {}, `Second ${page.text}, if any`), other));
    readSecond(state.second);

    async function readSecond(value) {
      state.second = value;
      try {
        const read = value.trim() ? await about.api.ask("words", { text: value }) : { text: value, words: [] };
        state.second = other.value = read.text;
        const strange = read.words.filter((one) => !one.known).map((one) => `“${one.text}”`);
        unknown.hidden = !strange.length;
        const which = `${strange.join(", ")} of the second ${page.text}`;
        unknown.textContent = `The model does not know ${which}, and reads the unknown token instead.`;
      } catch {
        unknown.hidden = true; // the score itself says why a text is refused
      }
    }

    const boxes = offered.map(([name, label, meaning]) => {
      const box = h("input", { type: "checkbox", value: name, onchange: () => {
        const names = new Set(chosen());
        if (box.checked) names.add(name);
        else names.delete(name);
        page.set({ score: offered.map(([known]) => known).filter((known) => names.has(known)).join(",") });
      } });
      return h("label", { class: "inline", title: meaning }, box, label);
    });

    // No more than the server takes can be chosen; a link with more of them says which are not shown.
    function drawBoxes() {
      for (const label of boxes) {
        const box = label.querySelector("input");
        box.checked = chosen().includes(box.value);
        box.disabled = !box.checked && chosen().length >= most;
      }
      const left = wanted().slice(most);
      const few = `${most} scores at a time`;
      if (left.length) limit.textContent = `${few}: ${left.join(", ")} ${left.length > 1 ? "are" : "is"} not shown.`;
      else limit.textContent = chosen().length >= most ? `${few}: leave one out to choose another.` : "";
    }

    const names = (answer) => Object.keys(answer.drawn.against);
    const part = (answer) => {
      const all = Object.keys(answer.scores);
      const done = all.filter((name) => answer.rows.some((row) => row[name] !== null)).length;
      return page.question.stopped && done < all.length ? `${done} of ${all.length} scores` : "";
    };
    const of = (answer) => () => [...answer.rows.map((row) => `“${row.text}”`), about.model, ...answer.view.about];

    function cards(answer) {
      const name = names(answer).includes(state.show) ? state.show : names(answer)[0];
      const isCompared = name && answer.drawn.for_first[name];
      return [whole(answer), name && coloured(answer, name), isCompared && aligned(answer, name)];
    }

    // What the command prints; of two texts the table of their difference is the last card.
    function whole(answer) {
      const { about: lines, tables, verdict, notices } = answer.view;
      const ofTexts = tables.slice(0, answer.rows.length);
      const rows = () => ofTexts.flatMap((table) => [[table.title], ...rowsOf(table)]);
      return card({ title: `Whole ${page.text}s`, name: "scores", rows, data: () => answer, part: part(answer) },
        sentences(verdict, "lead"),
        ofTexts.map((table) => [
          h("p", { class: "of" }, table.title), drawnTable(table, { label: `scores of ${table.title}` }),
        ]),
        sentences([...lines, ...notices]),
        answer.rows.filter((row) => row.reason).map((row) => h(
          "p", { class: "error" }, `“${row.text}”: ${row.reason}.`)),
        h(
          "dl", { class: "meanings" },
          Object.entries(answer.scores).map(([score, { definition }]) => [
            h("dt", {}, score), h("dd", {}, definition),
          ])));
    }

    // Of letters, each is a column; of other texts, each word.
    function coloured(answer, name) {
      const column = answer.drawn.against[name];
      const rows = answer.rows.filter((row) => row.words?.length);
      if (!rows.length) return null;
      const units = (row) => (letters ? row.tokens.map((one) => ({ ...one, word: shown(one.token) })) : row.words);
      const top = Math.max(1e-9, ...rows.flatMap((row) => units(row).map((one) => Math.abs(one[column]))));
      const title = (row, one, n) => {
        if (letters) return `${one.word}${n + 1}: ${nats(one[column])} ${answer.unit}`;
        const tokens = row.tokens.filter((token) => token.word_number === one.word_number);
        return tokens.map((token) => `${shown(token.token)} ${nats(token[column])}`).join(", ");
      };
      const isPair = letters && rows.length === 2;
      const differs = (row, n) => isPair && rows.some((one) => units(one)[n]?.word !== units(row)[n]?.word);
      const columns = names(answer).map((one) => answer.drawn.against[one]);
      const files = {
        rows: () => [[page.text, page.word, ...columns], ...rows.flatMap((row) => units(row).map((one) =>
          [answer.rows.indexOf(row) + 1, one.word, ...columns.map((of) => one[of])]))],
        data: () => rows, of: of(answer), part: part(answer),
      };
      const choice = select(
        "Score shown", name, names(answer).map((one) => [one, one]), (show) => page.set({ show }, { ask: false }));
      const figures = rows.map((row) => h("div", { class: "scored" }, profile(
        units(row).map((one, n) => ({
          texts: [one.word], value: one[column], written: nats(one[column]), differs: differs(row, n),
            title: title(row, one, n),
        })),
        {
          label: `${name} of ${page.text} ${answer.rows.indexOf(row) + 1}, ${page.word} by ${page.word}`,
          most: top, letters, rtl: direction(row.text) === "rtl",
        })));
      const heading = letters ? "Residue by residue" : "Word by word";
      return card({ title: heading, name: "words", ...files, tools: [choice] }, figures,
        h(
          "p", { class: "note" },
          `${column}: the higher the bar, the more a ${page.word} counts against the ${page.text}, in ${answer.unit}`,
          ` (up to ${nats(top)})${letters ? "" : "; a word’s tokens add up"}.`));
    }

    function aligned(answer, name) {
      const forFirst = answer.drawn.for_first[name];
      const rows = answer.drawn.difference;
      const top = Math.max(1e-9, ...forFirst.map(Math.abs));
      const written = (row) => nats(row[`${name}_difference`]).replace(/^(?=[\d.]*[1-9])/, "+");
      const token = (one) => (one === null ? "–" : shown(one));
      const columns = rows.map((row, n) => ({
        texts: [token(row.first_token), token(row.second_token)], value: forFirst[n], up: "rise", written: written(row),
        differs: row.first_token !== row.second_token,
        title: `${token(row.first_token)} / ${token(row.second_token)}: ${written(row)}`,
      }));
      const table = answer.view.tables.at(-1);
      const label = "the first against the second, token by token";
      return card({
        title: "The first against the second", name: "difference", rows: () => rowsOf(table), data: () => rows,
        of: of(answer),
      },
        profile(columns, { label, most: top, letters, rtl: direction(state.text) === "rtl" }),
        h("p", { class: "note" }, `${table.title}. Blue: for the first, by ${name}.`));
    }

    return {
      above: [h("div", { class: "card asking" }, unknown, h("fieldset", {}, h("legend", {}, "Scores"), boxes), limit)],
      body: () => {
        const texts = [sentence.text, state.second].filter((one) => one.trim());
        drawBoxes();
        if (!texts.length || !chosen().length) return `Write a ${page.text} and choose a score.`;
        const score = chosen().join(",") === page.known.score.default ? {} : { score: chosen() };
        return { texts, ...score, ...page.options() };
      },
      cards,
      tell: (answer) => ({
        by: `scores, in ${answer.unit}`,
        values: Object.fromEntries(Object.keys(answer.scores).flatMap((name) =>
          answer.rows.map((row, n) => [`${name}, ${page.text} ${n + 1}`, row[name]]))),
      }),
      past: () => [sentence.text, state.second].filter(Boolean).join(" / "),
    };
  },
});
