// The page of the JSON interface: its operations, from its own OpenAPI document.
import { Api } from "./ask.js";
import { h } from "./drawing/dom.js";

const METHODS = ["get", "post", "put", "patch", "delete"]; // a path may have other entries, such as its parameters
const HEADS = ["field", "what it is", "what it may be", "if left out"];
const BOUNDS = {
  minimum: (bound) => `≥ ${bound}`,
  exclusiveMinimum: (bound) => `> ${bound}`,
  maximum: (bound) => `≤ ${bound}`,
  exclusiveMaximum: (bound) => `< ${bound}`,
  minLength: (bound) => `length ≥ ${bound}`,
  maxLength: (bound) => `length ≤ ${bound}`,
  minItems: (bound) => `length ≥ ${bound}`,
  maxItems: (bound) => `length ≤ ${bound}`,
};
const root = document.getElementById("operations");

// A card for an operation.
function operation(openapi, path, method, entry) {
  const schemaOfBody = entry.requestBody?.content?.["application/json"]?.schema ?? {};
  const body = resolved(openapi, schemaOfBody);
  const ofBody = Object.entries(body.properties ?? {}).map(([name, schema]) => {
    const isNeeded = body.required?.includes(name) ?? false;
    return fieldRow(name, schema, isNeeded);
  });
  const ofPath = (entry.parameters ?? []).map((parameter) => {
    const schema = { description: parameter.description, ...parameter.schema };
    return fieldRow(parameter.name, schema, parameter.required);
  });
  const rows = [...ofPath, ...ofBody];
  const examples = (body.examples ?? []).map((example) => {
    const text = JSON.stringify(example);
    return h("pre", { class: "wrapped" }, h("code", {}, text));
  });
  const name = `${method.toUpperCase()} ${path}`;
  const table = rows.length > 0 ? fieldTable(name, rows) : null;
  const header = h("header", {}, h("h2", {}, h("code", {}, name)));
  const description = h("p", {}, entry.description ?? "");
  return h("section", { class: "card" }, header, description, table, examples);
}

function fieldTable(name, rows) {
  const heads = HEADS.map((head) => h("th", { scope: "col" }, head));
  const table = h("table", { class: "data" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows));
  return h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": `fields of ${name}` }, table);
}

function fieldRow(name, schema, isNeeded) {
  // Of a value that may be X or null, the description may be that of X, which comes first.
  const meaning = schema.description ?? schema.anyOf?.[0]?.description ?? "";
  const usual = "default" in schema ? JSON.stringify(schema.default) : "";
  const cells = [meaning, kind(schema), isNeeded ? "needed" : usual];
  return h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), cells.map((text) => h("td", {}, text)));
}

// What a value may be, in words.
function kind(schema) {
  if (schema.$ref) return nameOf(schema.$ref);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if ("const" in schema) return JSON.stringify(schema.const);
  const given = Object.keys(BOUNDS).filter((name) => name in schema);
  const bounds = given.map((name) => BOUNDS[name](schema[name])).join(", ");
  return bounds ? `${typeOf(schema)} (${bounds})` : typeOf(schema);
}

function typeOf(schema) {
  if (schema.type !== "array") return schema.type ?? "anything";
  const item = kind(schema.items ?? {});
  return item.includes(" or ") ? `list of (${item})` : `list of ${item}`;
}

// The schema that is meant: one may refer to another by its name.
function resolved(openapi, schema) {
  return schema.$ref ? openapi.components.schemas[nameOf(schema.$ref)] : schema;
}

// "#/components/schemas/FillRequest" is called FillRequest.
const nameOf = (reference) => reference.split("/").at(-1);

try {
  const openapi = await new Api().ask("../openapi.json"); // the document lies beside api/, not in it
  for (const [path, entries] of Object.entries(openapi.paths)) {
    const methods = METHODS.filter((method) => method in entries);
    root.append(...methods.map((method) => operation(openapi, path, method, entries[method])));
  }
} catch (error) {
  root.append(h("p", { class: "error", role: "alert" }, error.message));
}
