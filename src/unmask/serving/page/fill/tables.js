// Completions, and every construction beside the others.
import { direction, h, marked, nats, percent, probability, shown } from "../drawing/dom.js";
import { card } from "../files.js";

// A summary as a sentence, without bounds of a millionth of a percent.
export function plainly(summary) {
  const short = summary.replace(/(at least|about) [\d.]+e-\d+ %/g, "less than 0.001 %").replace(/more than [\d.]+e-\d+ %/g, "more than 0.001 %");
  return `${short.charAt(0).toUpperCase()}${short.slice(1)}.`;
}

export function completionsCard(found, name, beside) {
  const rows = found.completions;
  const most = Math.max(...rows.map((row) => Math.max(probability(row.log_prob), beside ? probability(row.product_log_prob) : 0)));
  const cell = (logProb, kind) => h("td", { class: "n", title: `log-probability ${logProb}` }, percent(probability(logProb)), h("span", { class: `bar ${kind}`, "--p": most ? probability(logProb) / most : 0 }, h("i")));
  const files = { rows: () => [["log_prob", ...(beside ? ["product_log_prob"] : []), "text", ...rows[0].tokens.map((_, n) => `blank_${n + 1}`)], ...rows.map((row) => [row.log_prob, ...(beside ? [row.product_log_prob] : []), row.text, ...row.tokens])], data: () => found };
  return card({ title: "Best completions", label: "completions", name: "completions", kind: "best", ...files },
    h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "best completions" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "n" }, name), beside ? h("th", { scope: "col", class: "n" }, "independent") : null, h("th", { scope: "col" }, "sentence"))),
      h("tbody", {}, rows.map((row) => h("tr", {}, cell(row.log_prob, ""), beside ? cell(row.product_log_prob, "beside") : null, h("td", { class: "text", dir: direction(row.text), title: row.text }, marked(row.text, row.spans))))))));
}

export function constructionsCard(found, about, choose) {
  const meaning = Object.fromEntries(about.constructions.map((one) => [one.name, one.meaning]));
  const rows = found.constructions;
  const files = { rows: () => [["construction", "dependence", "entropy", "unfaithful", "best", "log_prob"], ...rows.map((row) => [row.name, row.total_correlation, row.entropy, row.a_kl, row.best.text, row.best.log_prob])], data: () => rows };
  return card({ title: "Every construction", name: "constructions", kind: "later", ...files },
    h("p", { class: "note" }, "A masked model gives conditionals, not a joint; each rule derives one. Dependence and entropy are in nats; the last number tells how far a joint’s conditionals lie from the model’s."),
    h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "constructions" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, ["construction", "dependence", "entropy", "unfaithful", "its best", "probability"].map((name, n) => h("th", { scope: "col", class: n && n !== 4 ? "n" : "" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {},
        h("td", {}, h("button", { type: "button", "aria-pressed": String(row.name === found.joint), title: meaning[row.name], "data-key": `construction:${row.name}`, onclick: () => choose(row.name) }, row.label)),
        h("td", { class: "n" }, nats(row.total_correlation)), h("td", { class: "n" }, nats(row.entropy)), h("td", { class: "n" }, nats(row.a_kl, 3)),
        h("td", { dir: "auto" }, row.best.tokens.map(shown).join(" … ")), h("td", { class: "n" }, percent(probability(row.best.log_prob)))))))));
}
