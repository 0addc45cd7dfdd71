"""The shorter way of writing trees writes what sqlglot writes."""

from __future__ import annotations

from pathlib import Path

import golden_files
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from dpsql.sql.as_sql import as_sql
from dpsql.sql.writer import QUICK, writer

TPCH = sorted((Path(__file__).parent.parent / "tpch").glob("q*.sql"))
UNUSUAL = [
    'SELECT t."a""b", t.*, * EXCLUDE (c), COUNT(*) FILTER (WHERE x), "Ü", select_1 FROM "s"."t" AS t(a, b)',
    "SELECT DISTINCT a FROM t TABLESAMPLE 10% JOIN u USING (a) ORDER BY a LIMIT 1",
    "SELECT a FROM t, u CROSS JOIN v LEFT JOIN w ON t.a = w.a AND (t.b = w.b OR t.c) ANTI JOIN x ON a = b",
    "SELECT a FROM t RIGHT JOIN u ON a = b FULL JOIN v ON TRUE ASOF JOIN w ON a >= b SEMI JOIN (SELECT 1) y ON a = b",
    "SELECT 1 /* one */ + 2 /* two */, a /* three */ AS b FROM t /* four */ WHERE /* five */ a GROUP BY a /* six */",
    "SELECT -1, - -1, 1e5, .5, '', 'it''s', NOT a, NOT (a AND b), a - (b - c), (a - b) - c, a = b = c FROM t",
    "SELECT CASE WHEN a THEN 1 END, CASE a WHEN 1 THEN 2 ELSE 3 END, a IS NOT DISTINCT FROM b, a AND b OR c AND d",
    "SELECT CAST(a AS DECIMAL(12, 2)), TRY_CAST(a AS INT), a::VARCHAR, a::INT[], a::STRUCT(b INT), CAST(a AS DOUBLE)",
    "SELECT a, SUM(b) FROM t GROUP BY ALL HAVING SUM(b) > 1",
    "SELECT a FROM t GROUP BY GROUPING SETS ((a), ()), b",
    "WITH x AS MATERIALIZED (SELECT 1 AS a) SELECT a FROM x WHERE a IN (SELECT a FROM x) UNION ALL (SELECT 2)",
    "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY c) FROM t QUALIFY a = 1",
    "SELECT BOOL_OR(a > 1), BOOL_AND(a), BOOL_OR(CAST(a AS BOOLEAN)), BOOL_OR(CAST(a AS INT)), BOOL_OR(DISTINCT a)",
    "FROM t",
    "SELECT",
]


def _texts() -> list[str]:
    """Queries of the golden files, what binding makes of them, and those of TPC-H."""
    cases = [case for folder in ("bind", "rewrite", "plan", "explain") for _, case in golden_files.read(folder)]
    return [*UNUSUAL, *(f.read_text(encoding="utf-8") for f in TPCH), *(t for c in cases for t in (c.sql, c.expected))]


def _trees() -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for text in _texts():
        try:
            found += [tree for tree in sqlglot.parse(text, dialect="duckdb") if isinstance(tree, exp.Query)]
        except SqlglotError:
            continue
    return found


@pytest.mark.parametrize("comments", [True, False])
@pytest.mark.parametrize("pretty", [True, False])
def test_a_tree_is_written_as_sqlglot_writes_it(comments: bool, pretty: bool) -> None:
    trees = _trees()
    assert len(trees) > 100
    seen = {type(node) for tree in trees for node in tree.walk()}
    assert seen >= QUICK.keys()
    for tree in trees:
        plain = tree.sql(dialect="duckdb", comments=comments, pretty=pretty, unsupported_level=ErrorLevel.IGNORE)
        assert as_sql(tree, comments=comments, pretty=pretty) == plain


def test_another_dialect_has_no_shorter_way() -> None:
    known, kind = writer("spark")
    tree = sqlglot.parse_one('SELECT "a" AS "b" FROM "t"', dialect="duckdb")
    assert kind(dialect=known).generate(tree) == tree.sql(dialect="spark") == "SELECT `a` AS `b` FROM `t`"
