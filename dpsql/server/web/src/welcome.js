// Before the first answer: what this is, and queries over the policy's own tables to begin with.
import { h } from "./dom.js";

/** Up to three queries over the first private tables: a count, a count by key, an average by key. */
export function examplesOf(tables) {
  const name = (text) => (/^[a-z_]\w*$/i.test(text) ? text : `"${text.replaceAll('"', '""')}"`);
  const found = tables
    .filter((table) => table.kind !== "public")
    .map((table) => {
      const keys = table.columns.filter((one) => one.ask.startsWith("key"));
      return {
        table: name(table.name),
        key: keys.find((one) => !/INT|DOUBLE|FLOAT|DECIMAL/.test(one.type)) ?? keys[0],
        value:
          table.columns.find((one) => one.ask.includes("AVG") && !one.ask.startsWith("key")) ??
          table.columns.find((one) => one.ask.includes("AVG")),
      };
    });
  const best =
    found.find((one) => one.key && one.value && !one.value.ask.startsWith("key")) ??
    found.find((one) => one.key && one.value) ??
    found.find((one) => one.key) ??
    found[0];
  if (!best) return [];
  const { table, key, value } = best;
  return [
    `SELECT COUNT(*) AS n\nFROM ${table}`,
    key && `SELECT ${name(key.name)}, COUNT(*) AS n\nFROM ${table}\nGROUP BY ${name(key.name)}`,
    key &&
      value &&
      value !== key &&
      `SELECT ${name(key.name)}, AVG(${name(value.name)}) AS average\nFROM ${table}\nGROUP BY ${name(key.name)}`,
  ].filter(Boolean);
}

/** The card that stands where the answer will be. */
export function welcome(examples, sql) {
  return h(
    "section",
    { class: "card welcome" },
    h("h2", "Ask something"),
    h(
      "p",
      "Counts, sums, averages, quantiles, by group: ordinary SQL. Price and error are shown while you type, ",
      "and nothing is spent until you say so.",
    ),
    examples.length > 0 &&
      h(
        "div",
        { class: "examples" },
        examples.map((text) =>
          h(
            "button",
            {
              type: "button",
              class: "example",
              onclick: () => {
                sql.write(text);
                sql.focus();
              },
            },
            h("code", text),
          ),
        ),
      ),
    h("p", { class: "note" }, "An answer that you paid for stays in your history, and is free to see again."),
  );
}
