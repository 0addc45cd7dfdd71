"""dpsql learn, and dpsql refresh --learn: what they print, and how they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

Run = Callable[..., Result]
POLICY = """
[budget]
epsilon = 10

[tables.visits]
source = "visits.parquet"
unit = "person"

[tables.visits.columns]
minutes = { min = 0, max = 60, nullable = false }
"""


@pytest.fixture(autouse=True)
def visits(folder: Path) -> Path:
    """A policy over visits of people, whose promises are verified."""
    people = [i for i in range(500) for _ in range(1 + i % 5)]
    put(folder, people)
    (folder / "policy.toml").write_text(POLICY)
    return folder


def put(folder: Path, people: list[int]) -> None:
    pq.write_table(pa.table({"person": people, "minutes": [i % 60 for i in people]}), folder / "visits.parquet")


def test_learn_says_what_it_learned_and_what_it_cost(dpsql: Run) -> None:
    assert dpsql("refresh", "--steward").exit_code == 0
    first = dpsql("learn", "--steward", "--columns", "visits.minutes")
    assert first.exit_code == 0, first.output
    assert "learned   visits, visits.minutes" in first.stdout and "ε = 0.5, by the steward" in first.stdout
    again = dpsql("learn", "--steward")
    assert again.exit_code == 0 and "learned before" in again.stdout and "paid      nothing" in again.stdout
    shown = dpsql("budget").stdout
    assert "(steward)" in shown and "whole tables (dpsql learn): visits, visits.minutes" in shown
    assert "limits    learned, for free" in dpsql("explain", "SELECT COUNT(*) FROM visits", "--epsilon", "1").stdout


def test_learn_speaks_json(dpsql: Run) -> None:
    dpsql("refresh", "--steward")
    found = json.loads(dpsql("learn", "--steward", "--epsilon", "0.25", "--json").stdout)
    assert (found["learned"], found["known"], found["epsilon"]) == (["visits"], [], 0.25)
    assert len(found["receipts"]) == 1


def test_learning_is_for_stewards_and_refused_where_the_budget_is_smaller(dpsql: Run) -> None:
    refused = dpsql("learn")
    assert refused.exit_code == 2 and "--steward" in refused.stderr
    dpsql("refresh", "--steward")
    refused = dpsql("learn", "--steward", "--epsilon", "11")
    assert refused.exit_code == 4 and "--epsilon 10 fits" in refused.stderr


def test_refresh_learns_the_new_version_too(dpsql: Run, visits: Path) -> None:
    first = dpsql("refresh", "--steward", "--learn")
    assert first.exit_code == 0 and "learned   visits" in first.stdout
    put(visits, [i for i in range(600) for _ in range(3)])
    found = json.loads(dpsql("refresh", "--steward", "--learn", "--epsilon", "0.25", "--json").stdout)
    assert found["learn"]["learned"] == ["visits"] and found["learn"]["epsilon"] == 0.25
    assert "are for --learn" in dpsql("refresh", "--steward", "--epsilon", "1").stderr
