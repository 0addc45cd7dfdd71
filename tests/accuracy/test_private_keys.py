"""Numbers of groups whose keys aren't public: they lose few of their rows to limits that nobody named."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpsql

PEOPLE = 3_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """One to about 30 rows each: f is x in a tenth of them and y in the others; each person has one of four homes."""
    random = np.random.default_rng(28)
    rows = random.geometric(0.2, PEOPLE)
    id = np.repeat(np.arange(PEOPLE), rows)
    return pa.table(
        {
            "id": id,
            "f": random.choice(["x", "y"], len(id), p=[0.1, 0.9]),
            "home": random.choice(["n", "s", "e", "w"], PEOPLE)[id],
            "v": random.uniform(80, 100, len(id)),
        }
    )


@pytest.mark.parametrize(("key", "within"), [("f", 0.45), ("home", 0.25)])
def test_few_keys_keep_their_rows_and_have_intervals_of_two_ends(table: pa.Table, key: str, within: float) -> None:
    sql = f"SELECT {key}, COUNT(*) AS n FROM t GROUP BY {key}"
    with duckdb.connect() as plain:
        plain.register("t", table)
        truth = dict(plain.sql(sql).fetchall())
    columns = {"v": {"min": 0, "max": 100}}
    policy = {"budget": {"epsilon": 1000, "delta": 1e-4}, "tables": {"t": {"unit": "id", "columns": columns}}}
    for _ in range(3):
        with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": table}, ledger=":memory:") as session:
            answer = session.query(sql, epsilon=1, delta="1e-6")
        found = dict(answer.rows)
        assert found.keys() == truth.keys()
        for (name, count), ends in zip(answer.rows, answer.intervals()["n"] or [], strict=True):
            assert abs(count / truth[name] - 1) <= within, (name, count, truth[name])
            assert ends is not None and np.isfinite(ends).all() and ends[0] - 500 <= truth[name] <= ends[1] + 500


def test_a_limit_of_one_group_tells_what_its_limit_on_rows_cuts(table: pa.Table) -> None:
    """The rows that count lie in one group: the histogram of the largest group knows them."""
    policy = {"budget": {"epsilon": 1000, "delta": 1e-4}, "tables": {"t": {"unit": "id"}}}
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": table}, ledger=":memory:") as session:
        answer = session.query("SELECT f, COUNT(*) AS n FROM t GROUP BY f", epsilon=1, delta="1e-6", max_groups=1)
        assert all(ends is not None and np.isfinite(ends).all() for ends in answer.intervals()["n"] or [None])
        assert "too little is known" not in str(answer)
