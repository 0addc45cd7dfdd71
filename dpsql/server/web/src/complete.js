// What the editor offers besides SQL's own words: columns of the tables that the query names, and functions.

/** A source of completions over the schema's tables and the functions' forms. */
export function completions(schema, functions) {
  const calls = functions.flatMap(callsOf);
  return (context) => {
    const word = context.matchBefore(/[\w"]+/);
    if (!word && !context.explicit) return null;
    const from = word ? word.from : context.pos;
    if (context.state.sliceDoc(from - 1, from) === ".") return null; // the language knows what follows a table's name
    const written = context.state.doc.toString().toLowerCase();
    const named = schema.filter((table) => mentions(written, table.name.toLowerCase()));
    return { from, options: [...(named.length ? named : schema).flatMap(columnsOf), ...calls], validFor: /^[\w"]*$/ };
  };
}

function mentions(text, name) {
  return new RegExp(`(?<![\\w])${name.replace(/[^\w]/g, "\\$&")}(?![\\w])`).test(text);
}

function columnsOf(table) {
  return table.columns.map((column) => ({
    label: /^[a-z_]\w*$/i.test(column.name) ? column.name : `"${column.name.replaceAll('"', '""')}"`,
    detail: `${column.type} · ${table.name}`,
    info: [column.values, column.ask].filter(Boolean).join(" · ") || undefined,
    type: "property",
    boost: 2,
  }));
}

/** SUM(x), AVG(x) -> two completions, with the cursor behind the bracket. */
function callsOf({ form, about }) {
  const names = form.match(/\b[A-Z][A-Z0-9_]*(?=\(|,|$)/g) ?? [];
  return [...new Set(names)].filter((name) => !name.startsWith("SELECT")).map((name) => ({
    label: name,
    apply: `${name}(`,
    info: about,
    type: "function",
    boost: 1,
  }));
}
