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
    return {
      from,
      options: [...(named.length ? named : schema).flatMap(columnsOf), ...calls],
      validFor: /^[\w"]*$/,
    };
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

/** The names of the functions in a form: GEOMEAN(x), GEOMETRIC_MEAN(x) has two. */
export function callNames({ kind, form }) {
  if (kind.startsWith("as ") || form.startsWith("ORDER BY")) return []; // clauses, not functions
  return [...new Set(form.match(/\b[A-Z][A-Z0-9_]+(?=\(|,|$)/g) ?? [])];
}

/** A completion for each of them, with the cursor behind the bracket. */
function callsOf(one) {
  return callNames(one).map((name) => ({
    label: name,
    apply: `${name}(`,
    info: one.about,
    type: "function",
    boost: 1,
  }));
}
