"""What a small query costs besides its rows: transactions of the ledger, statements, analyses, looks at the data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

import dpsql
from dpsql.sql.as_sql import as_sql

POLICY = """
[budget]
epsilon = 1000
delta = 0
[privacy]
max_rows = 4{more}
[tables.visits]
source = "visits.parquet"
unit = "person"
[tables.visits.columns]
city = {{ values = ["Bern", "Lima"] }}
minutes = {{ min = 0, max = 60 }}
"""
QUERY = "SELECT city, AVG(minutes) FROM visits WHERE minutes <> {} GROUP BY city"


@pytest.mark.parametrize(
    ("more", "writes"),
    [
        ("\nlimits_share = 0", 3),  # the price, the release, the answer
        ("", 4),  # the counts that tell what limits cut are a release of their own
    ],
)
def test_a_new_query_takes_few_transactions_of_the_ledger(
    tmp_path: Path, more: str, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.accounting.fingerprint.SETTLED_NS", -1)  # a young file is noted at once, not later
    file = tmp_path / "visits.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS person, 'Bern' AS city, 5 AS minutes) TO '{file}' (FORMAT parquet)")
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(more=more), encoding="utf-8")
    begun: list[str] = []
    with dpsql.connect(policy) as session:
        connection = session._engine.ledger._store._connection
        connection.set_trace_callback(lambda text: begun.append(text) if text.startswith("BEGIN") else None)
        session.query(QUERY.format(1), epsilon=1)
        assert begun == ["BEGIN IMMEDIATE"] * writes
        begun.clear()
        session.explain(QUERY.format(2), epsilon=1)
        assert begun == []


@pytest.mark.parametrize(
    ("more", "measured"),
    [
        ("\nlimits_share = 0", 1),
        ("", 3),  # and the counts of units: by their rows, and of those with values outside of the range
    ],
)
def test_a_new_query_does_each_piece_of_work_once(
    tmp_path: Path, more: str, measured: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb.sql(f"COPY (SELECT 1 AS person, 'Bern' AS city, 5 AS minutes) TO '{tmp_path / 'visits.parquet'}'")
    policy = tmp_path / "policy.toml"
    policy.write_text(POLICY.format(more=more), encoding="utf-8")
    done: Counter[str] = Counter()

    def count(place: str, what: str) -> None:
        owner, _, name = place.rpartition(".")
        plain = getattr(_found(owner), name)

        def counted(*given: Any, **named: Any) -> Any:
            done[what] += 1
            return plain(*given, **named)

        monkeypatch.setattr(place, counted)

    count("dpsql.backends.duckdb.cursor.Cursor._stoppable", "statements that are run")
    count("dpsql.backends.duckdb.public.TwinDatabase._described", "statements that are described")
    count("dpsql.analyze.checked._release", "analyses")
    count("dpsql.backends.duckdb.run.text_of", "texts of statements")
    count("dpsql.engine.Shared.versions", "looks at the data")
    with dpsql.connect(policy) as session:
        session.query(QUERY.format(1), epsilon=1)
        done.clear()
        session.query(QUERY.format(2), epsilon=1)
        assert done == {
            "statements that are run": measured,
            "statements that are described": 1,
            "analyses": 1,
            "texts of statements": measured,
            # as the query begins, as its quote begins and ends, before it is charged, and after each of its stages
            "looks at the data": 5 + (2 if measured > 1 else 1),
        }
        done.clear()
        session.query(QUERY.format(2), epsilon=2)  # another price: nothing is described twice
        assert done["statements that are described"] == 0


def _found(place: str) -> Any:
    """A module or a class by its full name."""
    module, _, name = place.rpartition(".")
    return getattr(_found(module), name) if module else __import__(place)


@pytest.mark.parametrize("text", ["DECIMAL(38, 2)", "TEXT", "TIMESTAMPTZ", "INT[]", "STRUCT(a INT)", "VARCHAR(7)"])
def test_the_name_of_a_type_is_the_same_when_it_is_written_again(text: str) -> None:
    for kind in (text, "DECIMAL(38, 3)", "BIGINT", text):  # those in between are others
        node = exp.DataType.build(kind, dialect="duckdb")
        assert as_sql(node) == node.sql(dialect="duckdb")
        cast = exp.Cast(this=exp.column("x"), to=node)
        assert as_sql(cast) == cast.sql(dialect="duckdb")
