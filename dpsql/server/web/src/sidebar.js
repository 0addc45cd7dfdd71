// Beside the editor: the policy's tables, what was asked before, and the functions that are understood.
import { fill, h, tabbed } from "./dom.js";
import { amount, when } from "./format.js";

/** The side bar: { element, tables(schema), functions(list), history(entries) }. */
export function sidebar({ oninsert, onreplay }) {
  const schema = h("div", { class: "panel" }, h("p", { class: "note" }, "Tables are being looked up."));
  const past = h("div", { class: "panel" }, h("p", { class: "note" }, "Nothing was asked yet."));
  const functions = h("div", { class: "panel" });
  const { list, show } = tabbed("tables, history and functions", [
    ["Tables", schema],
    ["History", past],
    ["Functions", functions],
  ]);
  const element = h(
    "aside",
    { class: "sidebar", id: "sidebar", "aria-label": "tables, history and functions" },
    list,
    schema,
    past,
    functions,
  );
  return {
    element,
    show,
    tables: (found) =>
      fill(
        schema,
        found.map((table, i) => tableOf(table, i < 3, oninsert)),
      ),
    functions: (found) => fill(functions, functionList(found, oninsert)),
    history: (entries) => fill(past, historyList(entries, onreplay)),
  };
}

// ---------------------------------------------------------------- tables

function tableOf(table, open, oninsert) {
  const facts = [table.unit && `protects each ${table.unit}`, table.limits].filter(Boolean);
  return h(
    "details",
    { class: "table", open },
    h(
      "summary",
      h("span", { class: "table-name" }, table.name),
      h("span", { class: `tag ${table.kind}` }, table.kind),
    ),
    facts.length > 0 &&
      h(
        "p",
        { class: "note facts" },
        facts.map((one) => h("span", one)),
      ),
    h(
      "ul",
      { class: "columns" },
      table.columns.map((column) =>
        h(
          "li",
          h(
            "button",
            {
              type: "button",
              title: `write ${column.name} into the query`,
              onclick: () => oninsert(column.name),
            },
            h("span", { class: "column-name" }, column.name),
            h("span", { class: "type" }, column.type.toLowerCase()),
          ),
          table.kind !== "public" && h("span", { class: "column-facts" }, facing(column)),
        ),
      ),
    ),
  );
}

const ROLES = { unit: "unit", key: "public key", "key (selected)": "selected key" };

/** What a column is first of all, by what the API says can be asked of it; nothing where it is neither unit nor key. */
export const roleOf = (ask) => ROLES[ask.split(/[,:]/)[0]];

/** A column's range or public keys, and what can be asked of it. */
function facing({ values, ask }) {
  const role = roleOf(ask);
  return [role && h("span", { class: "tag" }, role), values && h("span", values), !role && !values && h("span", ask)];
}

// ---------------------------------------------------------------- history

const FIRST = /^(limits|ranges?|bounds) of: /;

/** One line for each query: what its limits and ranges cost was part of its price. Newest first. */
export function queries(entries) {
  const found = new Map();
  for (const entry of entries) {
    const sql = (entry.sql ?? "").replace(FIRST, "");
    const name = `${entry.time} ${entry.analyst ?? ""} ${sql}`;
    const before = found.get(name) ?? { ...entry, sql, epsilon: 0, id: null };
    before.epsilon += entry.cost.epsilon;
    if (!FIRST.test(entry.sql ?? "")) Object.assign(before, { id: entry.id, state: entry.state });
    found.set(name, before);
  }
  return [...found.values()].reverse();
}

function historyList(entries, onreplay) {
  const asked = queries(entries);
  if (!asked.length)
    return h("p", { class: "note" }, "Nothing was asked yet. What you ask stays here, and is free to see again.");
  return h(
    "ul",
    { class: "history" },
    asked.map((one) =>
      h(
        "li",
        h(
          "button",
          {
            type: "button",
            disabled: !one.id,
            onclick: () => onreplay(one),
            title: one.sql,
            "aria-label": `show again, for free: ${one.sql}`,
          },
          h("code", one.sql),
          h(
            "span",
            { class: "history-facts" },
            h("span", when(one.time)),
            one.analyst && h("span", one.analyst),
            h("span", `ε ${amount(one.epsilon)}`),
            one.state !== "released" && h("span", { class: "tag" }, one.state),
          ),
        ),
      ),
    ),
  );
}

// ---------------------------------------------------------------- functions

function functionList(found, oninsert) {
  const kinds = new Map();
  for (const one of found) kinds.set(one.kind, [...(kinds.get(one.kind) ?? []), one]);
  const lists = [...kinds].map(([kind, forms], i) =>
    h(
      "details",
      { open: i === 0 },
      h("summary", kind),
      h(
        "ul",
        { class: "functions" },
        forms.map(({ form, about }) =>
          h(
            "li",
            h(
              "button",
              {
                type: "button",
                title: "write it into the query",
                onclick: () => oninsert(form.split(", ")[0]),
              },
              form,
            ),
            h("p", { class: "note" }, about),
          ),
        ),
      ),
    ),
  );
  const search = h("input", {
    type: "search",
    placeholder: "Find a function",
    "aria-label": "find a function",
    oninput: () => {
      const wanted = search.value.trim().toLowerCase();
      for (const list of lists) {
        const items = [...list.querySelectorAll("li")];
        items.forEach((item) => {
          item.hidden = wanted !== "" && !item.textContent.toLowerCase().includes(wanted);
        });
        list.hidden = items.every((item) => item.hidden);
        if (wanted) list.open = true;
      }
    },
  });
  return [search, lists];
}
