// A job on the server: its name comes with its first event, and a stopped job answers with what it has, where that means something.
const [names, stopped] = [new WeakMap(), new WeakSet()];

export const begun = (signal, id) => names.set(signal, id);
export const halted = (signal) => stopped.has(signal);

// Stops the question of `signal`: by name if it has one, else by leaving it. `left` is called in any case.
export function halt(latest, signal, status, left = () => {}) {
  const id = names.get(signal);
  stopped.add(signal);
  status.stoppable(null);
  status.say("Stopped.");
  left();
  if (id) fetch(new URL(`api/jobs/${id}`, import.meta.url), { method: "DELETE" }).catch(() => latest.stop());
  else latest.stop();
}
