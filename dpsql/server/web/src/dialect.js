// The SQL that is understood, for colours and completion. Words that are rather columns (hour, year) aren't in it.
import { PostgreSQL, SQLDialect } from "@codemirror/lang-sql";

const WORDS = `
  select from where group by having qualify order limit offset as and or not in is null between like ilike similar to case
  when then else end join left inner cross on using union all except intersect distinct with exists over partition rows
  range groups preceding following unbounded current row filter within desc asc nulls first last cast try_cast interval
  true false values rollup cube grouping sets options differential_privacy describe show tables window any some`;
const TYPES = `
  bigint integer int smallint tinyint hugeint double float real decimal numeric varchar text char boolean bool date time
  timestamp timestamptz uuid blob`;

/** DuckDB's SQL as dpsql reads it. aggregates: their names, in colour; scalars are called like columns too often. */
export function dialect(aggregates) {
  return SQLDialect.define({
    ...PostgreSQL.spec,
    keywords: WORDS,
    types: TYPES,
    builtin: aggregates.join(" ").toLowerCase(),
  });
}
