"""What a small query costs besides its rows: transactions of the ledger, and statements on public tables."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpsql

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
