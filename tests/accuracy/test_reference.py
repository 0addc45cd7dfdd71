"""The reference of the corpus is what a named limit gives: its formulas against the errors of many answers."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from accuracy.cases import GROUPED
from accuracy.judge import numbers
from accuracy.questions import A, N, Question, Range, S, facts
from accuracy.reference import Reference, Setting, references
from support import Connect

RANGE = {"v": Range(-50, 100)}
ANSWERS = 40


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """3,000 units of 1 to 30 rows; values depend on how many rows a unit has, and one in ten lies outside."""
    random = np.random.default_rng(5)
    counts = np.minimum(random.geometric(0.15, 3_000), 30)
    each = np.repeat(counts, counts)
    groups = np.where(each > 12, 3, random.choice(3, len(each)))
    values = np.where(random.random(len(each)) < 0.1, 500, random.uniform(-60, 40, len(each)) + 2 * each)
    return pa.table(
        {"id": np.repeat(np.arange(3_000), counts), "g": np.array(list("abcd"))[groups], "v": values},
    )


def asked(table: pa.Table, question: Question, setting: Setting) -> tuple[Any, dict[str, Reference]]:
    with duckdb.connect() as plain:
        plain.register("t", table)
        known = facts(plain, question, RANGE)
    return known, references(known, question, RANGE, setting)


@pytest.mark.parametrize(("limit", "epsilon"), [(4, 1), (30, 0.3)], ids=["most of it is cut", "all of it is noise"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    "question",
    [
        Question((N,), "g"),
        Question((S,), "g"),
        Question((N, S, A), "g"),
        Question((N,)),
        Question((S,)),
        Question((A,)),
    ],
)
@pytest.mark.sample(3)
def test_answers_with_a_named_limit_are_off_by_as_much(
    question: Question, adjacency: str, limit: int, epsilon: float, table: pa.Table, connect: Connect
) -> None:
    columns = {"g": GROUPED, "v": {"min": -50, "max": 100}}
    privacy = {"limits_share": 0, "adjacency": adjacency}
    session = connect({"t": table}, {"privacy": privacy, "tables": {"t": {"unit": "id", "columns": columns}}})
    setting = Setting(epsilon, adjacency == "replace_one", named=limit)
    known, best = asked(table, question, setting)
    answers = [session.query(question.sql, epsilon=epsilon, max_rows=limit, fresh=True) for _ in range(ANSWERS)]
    for column in question.columns:
        values = np.array([numbers(a, question, known.keys)[column.name].value for a in answers])
        off = np.sqrt(np.mean((values - known.truths[column.name]) ** 2, axis=0)) / best[column.name].error
        assert 0.7 < np.sqrt(np.mean(off**2)) < 1.4, (column, off)
