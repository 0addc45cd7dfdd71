"""Random queries over random tables: each is answered like plain DuckDB, or refused; never wrong, never a crash.

A sample runs by default with a fresh seed, which is printed; `--whole` runs two thousand. DPSQL_SEED=… runs the same
ones again, and DPSQL_QUERIES=… as many as it says.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_sql.compare import mismatch
from random_sql.grammar import Grammar
from random_sql.world import World, open_plain, open_session, worlds
from random_sql.written import Query
from source_kinds import KINDS

import dpsql

SEED = os.environ.get("DPSQL_SEED") or secrets.token_hex(4)
SAMPLE, WHOLE, BATCH = 80, 2000, 40
SECONDS = 15  # a sample stops here on a slow machine
LOOSE: dict[str, Any] = {
    "epsilon": 2 * 10**10,
    "delta": "1e-6",
    "max_rows": 400,  # more than anybody has
    "max_groups": 200,
    "mechanism": "laplace",
    "fresh": True,  # the same query may come twice
}
NOWHERE = {"too-long", "too-deep", "empty", "too-large", "needs-delta"}  # these may speak of the whole text

DATA_DEPENDENT = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)


class Verdict(NamedTuple):
    """What became of a query."""

    refused: str | None = None  # why
    wrong: str | None = None
    skipped: bool = False  # answered, and DuckDB, whose functions are not total, has no answer to compare with


class Tally:
    """How many queries of each construct were answered, and why the others weren't."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.skipped = 0
        self.refused: Counter[str] = Counter()
        self.reasons: dict[str, Counter[str]] = {}

    def add(self, query: Query, code: str | None) -> None:
        for tag in [*query.tags, "ALL"]:
            (self.answered if code is None else self.refused)[tag] += 1
            if code is not None:
                self.reasons.setdefault(tag, Counter())[code] += 1

    def __str__(self) -> str:
        lines = [f"{'construct':<48}{'answered':>9}{'refused':>9}  most frequent reasons"]
        for tag in sorted({*self.answered, *self.refused}):
            reasons = ", ".join(f"{code} {n}" for code, n in self.reasons.get(tag, Counter()).most_common(3))
            lines.append(f"{tag:<48}{self.answered[tag]:>9}{self.refused[tag]:>9}  {reasons}")
        return "\n".join(lines)


def judge(session: dpsql.Session, plain: duckdb.DuckDBPyConnection, query: Query) -> Verdict:
    """Ask both."""
    try:
        str(session.explain(query.sql, **LOOSE))
        answer = session.query(query.sql, **LOOSE)
        off = noise(answer)
    except (dpsql.SQLError, dpsql.PrivacyError) as error:
        if not (error.code and error.message and error.hint):
            return Verdict(error.code, f"a refusal without code, message or hint: {error!r}")
        if error.span is None and error.code not in NOWHERE:
            return Verdict(error.code, f"a refusal that points nowhere: {error}")
        return Verdict(error.code)
    except Exception as error:
        return Verdict("crash", f"{type(error).__name__}: {error}")
    if query.expect == "refused":
        return Verdict(wrong=f"this must be refused, and was answered: {answer.rows[:3]}")
    if query.expect == "anything":
        return Verdict()
    try:
        exact = plain.execute(query.plain).fetchall()
        private = any(n.step.checked.private_keys for n in answer.noisy)  # type: ignore[attr-defined]  # none is stored
        few = plain.execute(query.few).fetchall() if private else None
    except (*DATA_DEPENDENT, duckdb.ParserException):  # AT is a word of DuckDB's own where we still read a name
        return Verdict(skipped=True)
    except duckdb.Error as error:
        return Verdict(wrong=f"dpsql answers what DuckDB refuses: {error}\nplain: {query.plain}")
    wrong = mismatch(answer.rows, exact, few, query.roles, ordered=query.ordered, noise=off)
    if wrong is None:
        return Verdict()
    rows = f"ours:  {answer.rows[:20]}\nplain: {exact[:20]}\nwithout keys of one: {few}"
    return Verdict(wrong=f"{wrong}\nplain: {query.plain}\n{rows}")


def noise(answer: dpsql.Answer) -> list[list[float]]:
    """How far each value of an answer may be off: half the width of its interval."""
    found: Any = answer.intervals(confidence=1 - 1e-9)
    nothing = [None] * len(answer.rows)
    columns = [
        [0.0 if i is None else min((i[1] - i[0]) / 2, 10.0) for i in found[c] or nothing] for c in answer.columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def smaller(world: World, query: Query) -> World:
    """The same failure with fewer people, as far as a few tries find it."""

    def fails(candidate: World) -> bool:
        with open_session(candidate) as session, closing(open_plain(candidate)) as plain:
            return judge(session, plain, query).wrong is not None

    for uid in world.units():
        if fails(world.without(uid)):
            world = world.without(uid)
    for name in ("items", "orders", "users", "survey"):
        for row in list(world.rows[name]):
            fewer = World({**world.rows, name: [r for r in world.rows[name] if r is not row]})
            if fails(fewer):
                world = fewer
    return world


def extent(request: pytest.FixtureRequest, sample: int, seconds: float) -> tuple[int, float]:
    """How many queries to run, and the moment after which no batch begins."""
    if given := os.environ.get("DPSQL_QUERIES"):
        return int(given), inf
    return (WHOLE, inf) if request.config.getoption("--whole") else (sample, monotonic() + seconds)


def test_random_queries_are_answered_like_duckdb_or_refused(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted, until = extent(request, SAMPLE, SECONDS)
    tally, failures = Tally(), []
    done: list[int] = []

    @seed(SEED)
    @settings(
        max_examples=-(-wanted // BATCH),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(world=worlds())
    def run(world: World) -> None:
        batch = len(done)
        if monotonic() > until:
            return
        done.append(batch)
        # In turns, but for CSV: there, empty text is NULL.
        kinds = [kind for kind in KINDS if "CSV" not in kind]
        opened = open_session(world, kind=kinds[batch % len(kinds)], folder=tmp_path / f"{batch}")
        with opened as session, closing(open_plain(world)) as plain:
            for number in range(BATCH):
                query = Grammar(f"{SEED}:{batch}:{number}").query()
                verdict = judge(session, plain, query)
                tally.add(query, verdict.refused)
                tally.skipped += verdict.skipped
                if verdict.wrong is not None:
                    failures.append((f"{batch}:{number}", world, query, verdict.wrong))

    run()
    with capsys.disabled():
        print(f"\nseed {SEED}: {tally.answered['ALL']} answered, {tally.refused['ALL']} refused", end="")
        print(f", {tally.skipped} of the answers not compared")
    print(tally)
    if failures:
        place, world, query, wrong = failures[0]
        small = smaller(world, query)
        others = "\n".join(f"  {p}: {q.sql}\n    {w.splitlines()[0]}" for p, _, q, w in failures[1:20])
        pytest.fail(
            f"DPSQL_SEED={SEED} ({len(failures)} of {len(done) * BATCH} queries), number {place}\n"
            f"{query.sql}\n{wrong}\n\n{small}\n\nand:\n{others}",
            pytrace=False,
        )


@pytest.mark.long
def test_an_engine_that_forgets_one_person_would_be_found() -> None:
    users = [(uid, "oslo", 30 + uid, 1.5, True, "Bo", date(1990, 1, uid)) for uid in range(1, 6)]
    orders = [(uid, uid * 100, date(2024, 2, uid), Decimal(uid), "new", datetime(2024, 3, uid)) for uid in range(1, 6)]
    items = [(uid * 100, "a1", uid, 2.5) for uid in range(1, 6)]
    world = World({"users": users, "orders": orders, "items": items, "survey": []})
    queries = [Grammar(f"forgetful:{n}").simple() for n in range(40)]
    with open_session(world.without(3)) as session, closing(open_plain(world)) as plain:
        found = [judge(session, plain, query).wrong for query in queries]
    assert sum(wrong is not None for wrong in found) >= 4


@pytest.mark.parametrize(
    ("ours", "plain", "few", "right"),
    [
        ([("a", 3), ("b", 0)], [("a", 3)], None, True),  # b is a public key without rows
        ([("a", 3), ("b", 1)], [("a", 3)], None, False),
        ([("a", 3)], [("a", 3), ("b", 1)], None, False),
        ([("a", 3)], [("a", 3), ("b", 1)], [("a", 3)], True),  # b is a private key of one unit
        ([("a", 3), ("b", 2)], [("a", 3), ("b", 1)], [("a", 3)], False),
        ([("a", 4)], [("a", 3)], None, False),
        ([(None, 3)], [("a", 3)], None, False),
        ([("a", 3), ("a", 3)], [("a", 3)], None, False),
    ],
)
def test_rows_are_compared_one_to_one(ours: list[Any], plain: list[Any], few: list[Any] | None, right: bool) -> None:
    assert (mismatch(ours, plain, few, ("key", "count"), ordered=False) is None) == right
