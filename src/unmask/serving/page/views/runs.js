// Runs: folders that were named on the command line, as tables and figures.
import { get } from "../api.js";
import { choices, failure, h } from "../drawing/dom.js";
import { trace } from "../trace.js";
import { copying } from "../copy.js";
import { typed, write } from "../state.js";

export function open(root, about, values) {
  const defaults = { run: 0 };
  const state = typed(values, defaults);
  const [menu, answer] = [h("div", {}), h("div", { class: "stack" })];
  root.append(h("section", { class: "intro" }, h("h1", {}, "Finished runs"), h("p", {}, "What ", h("code", {}, "unmask evaluate"), " and ", h("code", {}, "unmask sample"), " have left in their folders.")), menu, answer);
  if (!about.runs.length) {
    answer.append(h("section", { class: "card" }, h("p", {}, "No run was named. Start the page with a folder to see it here:"), h("p", {}, h("code", {}, "unmask serve --runs FOLDER"))));
    return undefined;
  }
  const controller = new AbortController();

  async function show() {
    write("runs", state, defaults);
    menu.replaceChildren(choices("run", String(state.run), about.runs.map((run) => [String(run.number), `${run.name} (${run.kind})`]), (run) => { state.run = Number(run); show(); }));
    try {
      draw(await get(`runs/${state.run}`, controller.signal));
    } catch (error) {
      if (error.name !== "AbortError") answer.replaceChildren(failure(error));
    }
  }

  function draw(run) {
    const facts = Object.entries(run.about).filter(([, value]) => value !== null && String(value).length < 40);
    answer.replaceChildren(
      h("section", { class: "card" }, h("h2", {}, run.name), run.verdict.map((line) => h("p", {}, line)),
        h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(3) : String(value)))))),
      ...(run.traces.length ? [h("section", { class: "card" }, h("h2", {}, "Energy of the chains"), trace(run.traces, { label: "energy of each chain over sweeps" }))] : []),
      ...run.tables.map((table) => h("section", { class: "card" }, h("h2", {}, table.title), h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": table.title }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, table.columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, table.rows.map((row) => h("tr", {}, row.map((value) => h("td", {}, value === null ? "–" : String(value)))))))))),
      ...run.figures.map((name, n) => h("section", { class: "card" }, h("figure", {}, h("img", { src: `api/runs/${run.number}/figures/${n}`, alt: `figure ${name} of the run` }), h("figcaption", {}, name)))));
  }

  root.append(copying(about, () => {
    const run = about.runs[state.run];
    return run.kind === "sample" ? { verb: "diagnose", first: [run.name], options: {} } : { verb: "serve", first: [], options: { runs: run.name } };
  }));
  show();
  return () => controller.abort();
}
