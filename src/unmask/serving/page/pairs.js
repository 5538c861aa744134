// Minimal pairs from a file: read in the browser, scored two pairs at a time, and shown as they come.
import { ask, Latest } from "./api.js";
import { failure, h, nats } from "./drawing/dom.js";
import { card } from "./files.js";
import { Status } from "./status.js";

const [MOST_BYTES, MOST_PAIRS, AT_ONCE, SHOWN] = [1_000_000, 2_000, 2, 200];
const [GOOD, BAD] = ["sentence_good", "sentence_bad"];
export const PAIRS_TAKEN = `.jsonl, .csv or .tsv with ${GOOD} and ${BAD}; up to ${MOST_PAIRS.toLocaleString("en")} pairs and 1 MB`;

// Rows of a table with quotes around what holds the separator; the first row has the names.
function table(text, separator) {
  const rows = [[""]];
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const [row, letter] = [rows.at(-1), text[at]];
    if (quoted && letter === '"' && text[at + 1] === '"') row[row.length - 1] += text[at++];
    else if (letter === '"' && (quoted || row.at(-1) === "")) quoted = !quoted;
    else if (!quoted && letter === separator) row.push("");
    else if (!quoted && letter === "\n") rows.push([""]);
    else if (quoted || letter !== "\r") row[row.length - 1] += letter;
  }
  const [names, ...rest] = rows.filter((row) => row.length > 1 || row[0].trim());
  return rest.map((row) => Object.fromEntries((names ?? []).map((name, n) => [name.trim().replace(/^\ufeff/, ""), row[n] ?? ""])));
}

export async function readPairs(file) {
  if (file.size > MOST_BYTES) throw new Error(`The file has ${file.size.toLocaleString("en")} bytes, and the page takes ${MOST_BYTES.toLocaleString("en")}: use unmask score --pairs.`);
  const text = await file.text();
  let rows;
  try {
    rows = /\.jsonl?$/i.test(file.name) ? text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line)) : table(text, /\.tsv$/i.test(file.name) ? "\t" : ",");
  } catch {
    throw new Error(`${file.name} is not JSON lines: give one object per line.`);
  }
  const wrong = rows.findIndex((row) => !String(row?.[GOOD] ?? "").trim() || !String(row?.[BAD] ?? "").trim());
  if (!rows.length || wrong >= 0) throw new Error(`${file.name}${rows.length ? `, pair ${wrong + 1},` : ""} has no ${GOOD} and ${BAD}: give a file of minimal pairs.`);
  if (rows.length > MOST_PAIRS) throw new Error(`The file has ${rows.length.toLocaleString("en")} pairs, and the page takes ${MOST_PAIRS.toLocaleString("en")}: use unmask score --pairs.`);
  return rows.map((row) => [String(row[GOOD]), String(row[BAD])]);
}

// Scores pairs into `box` by the score {name, better}; returns a function that stops it.
export function scorePairs(box, pairs, { name, better }, unit, from) {
  const latest = new Latest();
  const status = new Status();
  const done = [];
  const body = h("tbody", {});
  const total = h("p", { class: "lead", "aria-live": "polite" });
  const right = (row) => (better === "higher" ? row.good > row.bad : row.good < row.bad);
  const rows = () => [[GOOD, BAD, "good", "bad", "difference", "right"], ...done.map((row) => [...row.texts, row.good, row.bad, row.good - row.bad, right(row)])];
  const say = () => {
    const known = done.filter((row) => !row.reason);
    const wins = known.filter(right).length;
    total.textContent = known.length ? `${wins} of ${known.length} pairs right by ${name}: ${((100 * wins) / known.length).toFixed(1)} %.${done.length > known.length ? ` ${done.length - known.length} could not be scored.` : ""}` : "";
  };
  const line = (row) => h("tr", {}, h("td", { class: "text", dir: "auto" }, row.texts[0]), h("td", { class: "text", dir: "auto" }, row.texts[1]),
    row.reason ? h("td", { colSpan: 3 }, row.reason) : [nats(row.good), nats(row.bad), right(row) ? "yes" : "no"].map((value) => h("td", { class: "n" }, value)));
  box.replaceChildren(card({ title: `Minimal pairs of ${from}`, label: "minimal pairs", name: "pairs", rows, data: () => done },
    total, status.element, h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "pairs" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, ["good", "bad", `${name} of good`, "of bad", "right"].map((head, n) => h("th", { scope: "col", class: n > 1 ? "n" : "" }, head)))), body)),
    pairs.length > SHOWN ? h("p", { class: "note" }, `The first ${SHOWN} are shown; the files have all.`) : null));

  (async () => {
    const signal = latest.begin();
    status.stoppable(() => { latest.stop(); status.say(`Stopped after ${done.length} of ${pairs.length} pairs.`); status.stoppable(null); });
    try {
      for (let at = 0; at < pairs.length; at += AT_ONCE) {
        const some = pairs.slice(at, at + AT_ONCE);
        status.say(`${at.toLocaleString("en")} of ${pairs.length.toLocaleString("en")} pairs`, at / pairs.length);
        const found = (await ask("score", { texts: some.flat(), score: [name], unit }, signal)).rows;
        some.forEach((texts, n) => {
          const [good, bad] = [found[2 * n], found[2 * n + 1]];
          done.push({ texts, good: Number(good[name]), bad: Number(bad[name]), reason: good.reason ?? bad.reason });
          if (done.length <= SHOWN) body.append(line(done.at(-1)));
        });
        say();
      }
      status.say("");
    } catch (error) {
      if (error.name === "AbortError") return;
      status.say("");
      total.after(failure(error));
    }
    status.stoppable(null);
  })();
  return () => latest.stop();
}
