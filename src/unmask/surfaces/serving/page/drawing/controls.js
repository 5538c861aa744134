// Controls with their labels: a list to choose from, a number in bounds, and buttons of which one is pressed.
import { h } from "./dom.js";

// offered   [[value, text, meaning]]
export function select(label, value, offered, change) {
  const options = offered.map(([name, text, title]) =>
    h("option", { value: name, selected: name === value, title }, text));
  const onchange = ({ currentTarget }) => change(currentTarget.value);
  return h("label", {}, label, h("select", { "aria-label": label, "data-key": `select:${label}`, onchange }, options));
}

// A number outside the bounds is refused, and the control says so.
// bounds       {min, max, step, said}; `said` is the bounds in words
// mayBeEmpty   whether the control may be emptied, which leaves the choice to the verb
export function number(label, value, { said, ...bounds }, change, mayBeEmpty = false) {
  const onchange = ({ currentTarget: box }) => {
    const isEmpty = box.value === "";
    const isTaken = box.checkValidity() && (!isEmpty || mayBeEmpty);
    const refusal = box.nextElementSibling; // the one in the page, which may be that of an older drawing
    const kept = value === "" ? "the default" : value;
    refusal.textContent = isTaken ? "" : `${said}: ${kept} is used`;
    if (isTaken) change(isEmpty ? "" : Number(box.value));
  };
  const props = { type: "number", value, ...bounds, "aria-label": label, "data-key": `number:${label}`, onchange };
  return h("label", {}, label, h("input", props), h("small", { class: "refused", role: "alert" }));
}

export function choices(label, value, offered, change) {
  const buttons = offered.map(([name, text, title]) => h("button", {
    type: "button", "aria-pressed": String(name === value), "data-key": `choices:${label}:${name}`, title,
    onclick: () => change(name),
  }, text));
  return h("div", { class: "group", role: "group", "aria-label": label }, buttons);
}
