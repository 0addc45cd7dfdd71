"""A hint that says what to write instead is right: the query is asked again as the hint says, and is not refused.

Hints name `low` and `high` where only the analyst knows them; tests write a number or a date there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

import dpsql
from dpsql.core.errors import Span

PERSON = pa.array([1, 1, 2, 3], pa.int64())
VALUES: dict[str, pa.Array] = {
    "small": pa.array([1, 2, 3, None], pa.int16()),
    "whole": pa.array([1, 2, 3, None], pa.int64()),
    "real": pa.array([1.5, 2.5, 3.5, None], pa.float64()),
    "money": pa.array([Decimal("1.50"), Decimal("2.25"), None, Decimal("9.00")], pa.decimal128(12, 2)),
    "wide": pa.array([Decimal(1), Decimal(2), None, Decimal(9)], pa.decimal128(38, 0)),
    "born": pa.array([date(2020, 1, 2)] * 3 + [None], pa.date32()),
    "at": pa.array([datetime(2020, 1, 2, 3)] * 3 + [None], pa.timestamp("us")),
    "nano": pa.array([datetime(2020, 1, 2, 3)] * 3 + [None], pa.timestamp("ns")),
    "zoned": pa.array([datetime(2020, 1, 2, 3, tzinfo=UTC)] * 3 + [None], pa.timestamp("us", "UTC")),
    "words": pa.array(["1", "2", "3", None]),
    "flag": pa.array([True, False, True, None]),
    "clock": pa.array([time(1, 2)] * 3 + [None], pa.time64("us")),
    "bytes": pa.array([b"a", b"b", b"c", None]),
    "list": pa.array([[1], [2], [3], None], pa.list_(pa.int64())),
}
ASKED = (
    "SUM({0})", "AVG({0})", "MIN({0})", "MAX({0})", "MEDIAN({0})", "VAR_SAMP({0})", "GEOMEAN({0})", "MODE({0})",
    "QUANTILE_CONT({0}, 0.25)", "ENTROPY({0})", "CORR({0}, small)", "COUNT_IF({0})", "BOOL_AND({0})", "SUM(-{0})",
    "SUM({0} + {0})", "MIN(CLIP({0}, 0, 500))", "MAX(LEAST({0}, NULL))", "SUM(ABS({0}))", "AVG(LENGTH({0}))",
    "SUM(CAST({0} AS DOUBLE))", "MIN(CAST({0} AS DATE))", "AVG(EPOCH({0}))", "MIN(DATE_TRUNC('month', {0}))",
)  # fmt: skip
WAY = re.compile(
    r"(write|clip it in the query:|or clip it:|cast it:) (.+?)(?:, where (?:low|high)|, and low|; |$)", re.M
)
NUMBER = re.compile(r"dates give numbers through (.+?) or (.+)$", re.M)


def rewritten(refused: dpsql.Error, call: str) -> Iterator[str]:
    """The calls that a hint names in the place of this one: whole, or of the place that the message is about."""
    hint, span = refused.hint or "", refused.span
    low, high = ("'2024-01-31'", "'2024-02-29'") if "written like" in hint else ("1", "9")
    for _, found in WAY.findall(hint):
        text = re.sub(r"\bhigh\b", high, re.sub(r"\blow\b", low, found))
        yield text if text.split("(")[0] == call.split("(")[0] else put(text, call, span)
    for ways in NUMBER.findall(hint):
        yield from (put(way, call, span) for way in ways)


def put(text: str, call: str, span: Span | None) -> str:
    assert span is not None
    start = span.column - 1 - len("SELECT ")
    return f"{call[:start]}{text}{call[start + span.length :]}"


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    policy = {
        "budget": {"epsilon": 10**6, "delta": 1e-6},
        "privacy": {"max_rows": 2, "max_groups": 2, "limits_share": 0},
        "tables": {"t": {"unit": "person"}},
    }
    table = pa.table({"person": PERSON, **VALUES})
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": table}, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize("asked", ASKED)
def test_what_a_hint_says_is_not_refused_in_turn(session: dpsql.Session, asked: str) -> None:
    followed = [follow(session, asked.format(name)) for name in VALUES]
    assert not [trail for trail in followed if trail]


def test_hints_are_followed(session: dpsql.Session) -> None:
    """The tests above look at nothing where a hint has no words that they know."""
    known = ("SUM(whole)", "MIN(zoned)", "MIN(CLIP(born, 0, 500))", "AVG(words)")
    for call in known:
        with pytest.raises(dpsql.Error) as refused:
            session.explain(f"SELECT {call} FROM t", epsilon=1)
        assert list(rewritten(refused.value, call)), refused.value.hint


def follow(session: dpsql.Session, call: str, steps: int = 3) -> str:
    """Ask, and then as each hint says; how it went where a way that a hint names ends in a circle, else nothing.

    A way may be refused for another reason (a number of a date wants a range): then its hint is followed in turn.
    """
    try:
        session.explain(f"SELECT {call} FROM t", epsilon=1)
    except dpsql.Error as refused:
        ways = list(rewritten(refused, call))
        for way in ways:
            trail = f"{way}: too many hints" if way == call or not steps else follow(session, way, steps - 1)
            if trail:
                return f"{call}: {refused.message} ({refused.hint}) -> {trail}"
        if not ways and steps < 3:
            return f"{call}: {refused.message} ({refused.hint})"
    return ""
