"""What is said before a query is paid for is what comes: once limits are learned, the half width of its answer."""

from __future__ import annotations

import pytest
from accuracy.cases import policy_of, shape_called

import dpsql
from dpsql.explain.facts import as_dict
from dpsql.explain.text import expected

SHAPES = ("survey", "orders", "meters", "signs", "tickets", "sessions", "contacts", "small")
SQL = (
    "SELECT COUNT(*) AS n FROM t",
    "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
    "SELECT SUM(v) AS n FROM t",
    "SELECT g, SUM(v) AS n FROM t GROUP BY g",
    "SELECT AVG(v) AS n FROM t",
)
TIMES = 1.5


def opened(shape: str, **more: object) -> dpsql.Engine:
    named = shape_called(shape)
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 10**6}, **policy_of(named), **more})
    return dpsql.Engine.open(policy, sources={"t": named.table()}, ledger=":memory:")


@pytest.fixture(scope="module")
def ratios() -> dict[str, float]:
    """By what was asked: the half width of the answer, to what was shown before."""
    found = {}
    for shape in SHAPES:
        with opened(shape) as engine:
            engine.refresh(steward=True)
            engine.learn(steward=True, columns=["t.v"], epsilon=1)
            with engine.session() as session:
                for sql in SQL:
                    (release,) = as_dict(session.explain(sql, epsilon=1))["releases"]
                    promised = release["aggregates"][0]["error"]["one_cell"]
                    spans = session.query(sql, epsilon=1).intervals()["n"] or []
                    widths = [(high - low) / 2 for low, high in filter(None, spans)]
                    if widths:
                        found[f"{shape}: {sql}"] = sorted(widths)[len(widths) // 2] / promised
    return found


def test_the_half_width_is_that_which_was_shown_before(ratios: dict[str, float]) -> None:
    off = {text: ratio for text, ratio in ratios.items() if not 1 / TIMES <= ratio <= TIMES}
    assert len(ratios) >= 0.9 * len(SHAPES) * len(SQL)
    assert len(off) <= 0.1 * len(ratios), off


def test_before_limits_are_chosen_what_is_known_is_shown_and_no_question_mark() -> None:
    with opened("orders") as engine, engine.session() as session:
        for sql in (*SQL, "SELECT AVG(total) AS n FROM (SELECT id, g, SUM(v) AS total FROM t GROUP BY id, g)"):
            quote = session.explain(sql, epsilon=1)
            (promised,) = expected(quote)
            assert promised.error is None and "?" not in promised.text
            assert "still to be chosen" in str(quote)
            assert "noise by the limit on rows" in str(quote) or "once the automatic bounds" in str(quote)
