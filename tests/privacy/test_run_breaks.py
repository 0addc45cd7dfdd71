"""What a hostile reader tried on the run loop: identical queries paid twice, ranges that refuse, claims left behind."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Connect, own_processes

import dpsql
from dpsql import run as loop
from dpsql.accounting import claims
from dpsql.accounting.ledger import Ledger, Overtaken
from dpsql.core.errors import BudgetError
from dpsql.quote import calibrate
from dpsql.quoting import Quoting

N = 2_000
RANDOM = np.random.default_rng(5)
TABLE = pa.table(
    {
        "id": np.arange(N),
        "yes": pa.array(np.arange(N) % 3 == 0),
        "x": RANDOM.uniform(-31, 63, N),
        "y": RANDOM.lognormal(2, 1, N),
        "v": np.arange(N) % 10,
    }
)
COLUMNS: dict[str, Any] = {"x": {"bounds": "auto"}, "y": {"bounds": "auto"}, "v": {"min": 0, "max": 10}}
PEOPLE: dict[str, Any] = {"privacy": {"max_rows": 1}, "tables": {"t": {"unit": "id", "columns": COLUMNS}}}
ROWS: dict[str, Any] = {"privacy": {"adjacency": "replace_one"}, "tables": {"t": {"unit": "row", "columns": COLUMNS}}}
RANGED = "SELECT AVG(x), COUNT(*) FROM t"
MIXED = "SELECT RANDOMIZED_RESPONSE(yes) AS a FROM t; SELECT AVG(x), MEDIAN(y) FROM t"
ACCOUNTANTS = pytest.mark.parametrize("accountant", ["basic", "zcdp"])


def opened(connect: Connect, policy: dict[str, Any], accountant: str, epsilon: object = 100) -> dpsql.Session:
    budget = {"epsilon": epsilon, "delta": 1e-5, "accountant": accountant}
    return connect({"t": TABLE}, {**policy, "budget": budget})


def spends(session: dpsql.Session) -> list[tuple[str, str]]:
    return [(e.id, e.state) for e in session._engine.ledger.history()]


# ---------------------------------------------------------------- what is identical is paid once


class Between:
    """Lets somebody else begin when the first one, on this thread, has measured so many stages."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, other: threading.Thread) -> None:
        self._measure, self._left, self._other, self._waits = loop._measure, after, other, threading.Event()
        wait = claims.Claims.wait

        def waiting(*arguments: Any, **options: Any) -> None:
            self._waits.set()
            wait(*arguments, **options)

        monkeypatch.setattr(claims.Claims, "wait", waiting)
        monkeypatch.setattr(loop, "_measure", self._slowly)

    def _slowly(self, *arguments: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            if not self._left:
                self._other.start()
                while self._other.is_alive() and not self._waits.wait(0.01):
                    pass  # until he waits for this one, or has gone his own way
            self._left -= 1
        return self._measure(*arguments)


@ACCOUNTANTS
@pytest.mark.parametrize("after", [0, 1])
def test_whoever_asks_between_the_range_and_the_release_of_another_one_waits_and_pays_nothing(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, accountant: str, after: int
) -> None:
    session = opened(connect, PEOPLE, accountant)
    answers: list[dpsql.Answer] = []
    other = threading.Thread(target=lambda: answers.append(session.query(RANGED, epsilon=1)))
    Between(monkeypatch, after, other)
    first = session.query(RANGED, epsilon=1)
    other.join(60)
    assert answers[0].rows == first.rows and answers[0].cost.epsilon == 0 and len(spends(session)) == 2


@ACCOUNTANTS
@pytest.mark.parametrize("after", [0, 1, 2, 3])
@pytest.mark.sample(3)
def test_a_batch_of_rows_and_ranges_is_one_flight_at_every_stage(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, accountant: str, after: int
) -> None:
    session = opened(connect, ROWS, accountant)
    answers: list[list[dpsql.Answer]] = []
    other = threading.Thread(target=lambda: answers.append(session.batch(MIXED, epsilon=1)))
    Between(monkeypatch, after, other)
    first = session.batch(MIXED, epsilon=1)
    other.join(60)
    assert [a.rows for a in answers[0]] == [a.rows for a in first] and len(spends(session)) == 4


@ACCOUNTANTS
@pytest.mark.parametrize("epsilon", ["1", "1.37"])
def test_a_batch_of_rows_and_ranges_is_free_when_it_is_repeated(
    connect: Connect, accountant: str, epsilon: str
) -> None:
    session = opened(connect, ROWS, accountant)
    first = session.batch(MIXED, epsilon=epsilon)
    paid = spends(session)
    again = session.batch(MIXED, epsilon=epsilon)
    assert spends(session) == paid and [a.rows for a in again] == [a.rows for a in first]
    assert all(a.cost.epsilon == 0 for a in again)


# ---------------------------------------------------------------- a released range refuses nothing (Theorem AUTO-1)


@ACCOUNTANTS
def test_a_range_that_would_make_the_answer_too_large_gives_way_to_the_seed_range(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, accountant: str
) -> None:
    # From −32 to 64 a choice has half as many candidates more than from −2⁶⁴ to 2⁶⁴.
    monkeypatch.setattr(calibrate, "MAX_NUMBERS", 40_000)
    session = opened(connect, PEOPLE, accountant)
    sql = "SELECT MEDIAN(x) FROM t"
    answer = session.query(sql, epsilon=1)
    assert answer.ranges[0]["low"] == -(2.0**64) and all(state == "released" for _, state in spends(session))
    assert session.query(sql, epsilon=1).rows == answer.rows and len(spends(session)) == 2
    assert session.query(sql, epsilon=2).cost.epsilon == 2 and len(spends(session)) == 3


def test_an_epsilon_that_could_not_be_shared_with_a_range_is_enough_where_the_range_is_known(connect: Connect) -> None:
    session = opened(connect, PEOPLE, "zcdp")
    session.query("SELECT SUM(x) FROM t", epsilon=1)
    assert session.query("SELECT COUNT(*), SUM(x + 1) FROM t", epsilon="0.000001").cost.epsilon == Fraction(1, 10**6)


# ---------------------------------------------------------------- what is said of a price


def test_whoever_was_overtaken_is_told_all_that_he_was_charged(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(connect, PEOPLE, "basic")
    record, late = Ledger.record, [True]

    def once_late(self: Ledger, *arguments: Any) -> Any:
        if late and late.pop():
            raise Overtaken
        return record(self, *arguments)

    monkeypatch.setattr(Ledger, "record", once_late)
    answer = session.query("SELECT SUM(v) FROM t", epsilon=1)
    assert answer.cost.epsilon == session.budget.spent.epsilon == 2


@ACCOUNTANTS
def test_a_refusal_names_the_epsilon_that_was_asked_for_however_many_stages_there_are(
    connect: Connect, accountant: str
) -> None:
    session = opened(connect, PEOPLE, accountant, epsilon=2)
    session.query("SELECT SUM(v) FROM t", epsilon="1.9")
    with pytest.raises(BudgetError, match=r"the query costs epsilon = 1( \(|,)"):
        session.query("SELECT SUM(x), SUM(y) FROM t", epsilon=1)


# ---------------------------------------------------------------- claims that nobody works on


@pytest.mark.usefixtures("usual_signals")
def test_whoever_is_interrupted_when_he_has_just_paid_leaves_no_claim(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(connect, PEOPLE, "basic")
    reserve = Ledger.reserve

    def interrupted(self: Ledger, *arguments: Any, **options: Any) -> Any:
        found = reserve(self, *arguments, **options)
        os.kill(os.getpid(), signal.SIGINT)
        while not options["given_up"]():
            pass
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "reserve", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.query(RANGED, epsilon=1)
    charged = session.charged
    assert charged is not None and len(spends(session)) == 2 and not session.paying
    with session._engine.ledger._store.snapshot() as db:
        assert db.execute("SELECT COUNT(*) FROM claim").fetchone() == (0,)


# ---------------------------------------------------------------- kill −9, through a session


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    path = tmp_path / "policy.toml"
    path.write_text(
        "[budget]\nepsilon = 100\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 1\n"
        '[tables.t]\nsource = "t.parquet"\nunit = "id"\n'
        '[tables.t.columns]\nx = { bounds = "auto" }\n'
    )
    with dpsql.connect(path):
        pass
    monkeypatch.setattr(claims, "LEASE", 0.5)
    yield path


def killed(policy: Path, what: str, times: int) -> None:
    """Ask, and die when this has been called so many times."""
    claims.LEASE = 0.5
    where: Any = Ledger if hasattr(Ledger, what) else loop
    call, left = getattr(where, what), [times]

    def last(*arguments: Any, **options: Any) -> Any:
        found = call(*arguments, **options)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(where, what, last)
    with dpsql.connect(policy) as session:
        session.query(RANGED, epsilon=1)


@pytest.mark.parametrize(
    ("what", "times", "states", "again"),
    [
        ("reserve", 1, ["reserved", "reserved"], 2),
        ("_measure", 1, ["reserved", "reserved"], 2),
        ("record", 1, ["released", "reserved"], 1),
        ("_measure", 2, ["released", "reserved"], 1),
        ("record", 2, ["released", "released"], 0),
        ("finish", 1, ["released", "released"], 0),
        ("answered", 1, ["released", "released"], 0),
    ],
)
@pytest.mark.sample(2)
def test_whenever_a_session_is_killed_all_that_left_was_paid_for_and_what_was_recorded_is_free(
    policy: Path, what: str, times: int, states: list[str], again: int
) -> None:
    process = own_processes().Process(target=killed, args=(policy, what, times))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with dpsql.connect(policy) as session:
        assert [state for _, state in spends(session)] == states and session.budget.spent.epsilon == 1
        answer = session.query(RANGED, epsilon=1)
        assert answer.cost.epsilon == (1 if again else 0) and len(spends(session)) == 2 + again


# ---------------------------------------------------------------- data that changes and changes back


@pytest.mark.parametrize("when", ["planned", "measured"])
def test_a_public_file_that_changes_and_changes_back_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    unique, repeated = pa.table({"w": np.arange(10)}), pa.table({"w": [0] * 500 + list(range(1, 10))})
    at_first, meanwhile = (repeated, unique) if when == "planned" else (unique, repeated)
    pq.write_table(TABLE, tmp_path / "t.parquet")
    public = tmp_path / "r.parquet"
    pq.write_table(at_first, public)
    (tmp_path / "policy.toml").write_text(
        '[budget]\nepsilon = 100\ndelta = 0\n[tables.t]\nsource = "t.parquet"\nunit = "row"\n'
        '[tables.t.columns]\nv = { min = 0, max = 10 }\n[tables.r]\nsource = "r.parquet"\npublic = true\n'
    )

    def swapped(call: Any) -> Any:
        def during(*arguments: Any, **named: Any) -> Any:
            pq.write_table(meanwhile, public)
            try:
                return call(*arguments, **named)
            finally:
                pq.write_table(at_first, public)

        return during

    where, what = (Quoting, "quote") if when == "planned" else (loop, "_measure")
    with dpsql.connect(tmp_path / "policy.toml") as session:
        with monkeypatch.context() as patched:
            patched.setattr(where, what, swapped(getattr(where, what)))
            with pytest.raises(dpsql.DataError, match="changed while the query ran"):
                session.query("SELECT COUNT(*) FROM t JOIN r ON t.v = r.w", epsilon=1)
        assert [state for _, state in spends(session)] == ["reserved"]
