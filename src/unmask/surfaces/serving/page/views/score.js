// Score: how probable each word is, by named definitions; two texts against each other.
import { card } from "../cards.js";
import { profile } from "../drawing/profile.js";
import { select } from "../drawing/controls.js";
import { h } from "../drawing/dom.js";
import { drawnTable, rowsOf, sentences } from "../result.js";
import { view } from "../view.js";
import { unknownLine } from "../words.js";

export default view({
  name: "score",
  title: "Score",
  verb: "score",
  options: ["unit"],
  heading: (page) => `How good is a ${page.text}?`,
  hint: (page) => `The whole ${page.text} is scored; ${page.word}s chosen here are the blanks of the other views.`,
  sentence: (page) => ({ label: `First ${page.text}`, blanked: false, pins: false }),
  state: (page) => ({
    defaults: { second: page.example.second ?? "", score: page.known.score.default, show: "" },
  }),

  make(page) {
    const { state, about, sentence } = page;
    const letters = about.by_character;
    const most = about.limits.most_scores;
    const offered = page.known.score.choices;
    const limitNote = h("p", { class: "note", role: "status" });

    // ---- the second text ----

    let latest = 0; // numbers the readings of the second text
    const unknown = h("p", { class: "unsaid", role: "status", hidden: true });
    const other = h("input", {
      type: "text", value: state.second, dir: "auto", spellcheck: false, autocomplete: "off",
      onchange: async () => {
        const isLatest = await readSecond(other.value); // it writes `state.second`
        if (isLatest) page.set({});
      },
    });
    // The second field stands below the first one, before its words.
    sentence.list.before(h("label", { class: "field" }, h("span", {}, `Second ${page.text}, if any`), other));
    readSecondOfAddress();

    // The model may read the second text in another way than it is written, such as in capitals. The question may have
    // gone out before that is known: it is then asked again.
    async function readSecondOfAddress() {
      const written = state.second;
      const isLatest = await readSecond(written);
      if (isLatest && state.second !== written) page.set({}, { reason: "quiet" });
    }

    // Takes the second text as the model reads it, and says which of its words are unknown. False if another text was
    // read meanwhile, or the view was left: nothing is taken then.
    async function readSecond(text) {
      latest += 1;
      const number = latest;
      state.second = text;
      const read = await asked(text);
      if (number !== latest) return false;
      state.second = read.text;
      const isTyping = other.matches(":focus") && other.value !== text;
      if (!isTyping) other.value = read.text;
      unknown.textContent = unknownLine(read.unknown, read.words, ` of the second ${page.text}`);
      unknown.hidden = unknown.textContent === "";
      return true;
    }

    // A text that cannot be read stays as it is: the answer says why it has no score, or that the server is away.
    async function asked(text) {
      const unread = { text, words: [], unknown: "" };
      if (!text.trim()) return unread;
      try {
        return await about.api.ask("words", { text });
      } catch {
        return unread;
      }
    }

    // ---- which scores ----

    const isOffered = (name) => offered.some(([known]) => known === name);
    // The scores of the address, each once. A link may have more than the server takes.
    const requested = () => [...new Set(state.score.split(","))].filter(isOffered);
    const taken = () => requested().slice(0, most);

    const boxes = offered.map(([name, label, meaning]) => {
      const onchange = ({ currentTarget }) => choose(name, currentTarget.checked);
      return h("label", { class: "inline", title: meaning },
        h("input", { type: "checkbox", value: name, onchange }), label);
    });

    function choose(name, isOn) {
      const before = taken();
      const isChosen = (known) => (known === name ? isOn : before.includes(known));
      const names = offered.map(([known]) => known); // the order of the boxes, whatever the order of clicks
      page.set({ score: names.filter(isChosen).join(",") });
    }

    // No more than the server takes can be chosen. A line says which scores of a link are left out, until a click.
    function drawBoxes() {
      const names = taken();
      const isFull = names.length >= most;
      for (const label of boxes) {
        const box = label.querySelector("input");
        box.checked = names.includes(box.value);
        box.disabled = !box.checked && isFull;
      }
      limitNote.textContent = limitLine(requested().slice(most), isFull);
    }

    function limitLine(leftOut, isFull) {
      const limit = `${most} scores at a time`;
      if (leftOut.length > 0) {
        const verb = leftOut.length > 1 ? "are" : "is";
        return `${limit}: ${leftOut.join(", ")} ${verb} not shown.`;
      }
      return isFull ? `${limit}: leave one out to choose another.` : "";
    }

    // ---- cards ----

    // The lines below a saved picture.
    function textsAndModel(answer) {
      const texts = answer.rows.map((row) => `“${row.text}”`);
      return [...texts, about.model, ...answer.view.about];
    }

    function cards(answer) {
      const { shown, profiles, differences } = answer.drawn;
      if (shown.length === 0) return [wholeTexts(answer)]; // no score has bars
      const name = shown.includes(state.show) ? state.show : shown[0];
      return [
        wholeTexts(answer),
        name in profiles ? wordByWord(answer, name) : null,
        name in differences ? sideBySide(answer, name) : null,
      ];
    }

    // What the command prints of each text. Its last table, the difference of two texts, is drawn by `sideBySide`.
    function wholeTexts(answer) {
      const { view: verbs, drawn } = answer;
      const tables = verbs.tables.slice(0, drawn.of_texts);
      const rows = () => tables.flatMap((table) => [[table.title], ...rowsOf(table)]);
      const drawnTables = tables.map((table) => [
        h("p", { class: "of" }, table.title), drawnTable(table, { label: `scores of ${table.title}` }),
      ]);
      const meanings = Object.entries(answer.scores).map(([score, { definition }]) => [
        h("dt", {}, score), h("dd", {}, definition),
      ]);
      return card({ title: `Whole ${page.text}s`, name: "scores", rows, data: () => answer, part: drawn.part },
        sentences(verbs.verdict, "lead"), drawnTables, sentences([...verbs.about, ...verbs.notices]),
        sentences(drawn.failed, "error"), h("dl", { class: "meanings" }, meanings));
    }

    // Each text with a bar for every word or residue.
    function wordByWord(answer, name) {
      const { shown, words, part } = answer.drawn;
      const { profiles, legend } = answer.drawn.profiles[name];
      const choice = select("Score shown", name, shown.map((score) => [score, score]),
        (show) => page.set({ show }, { ask: false }));
      const files = { rows: () => rowsOf(words), data: () => answer.rows, of: () => textsAndModel(answer), part };
      return card({
        title: letters ? "Residue by residue" : "Word by word", name: "words", ...files, tools: [choice],
      }, profiles.map((one) => h("div", { class: "scored" }, profile(one, { letters }))),
      h("p", { class: "note" }, legend));
    }

    // Two texts token by token, one below the other. The bar of a token says which of them it is for.
    function sideBySide(answer, name) {
      const { aligned } = answer.drawn;
      const { profiles, legend } = answer.drawn.differences[name];
      const files = { rows: () => rowsOf(aligned), data: () => aligned, of: () => textsAndModel(answer) };
      return card({ title: "The first against the second", name: "difference", ...files },
        profiles.map((one) => profile(one, { letters, up: "rise" })), h("p", { class: "note" }, legend));
    }

    const texts = () => [sentence.text, state.second].filter((text) => text.trim());

    function body() {
      drawBoxes(); // the scores of the address, or those that were chosen now
      if (!texts().length || !taken().length) return `Write a ${page.text} and choose a score.`;
      return { texts: texts(), score: taken(), ...page.options() };
    }

    return {
      above: [
        h("div", { class: "card asking" }, unknown, h("fieldset", {}, h("legend", {}, "Scores"), boxes), limitNote),
      ],
      body,
      cards,
      tell: (answer) => answer.drawn.told,
      past: () => texts().join(" / "),
      leave: () => { latest += 1; }, // a text that is still read is not asked about
    };
  },
});
