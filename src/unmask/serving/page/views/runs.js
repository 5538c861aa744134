// Runs: folders that were named on the command line, as tables and figures.
import { get } from "../api.js";
import { choices, failure, h } from "../drawing/dom.js";
import { trace } from "../trace.js";
import { copying, python, shell } from "../copy.js";
import { card } from "../files.js";
import { keeping } from "../focus.js";
import { Address } from "../state.js";

export function open(root, about, values) {
  const address = new Address("runs", values, { run: 0 });
  const { state } = address;
  const [menu, answer] = [h("div", {}), h("div", { class: "stack" })];
  root.append(h("section", { class: "intro" }, h("h1", {}, "Finished runs"), h("p", {}, "What ", h("code", {}, "unmask evaluate"), " and ", h("code", {}, "unmask sample"), " have left in their folders.")), menu, answer);
  if (!about.runs.length) {
    answer.append(h("section", { class: "card" }, h("p", {}, "No run was named. Start the page with a folder to see it here:"), h("p", {}, h("code", {}, "unmask serve --runs FOLDER"))));
    return undefined;
  }
  const controller = new AbortController();

  async function show() {
    keeping(menu, () => menu.replaceChildren(choices("run", String(state.run), about.runs.map((run) => [String(run.number), `${run.name} (${run.kind})`, run.folder]), (run) => { state.run = Number(run); address.save(); show(); })));
    try {
      draw(await get(`runs/${state.run}`, controller.signal));
    } catch (error) {
      if (error.name !== "AbortError") answer.replaceChildren(failure(error));
    }
  }

  function draw(run) {
    const facts = Object.entries(run.about).filter(([, value]) => value !== null && String(value).length < 40);
    const curves = () => [["chain", "sweep", "energy"], ...run.traces.flatMap((one) => one.x.map((x, n) => [one.name, x, one.y[n]]))];
    answer.replaceChildren(
      card({ title: run.name, name: "run", rows: () => [["name", "value"], ...facts], data: () => run }, run.verdict.map((line) => h("p", {}, line)),
        h("dl", { class: "facts" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(3) : String(value)))))),
      ...(run.traces.length ? [card({ title: "Energy of the chains", name: "energies", rows: curves, data: () => run.traces }, trace(run.traces, { label: "energy of each chain over sweeps" }))] : []),
      ...run.tables.map((table) => card({ title: table.title, name: table.title.toLowerCase().replaceAll(" ", "-"), rows: () => [table.columns, ...table.rows], data: () => table }, h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": `rows of ${table.title}` }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, table.columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, table.rows.map((row) => h("tr", {}, row.map((value) => h("td", { class: "text", dir: "auto" }, value === null ? "–" : String(value)))))))))),
      ...run.figures.map((name, n) => h("section", { class: "card" }, h("figure", {}, h("img", { src: `api/runs/${run.number}/figures/${n}`, alt: `figure ${name} of the run` }), h("figcaption", {}, name)))));
  }

  root.append(copying(() => {
    const { kind, folder } = about.runs[state.run] ?? about.runs[0];
    if (kind === "sample") return { python: `print(unmask.diagnose(${python(folder)}))`, command: `unmask diagnose ${shell(folder)}` };
    return { python: `import json\nfrom pathlib import Path\n\nprint(json.loads(Path(${python(folder)}, "table.json").read_text())["constructions"])`, command: `python3 -m json.tool ${shell(`${folder}/table.json`)}` };
  }));
  show();
  return () => controller.abort();
}
