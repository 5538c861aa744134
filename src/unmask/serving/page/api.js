// Requests to the model whose modules these are: /api of the page, /beside/api of a second model.
import { begun, halted } from "./job.js";

const BASE = new URL("api/", import.meta.url);

// A refusal is an error whose message can be shown as it is.
export class Refused extends Error {}

async function sent(path, body, signal) {
  let answer;
  try {
    answer = await fetch(new URL(path, BASE), body === undefined ? { signal } : {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer: is `unmask serve` still running?");
  }
  if (answer.ok) return answer;
  let line = `The server answered ${answer.status}.`;
  try { line = sentence((await answer.json()).error); } catch { /* not JSON: the status says enough */ }
  throw new Refused(line);
}

const sentence = (line) => line.charAt(0).toUpperCase() + line.slice(1) + (/[.!?]$/.test(line) ? "" : ".");

export const get = async (path, signal) => (await sent(path, undefined, signal)).json();
export const ask = async (path, body, signal) => (await sent(path, body, signal)).json();

// Server-sent events of a POST, as they come: yields [name, value]; an `error` event is raised.
export async function* follow(path, body, signal) {
  const reader = (await sent(path, body, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const lines = Object.fromEntries(part.split("\n").filter((l) => !l.startsWith(":")).map((l) => [l.slice(0, l.indexOf(": ")), l.slice(l.indexOf(": ") + 2)]));
      if (!lines.event) continue;
      const found = JSON.parse(lines.data);
      if (found.stopped && lines.event === "error") throw new DOMException("stopped", "AbortError");
      if (lines.event === "error") throw new Refused(sentence(found.error));
      yield [lines.event, found];
    }
  }
}

// An answer that may take long: `tell(share, line)` is called on the way.
export async function askSlowly(path, body, signal, tell) {
  for await (const [name, value] of follow(`${path}/events`, body, signal)) {
    if (name === "answer") return value;
    if (name === "job") { begun(signal, value.id); continue; }
    if (halted(signal)) continue;
    tell(value.total ? value.done / value.total : null, value.total ? `${value.done.toLocaleString("en")} of ${value.total.toLocaleString("en")} ${value.what}` : `${value.what} …`);
  }
  throw new Refused("The answer broke off: ask again.");
}

// Only the latest question counts: a new one cancels the one before, also on the server.
export class Latest {
  #controller = null;
  begin() {
    this.#controller?.abort();
    this.#controller = new AbortController();
    return this.#controller.signal;
  }
  stop() { this.#controller?.abort(); }
}
