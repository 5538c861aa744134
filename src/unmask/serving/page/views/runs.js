// Runs: folders that were named on the command line, as tables and figures.
import { keeping, Question } from "../ask.js";
import { card, copying, table } from "../cards.js";
import { trace } from "../charts.js";
import { choices, h } from "../drawing/dom.js";
import { Address } from "../state.js";

export function open(root, about, values) {
  const address = new Address(about, "runs", values, { run: 0 });
  const { state } = address;
  const [menu, box] = [h("div", {}), h("div", { class: "stack" })];
  const question = new Question(about.api, box);
  root.append(h("section", { class: "intro" }, h("h1", {}, "Finished runs"), h("p", {}, "What ", h("code", {}, "unmask evaluate"), " and ", h("code", {}, "unmask sample"), " have left in their folders.")), menu, question.problem, box);
  if (!about.runs.length) {
    box.append(h("section", { class: "card" }, h("p", {}, "No run was named. Start the page with a folder to see it here:"), h("p", {}, h("code", {}, "unmask serve --runs FOLDER"))));
    return undefined;
  }
  let shown = null;

  function show() {
    keeping(menu, () => menu.replaceChildren(choices("run", String(state.run), about.runs.map((run) => [String(run.number), `${run.name} (${run.kind})`, run.folder]), (run) => { state.run = Number(run); address.save(); show(); })));
    question.run(async ({ signal }) => draw(shown = await about.api.ask(`runs/${state.run}`, undefined, signal)));
  }

  function draw(run) {
    const facts = Object.entries(run.about).filter(([, value]) => value !== null && String(value).length < 40);
    const curves = () => [["chain", "sweep", "energy"], ...run.traces.flatMap((one) => one.x.map((x, n) => [one.name, x, one.y[n]]))];
    box.replaceChildren(
      card({ title: run.name, name: "run", rows: () => [["name", "value"], ...facts], data: () => run }, run.verdict.map((line) => h("p", {}, line)),
        h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(3) : String(value)))))),
      ...(run.traces.length ? [card({ title: "Energy of the chains", name: "energies", rows: curves, data: () => run.traces, of: () => [run.folder, `kernel ${run.about.kernel}`] }, trace(run.traces, { label: "energy of each chain over sweeps" }))] : []),
      ...run.tables.map((one) => card({ title: one.title, name: one.title.toLowerCase().replaceAll(" ", "-"), rows: () => [one.columns, ...one.rows], data: () => one }, table(`rows of ${one.title}`, one.columns, one.rows.map((row) => row.map((value) => (value === null ? "–" : String(value))))))),
      ...run.figures.map((name, n) => h("section", { class: "card" }, h("figure", {}, h("img", { src: new URL(`runs/${run.number}/figures/${n}`, about.api.base), alt: `figure ${name} of the run` }), h("figcaption", {}, name)))));
  }

  root.append(copying(() => shown.copy));
  show();
  return () => question.leave();
}
