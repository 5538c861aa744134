// The address bar holds the state: #/view?name=value. Values that are the default are left out.
export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "fill", values: Object.fromEntries(new URLSearchParams(query)) };
}

export function write(view, values, defaults) {
  const kept = Object.entries(values).filter(([name, value]) => value !== "" && value !== null && String(value) !== String(defaults[name] ?? ""));
  const query = new URLSearchParams(kept.map(([name, value]) => [name, String(value)]));
  const hash = `#/${view}${kept.length ? `?${query}` : ""}`;
  if (hash !== location.hash) history.replaceState(null, "", hash);
}

// Values from the address over defaults, each as the default's kind; what is no number stays the default.
export function typed(values, defaults) {
  const found = { ...defaults };
  for (const [name, fallback] of Object.entries(defaults)) {
    if (!(name in values)) continue;
    if (typeof fallback === "number") found[name] = Number.isFinite(Number(values[name])) && values[name] !== "" ? Number(values[name]) : fallback;
    else if (typeof fallback === "boolean") found[name] = values[name] === "true";
    else found[name] = values[name];
  }
  return found;
}

export const numbers = (text) => (text ? text.split(",").map(Number).filter(Number.isInteger) : []);
