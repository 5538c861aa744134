// The operations of the interface, from its own OpenAPI document.
import { Api } from "./ask.js";
import { h } from "./drawing/dom.js";

const root = document.getElementById("operations");

const named = (document, schema) => (schema?.$ref ? document.components.schemas[schema.$ref.split("/").at(-1)] : schema);

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return `list of ${schema.items ? kind(schema.items) : "anything"}`;
  const bounds = [["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"], ["minLength", "at least", " characters"], ["maxLength", "at most", " characters"]];
  const told = bounds.filter(([name]) => schema[name] !== undefined).map(([name, sign, unit]) => `${sign} ${schema[name]}${unit ?? ""}`).join(", ");
  return `${schema.type ?? "anything"}${told ? ` (${told})` : ""}`;
}

function operation(document, path, method, about) {
  const body = named(document, about.requestBody?.content?.["application/json"]?.schema);
  const fields = Object.entries(body?.properties ?? {});
  return h("section", { class: "card" },
    h("header", {}, h("h2", {}, h("code", {}, `${method.toUpperCase()} ${path}`))),
    h("p", {}, about.description ?? ""),
    fields.length ? h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": `fields of ${path}` }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, ["field", "what it is", "what it may be", "if left out"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, fields.map(([name, schema]) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), h("td", {}, schema.description ?? schema.anyOf?.[0].description ?? ""), h("td", {}, kind(schema)), h("td", {}, body.required?.includes(name) ? "needed" : JSON.stringify(schema.default) ?? "")))))) : null,
    (body?.examples ?? []).map((example) => h("pre", { class: "wrapped" }, h("code", {}, JSON.stringify(example)))));
}

try {
  const document = await new Api().ask("../openapi.json");
  for (const [path, methods] of Object.entries(document.paths)) for (const [method, about] of Object.entries(methods)) root.append(operation(document, path, method, about));
} catch (error) {
  root.append(h("p", { class: "error", role: "alert" }, error.message));
}
