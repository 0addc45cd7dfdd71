"""How the time of each listed function that takes or makes text grows with the text.

    python -m benchmarks.text_functions            # measures, prints the table, writes text_functions.csv beside it
    python -m benchmarks.text_functions LIKE TRIM  # only these, and writes nothing

Each form is measured as it is rendered over private rows, on every kind of hostile text, at n, 4n and 16n characters:
one thread, the least of five CPU times, with n and the number of rows chosen so that the first time is at least 1 ms.
The table keeps the worst kind for each form. A step of 4 that takes more than 6 times as long is out: n·log n stays
well below, n² takes 16. `tests/sql/test_lengths.py` fails when a listed text function isn't in the table.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import duckdb
from sqlglot import exp, parse_one

from dpsql.analyze.per_unit import own_aggregate
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.sql.scalar import Scalar, scalar

TABLE = Path(__file__).parent / "text_functions.csv"
FIELDS = ("function", "form", "text", "rows", "n", "ms_n", "ms_4n", "ms_16n", "step_1", "step_2", "duckdb")
WORST_STEP = 6.0
STEPS = (1, 4, 16)
RUNS = 5
LEAST = 0.001  # seconds
SIZES = ((4_000, 16), (4_000, 64), (4_000, 256), (4_000, 512), (4_000, 1_024), (250, 16_000), (16, 250_000))  # n, rows
# RE2 has a faster way for texts below about 50,000 characters, and both are linear: these are longer from the start.
LONG_SIZES = ((64_000, 1), (64_000, 4), (64_000, 16), (64_000, 64))
LONG = ("REGEXP_MATCHES", "REGEXP_FULL_MATCH", "SIMILAR TO", "REGEXP_EXTRACT", "REGEXP_REPLACE")

# What a text is made of, over and over again.
KINDS: dict[str, str] = {
    "words": "'Lorem ipsum 12, dolor; '",
    "one letter": "'a'",
    "two letters": "'ab'",
    "blanks": "' '",
    "digits": "'1'",
    "marks out of order": "chr(769) || chr(803)",
    "letters with marks": "'e' || chr(769) || chr(803)",
    "four bytes": "chr(128512)",
    "joined emoji": "chr(128105) || chr(8205)",
    "flags": "chr(127462)",
    "Hangul parts": "chr(4352) || chr(4449) || chr(4520)",
    "percent": "'%_'",
}
MISS = "a" * 900 + "b"  # is nearly found everywhere in a text of one letter

FORMS: dict[str, tuple[str, ...]] = {
    "LOWER": ("lower(x)",),
    "UPPER": ("upper(x)",),
    "REVERSE": ("reverse(x)",),
    "LENGTH": ("length(x)",),
    "STRLEN": ("strlen(x)",),
    "TRIM": ("trim(x)", "trim(x, 'a é')"),
    "LTRIM": ("ltrim(x)", "ltrim(x, 'a')"),
    "RTRIM": ("rtrim(x)", "rtrim(x, 'a')"),
    "SUBSTRING": ("substring(x, 3)", "substring(x, -3, 2)", "substring(x, length(y), 9)"),
    "LEFT": ("left(x, 3)", "left(x, -3)", "left(x, 1000000)"),
    "RIGHT": ("right(x, 3)", "right(x, -3)", "right(x, 1000000)"),
    "REPLACE": ("replace(x, 'a', 'bc')", f"replace(x, '{MISS}', 'c')", "replace(x, 'aa', '')"),
    "||": ("x || y", "x || x || x || x || x || x || x || x || x || x"),
    "CONCAT": ("concat(x, y)", "concat(x, 1, x)"),
    "CONCAT_WS": ("concat_ws(', ', x, y)", "concat_ws('-', x, x, x, x, x, x, x, x, x, x)"),
    "SPLIT_PART": ("split_part(x, 'a', 5)", "split_part(x, 'a', -5)", f"split_part(x, '{MISS}', 2)"),
    "STARTS_WITH": ("starts_with(x, y)", f"starts_with(x, '{MISS}')"),
    "ENDS_WITH": ("ends_with(x, y)",),
    "CONTAINS": ("contains(x, y)", "contains(y, x)", f"contains(x, '{MISS}')"),
    "POSITION": ("strpos(x, y)", f"strpos(x, '{MISS}')", "strpos(x, 'é')"),
    "LIKE": (
        "x LIKE '%a%a%a%b'", "x LIKE '%a_a%a_b%'", f"x LIKE '%{MISS}%'", "x LIKE '%_%_%_%é'",
        f"x LIKE '{'%a' * 400}%é'",
    ),
    "ILIKE": ("x ILIKE '%a%a%a%B'", "x ILIKE '%a_a%a_b%'", f"x ILIKE '%{MISS}%'", f"x ILIKE '{'%A' * 400}%é'"),
    "LIKE … ESCAPE": ("x LIKE '%a%a!%%b' ESCAPE '!'", "x LIKE '%!%!_%!%é' ESCAPE '!'"),
    "REGEXP_MATCHES": (
        "regexp_matches(x, '(a|aa)*b')", "regexp_matches(x, '(a*)*(a*)*b')", "regexp_matches(x, 'a{300}b')",
        "regexp_matches(x, '(.*a){9}c')", "regexp_matches(x, '(?:a?){200}a{200}é', 'i')",
    ),
    "REGEXP_FULL_MATCH": ("regexp_full_match(x, '(a|aa)+')", "regexp_full_match(x, '(a|b|ab)*(bc|c)*')"),
    "SIMILAR TO": ("x SIMILAR TO '(a|aa)*b'",),
    "REGEXP_EXTRACT": (
        "regexp_extract(x, '(a*)(a*)b', 2)", "regexp_extract(x, '(a+)+$', 1)", "regexp_extract(x, '(.*)(.*)(.*)é', 3)",
    ),
    "REGEXP_REPLACE": (
        "regexp_replace(x, 'a', 'bc', 'g')", "regexp_replace(x, '(a+)(b+)', '\\2\\1', 'g')",
        "regexp_replace(x, 'a*?b', '', 'g')", "regexp_replace(x, 'a*b', '', 'g')", "regexp_replace(x, '', '-', 'g')",
        "regexp_replace(x, '(.*)', '\\1\\1', 'g')",
    ),
    "ASCII": ("ascii(x)",),
    "UNICODE": ("unicode(x)",),
    "BIT_LENGTH": ("bit_length(x)",),
    "LENGTH_GRAPHEME": ("length_grapheme(x)",),
    "LEFT_GRAPHEME": ("left_grapheme(x, 3)", "left_grapheme(x, -3)", "left_grapheme(x, 1000000)"),
    "RIGHT_GRAPHEME": ("right_grapheme(x, 3)", "right_grapheme(x, -3)", "right_grapheme(x, 1000000)"),
    "SUBSTRING_GRAPHEME": ("substring_grapheme(x, 3)", "substring_grapheme(x, -3, 2)"),
    "STRIP_ACCENTS": ("strip_accents(x)",),
    "TRANSLATE": ("translate(x, 'abc é', 'xy')", f"translate(x, '{''.join(chr(c) for c in range(256, 1200))}', 'z')"),
    "LPAD": ("lpad(x, 1000, 'é')", "lpad(x, 10, 'é')"),
    "RPAD": ("rpad(x, 1000, 'é')",),
    "=": ("x = y", "x = 'a'"),
    "<>": ("x <> y",),
    "<": ("x < y",),
    "<=": ("x <= y",),
    ">": ("x > y",),
    ">=": ("x >= y",),
    "IS DISTINCT FROM": ("x IS DISTINCT FROM y",),
    "IS NOT DISTINCT FROM": ("x IS NOT DISTINCT FROM y",),
    "BETWEEN": ("x BETWEEN y AND x",),
    "IN": ("x IN (y, 'a', 'b')", "x IN ('a', 'b', 'c')"),
    "IS NULL": ("x IS NULL",),
    "CASE": ("CASE WHEN x > y THEN x ELSE y END", "CASE x WHEN y THEN 1 WHEN 'a' THEN 2 END"),
    "IF": ("if(x > y, x, y)",),
    "COALESCE": ("coalesce(x, y)",),
    "NULLIF": ("nullif(x, y)",),
    "LEAST": ("least(x, y, 'z')",),
    "GREATEST": ("greatest(x, y, 'z')",),
    "CAST": (
        "CAST(x AS DOUBLE)", "CAST(x AS FLOAT)", "CAST(x AS BIGINT)", "CAST(x AS HUGEINT)", "CAST(x AS TINYINT)",
        "CAST(x AS DECIMAL(38, 10))", "CAST(x AS BOOLEAN)", "CAST(x AS DATE)", "CAST(x AS TIMESTAMP)",
        "CAST(x AS TIMESTAMPTZ)", "TRY_CAST('2020-01-01 00:00:00 ' || x AS TIMESTAMPTZ)", "CAST('1.' || x AS DOUBLE)",
        "CAST('0.' || x AS DECIMAL(20, 3))", "CAST('1e' || x AS BIGINT)", "CAST(ts AS VARCHAR)",
    ),
    "DATE": ("date(x)",),
    "STRPTIME": ("strptime(x, '%Y-%m-%d')", "strptime(x, '%d %B %Y')", f"strptime(x, '{'a' * 190}%Y')"),
    "STRFTIME": ("strftime(ts, '%Y-%m-%d %A')",),
    "DAYNAME": ("dayname(ts)",),
    "MONTHNAME": ("monthname(ts)",),
    "MIN within a unit": ("min(x)",),
    "MAX within a unit": ("max(x)",),
    "COUNT within a unit": ("count(x)", "count(DISTINCT x)"),
    "FIRST within a unit": ("first(x ORDER BY y)",),
    "LAST within a unit": ("last(x ORDER BY y)",),
    "ARG_MAX within a unit": ("arg_max(x, y)",),
    "ARG_MIN within a unit": ("arg_min(x, y)",),
}  # fmt: skip


@lru_cache(maxsize=1)
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET disabled_optimizers = 'statistics_propagation,join_filter_pushdown'")
    return connection


TABLES: dict[str, object] = {}  # of one kind of text


def rows(kind: str, n: int, count: int) -> str:
    """A table of `count` rows: x has n characters, y nearly half of them, and then another one.

    It is an Arrow table, whose texts are read where they lie: DuckDB's own tables copy texts above 4 KiB.
    """
    name = f"{n} {count}"
    if name not in TABLES:
        long, short = (f"left(repeat({KINDS[kind]}, {k}), {k})" for k in (n, n // 2))
        query = f"SELECT {long} AS x, {short} || 'b' AS y, TIMESTAMP '2024-02-29' AS ts FROM range({count})"
        TABLES[name] = engine().sql(query).to_arrow_table()
        engine().register(name, TABLES[name])
    return f'"{name}"'


def forget() -> None:
    """Drop the tables of one kind of text."""
    for name in TABLES:
        engine().unregister(name)
    TABLES.clear()


def rendered(function: str, form: str) -> str:
    """An argument of SELECT that computes a form as the engine would over private rows."""
    columns = {
        "x": Scalar(exp.column("x"), Type("VARCHAR"), Range()),
        "y": Scalar(exp.column("y"), Type("VARCHAR"), Range()),
        "ts": Scalar(exp.column("ts"), Type("TIMESTAMP"), Range()),
    }
    tree = parse_one(form, dialect="duckdb")
    if function.endswith("within a unit"):
        return own_aggregate(tree, columns, None).sql.sql(dialect="duckdb")
    return f"count({scalar(tree, columns).sql.sql(dialect='duckdb')})"


def cpu(sql: str, table: str) -> float:
    """The least of some CPU times, in seconds."""
    found = []
    for _ in range(RUNS):
        start = time.process_time()
        engine().execute(f"SELECT {sql} FROM {table}").fetchall()
        found.append(time.process_time() - start)
        if found[0] > 1:
            break
    return min(found)


def measure(sql: str, kind: str, sizes: Sequence[tuple[int, int]]) -> tuple[int, int, list[float]]:
    """Rows, n, and the times at n, 4n and 16n."""
    for n, count in sizes:
        first = cpu(sql, rows(kind, n, count))
        if first >= LEAST:
            break
    times = [first]
    for step in STEPS[1:]:
        times.append(cpu(sql, rows(kind, n * step, count)))
        if times[-1] > 30:
            times += [float("inf")] * (len(STEPS) - len(times))
            break
    return count, n, times


def steps(times: list[float]) -> list[float]:
    return [b / a for a, b in pairwise(times)]


def line(function: str, form: str, kind: str) -> dict[str, str]:
    """What one form takes on one kind of text."""
    sql = rendered(function, form)
    sizes = LONG_SIZES if function in LONG else SIZES
    count, n, times = measure(sql, kind, sizes)
    for _ in range(3):  # a disturbance is over when it is measured once more
        if max(steps(times)) > WORST_STEP:
            _, _, again = measure(sql, kind, ((n, count),))
            times = [min(pair) for pair in zip(times, again, strict=True)]
    shown = form if len(form) <= 60 else f"{form[:40]}…{form[-19:]}"
    values = (function, shown, kind, count, n, *(f"{t * 1000:.2f}" for t in times), *(f"{s:.1f}" for s in steps(times)))
    return {name: str(value) for name, value in zip(FIELDS, (*values, duckdb.__version__), strict=True)}


def growth(line: dict[str, str]) -> float:
    return max(float(line["step_1"]), float(line["step_2"]))


def table(functions: list[str]) -> list[dict[str, str]]:
    """For each form the line of that kind of text on which its time grows most."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for kind in KINDS:
        for function in functions:
            for form in FORMS[function]:
                one = line(function, form, kind)
                found[function, form] = max(found.get((function, form), one), one, key=growth)
                if growth(one) > WORST_STEP:
                    print("out:", *one.values(), sep="\t", flush=True)
        forget()
        print(f"{kind}: done", flush=True)
    return list(found.values())


def main(asked: list[str]) -> int:
    lines = table(asked or list(FORMS))
    for one in lines:
        print(*one.values(), sep="\t")
    if not asked:
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
    return any(growth(one) > WORST_STEP for one in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
