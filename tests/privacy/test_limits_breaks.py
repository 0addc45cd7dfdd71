"""Limits that choose themselves, attacked: what must not rest on a released histogram, and what must stay free."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.quote import limits as chosen
from dpsql.quote.limits import SEED_ROWS

RANDOM = np.random.default_rng(11)
EACH = np.minimum(RANDOM.zipf(1.6, 4_000), 200)
IDS = np.repeat(np.arange(4_000), EACH)
TABLE = pa.table({"id": IDS, "k": RANDOM.choice(["a", "b"], len(IDS)), "v": RANDOM.integers(0, 10, len(IDS))})
SMALL = pa.table({"id": [1, 1, 2, 3], "k": ["a", "a", "b", "b"], "v": [1, 2, 3, 4]})
POLICY: dict[str, Any] = {
    "tables": {"t": {"unit": "id", "columns": {"k": {"values": ["a", "b"]}, "v": {"min": 0, "max": 10}}}}
}
COUNTED = "(SELECT id, COUNT(*) AS n FROM t GROUP BY id)"


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=10_000, delta=1e-4)


def used(answer: dpsql.Answer) -> dict[str, int]:
    found = [limit.split(" = ") for limit in answer.limits if limit.startswith("max_")]
    return {name: int(number.replace(",", "")) for name, number in found}


def always(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(chosen, "choose_limit", lambda tail, limits, noise, unseen: float(limit))


@pytest.mark.parametrize("limit", [4, 300])
def test_which_keys_there_are_does_not_rest_on_a_chosen_limit(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """How many rows a unit has ranges to max_rows: as a key, that would be a public domain from a released value."""
    always(monkeypatch, limit)
    sql = f"SELECT n, COUNT(*) FROM t JOIN {COUNTED} USING (id) GROUP BY n"
    quote = session.explain(sql, epsilon=4, delta="1e-6")
    answer = session.query(sql, epsilon=4, delta="1e-6")
    assert quote.main.releases[0].checked.private_keys
    assert answer.cost.delta == Fraction(1, 10**6)


def test_delta_that_was_not_reserved_is_not_needed_after_the_histogram(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    always(monkeypatch, 300)
    joined = " ".join(f"JOIN (SELECT id, COUNT(*) AS n{i} FROM t GROUP BY id) AS s{i} USING (id)" for i in range(3))
    sql = f"SELECT n0, n1, n2, COUNT(*) FROM t {joined} GROUP BY n0, n1, n2"
    answer = session.query(sql, epsilon=4, delta="1e-6", mechanism="laplace")
    assert answer.cost.delta == Fraction(1, 10**6)


def test_a_seed_of_one_release_is_no_range_of_another(connect: Connect) -> None:
    """In either order AVG(n) pays for a range: a fixed limit that nobody named and nobody chooses makes none."""
    parts = ["(SELECT COUNT(*) FROM t)", f"(SELECT AVG(n) FROM {COUNTED})"]
    for one, other in (parts, parts[::-1]):
        session = connect({"t": TABLE}, POLICY, epsilon=10_000, delta=1e-4)
        quote = session.explain(f"SELECT {one}, {other}", epsilon=4)
        assert [(a.title, a.range) for a in quote.main.automatic] == [("n", None)]
        session.query(f"SELECT {one}, {other}", epsilon=4)
        paid = [e.cost.epsilon for e in session._engine.ledger.history() if e.note["sql"] == "automatic range of n"]
        assert len(paid) == 1 and 0 < paid[0] < 4


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.long
def test_a_batch_is_not_refused_for_the_limits_that_were_chosen(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """Each statement could have them with all of ε, and the batch, which divides ε, can't."""
    for power in range(38, 50):
        rows = f"t WHERE v < {power}"
        sql = f"SELECT COUNT(*) FROM {rows}; SELECT k, COUNT(*) FROM {rows} GROUP BY k; SELECT COUNT(v) FROM {rows}"
        if stored:
            always(monkeypatch, 8)
            session.batch(sql, epsilon="0.9")
        always(monkeypatch, 2**power)
        for answer in session.batch(sql, epsilon=1):
            assert used(answer)["max_rows"] in (SEED_ROWS, 2**power)


def test_limits_are_chosen_for_what_the_first_to_ask_had_so_that_the_same_query_again_is_free(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen, "choose_limit", lambda tail, limits, noise, unseen: 8.0 if noise > 1 else 2.0)
    first = session.query("SELECT COUNT(*) FROM t", epsilon=1)
    again = session.query("SELECT COUNT(*) FROM t", epsilon=1)
    assert used(first) == used(again) == {"max_rows": 8}
    assert again.cost.epsilon == 0 and again.rows == first.rows


def test_a_limit_that_is_chosen_for_one_release_is_none_of_anothers(session: dpsql.Session) -> None:
    """Twenty rows are proved: nothing is counted, cut or spent for them."""
    ranked = "SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v) AS r FROM t"
    few = f"(SELECT COUNT(*) FROM ({ranked}) WHERE r <= 20)"
    quote = session.explain(f"SELECT (SELECT COUNT(*) FROM t), {few}", epsilon=1)
    assert [len(stage.steps) for stage in quote.stages if stage.kind == "limits"] == [1]
    assert [step.checked.bounding.mass for step in quote.main.releases] == [SEED_ROWS, None]


def test_the_same_query_again_is_free_where_no_bucket_passes(connect: Connect) -> None:
    session = connect({"t": SMALL}, POLICY, epsilon=10, delta=0)
    first = session.query("SELECT COUNT(*) FROM t", epsilon="0.1")
    again = session.query("SELECT COUNT(*) FROM t", epsilon="0.1")
    assert used(first) == used(again) == {"max_rows": SEED_ROWS}
    assert again.cost.epsilon == 0 and again.rows == first.rows
    assert session.query("SELECT COUNT(*) FROM t", accuracy=10_000).cost.epsilon < 1  # as the refusal says


def test_a_cheap_histogram_does_not_choose_everybodys_limits(connect: Connect) -> None:
    """Bought for next to nothing it shows the fullest bucket alone: all that one would get is max_rows = 1."""
    ids = [*range(20_000), *np.repeat(np.arange(20_000, 22_000), 50)]
    table = pa.table({"id": ids, "k": ["a"] * len(ids), "v": [1] * len(ids)})
    session = connect({"t": table}, POLICY, epsilon=100, delta=0)
    cheap = session.query("SELECT COUNT(*) FROM t", epsilon="0.015")
    good = session.query("SELECT COUNT(*) FROM t", epsilon=2)
    assert used(good)["max_rows"] >= 48 and abs(good.rows[0][0] - len(ids)) < 10_000
    again = session.query("SELECT COUNT(*) FROM t", epsilon="0.015")  # what was cheap stays free
    assert again.rows == good.rows != cheap.rows and again.cost.epsilon == 0


def test_only_histograms_that_are_missing_are_measured_and_the_repeat_is_free(session: dpsql.Session) -> None:
    session.query("SELECT COUNT(*) FROM t", epsilon=1)
    sql = "SELECT k, v, COUNT(DISTINCT id), COUNT(*) FROM t GROUP BY GROUPING SETS ((k), (v), ())"
    quote = session.explain(sql, epsilon=4)
    kept = {step.checked.release for stage in quote.stages if stage.kind == "limits" for step in stage.releases}
    assert len(kept) == 2  # of groups; that of rows is stored
    first, again = session.query(sql, epsilon=4), session.query(sql, epsilon=4)
    assert again.cost.epsilon == 0 and again.rows == first.rows


@pytest.mark.parametrize("limit", [3, 6, 24])
def test_what_was_bought_once_the_limits_were_known_is_free_again(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Of less ε other statistics may be the best: the most noise that serves needn't be more than the query's own."""
    always(monkeypatch, limit)
    budget = {"epsilon": 50, "delta": 1e-5, "accountant": "zcdp"}
    whole = {"budget": budget, "privacy": {"adjacency": "replace_one"}, **POLICY}
    sql = "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k"
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": TABLE}, ledger=":memory:") as session:
        session.query(sql, epsilon=1)
        assert session.query(sql, epsilon=1).cost.epsilon == 0
