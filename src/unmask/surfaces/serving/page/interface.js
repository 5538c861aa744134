// The operations of the interface, from its own OpenAPI document.
import { Api } from "./ask.js";
import { h } from "./drawing/dom.js";

const root = document.getElementById("operations");

function named(document, schema) {
  if (!schema?.$ref) return schema;
  return document.components.schemas[schema.$ref.split("/").at(-1)];
}

const BOUNDS = [
  ["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"],
  ["minLength", "at least", " characters"], ["maxLength", "at most", " characters"],
];

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.const) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${schema.items ? kind(schema.items) : "anything"}`;
  const known = BOUNDS.filter(([name]) => schema[name] !== undefined);
  const told = known.map(([name, sign, unit]) => `${sign} ${schema[name]}${unit ?? ""}`).join(", ");
  return `${schema.type ?? "anything"}${told ? ` (${told})` : ""}`;
}

function fieldRow(body, [name, schema]) {
  const meaning = schema.description ?? schema.anyOf?.[0].description ?? "";
  const usual = body.required?.includes(name) ? "needed" : JSON.stringify(schema.default) ?? "";
  return h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)),
    [meaning, kind(schema), usual].map((text) => h("td", {}, text)));
}

function fieldTable(path, body, fields) {
  const heads = ["field", "what it is", "what it may be", "if left out"];
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": `fields of ${path}` },
    h("table", { class: "data" },
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, fields.map((field) => fieldRow(body, field)))));
}

function operation(document, path, method, about) {
  const body = named(document, about.requestBody?.content?.["application/json"]?.schema);
  const fields = Object.entries(body?.properties ?? {});
  return h("section", { class: "card" },
    h("header", {}, h("h2", {}, h("code", {}, `${method.toUpperCase()} ${path}`))),
    h("p", {}, about.description ?? ""),
    fields.length > 0 && fieldTable(path, body, fields),
    (body?.examples ?? []).map((example) => h("pre", { class: "wrapped" }, h("code", {}, JSON.stringify(example)))));
}

try {
  const document = await new Api().ask("../openapi.json");
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, about] of Object.entries(methods)) root.append(operation(document, path, method, about));
  }
} catch (error) {
  root.append(h("p", { class: "error", role: "alert" }, error.message));
}
