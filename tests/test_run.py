"""The run loop: what is paid when something fails, and what several ask for at once."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import fields
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
from dpsql.accounting.claims import Claims
from dpsql.accounting.ledger import Ledger, Overtaken
from dpsql.answer import finish as finishing
from dpsql.backends.duckdb import backend
from dpsql.options import Asked, Request
from dpsql.store.claim_key import claim_of

N = 3_000
RANDOM = np.random.default_rng(3)
TABLE = pa.table(
    {"id": np.arange(N), "k": ["a", "b", "c"] * (N // 3), "x": RANDOM.lognormal(3, 1, N), "v": np.arange(N) % 10}
)
POLICY: dict[str, Any] = {
    "privacy": {"max_rows": 1},
    "tables": {
        "t": {
            "unit": "id",
            "columns": {"k": {"values": ["a", "b", "c"]}, "x": {"bounds": "auto"}, "v": {"min": 0, "max": 10}},
        }
    },
}
PLAIN = "SELECT k, AVG(v) AS mean FROM t GROUP BY k"
RANGED = "SELECT AVG(x), COUNT(*) FROM t"


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=100)


def spends(session: dpsql.Session) -> list[tuple[str, str, Fraction]]:
    return [(str(e.note["sql"]), e.state, e.cost.epsilon) for e in session._engine.ledger.history()]


class Broken(Exception):
    """What a test breaks."""


def failing(times: int, then: Callable[..., Any], after: int = 0) -> Callable[..., Any]:
    """A function that fails so many times, after so many calls that don't."""
    calls = []

    def call(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if after < len(calls) <= after + times:
            raise Broken
        return then(*arguments, **options)

    return call


# ---------------------------------------------------------------- what fails after it was recorded is free to retry


@pytest.mark.sample(5)
@pytest.mark.parametrize("sql", [PLAIN, RANGED])
@pytest.mark.parametrize(
    ("where", "what"),
    [(loop, "finish"), (finishing, "noisy_table"), (Ledger, "answered"), (loop, "pack_answer")],
)
def test_what_fails_after_the_release_was_recorded_costs_nothing_to_retry(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, sql: str, where: Any, what: str
) -> None:
    monkeypatch.setattr(where, what, failing(1, getattr(where, what)))
    with pytest.raises(Broken):
        session.query(sql, epsilon=1)
    paid = spends(session)
    assert all(state == "released" for _, state, _ in paid) and sum(cost for *_, cost in paid) == 1
    answer = session.query(sql, epsilon=1)
    assert spends(session) == paid and answer.cost.epsilon == 0 and answer.receipt.reused
    assert answer.rows == session.query(sql, epsilon=1).rows


def test_a_stage_that_was_recorded_is_not_paid_again_when_a_later_one_fails(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_measure", failing(1, loop._measure, after=1))
    with pytest.raises(Broken):
        session.query(RANGED, epsilon=1)
    ranged, main = spends(session)
    assert ranged[1:] == ("released", Fraction(1, 10)) and main[1:] == ("reserved", Fraction(9, 10))
    answer = session.query(RANGED, epsilon=1)
    assert spends(session)[2:] == [(RANGED, "released", Fraction(1))] and answer.ranges[0]["found"]


def test_counts_of_what_is_cut_are_kept_where_the_release_after_them_fails(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = connect({"t": TABLE}, {**POLICY, "privacy": {"max_rows": 1, "limits_share": 0.05}}, epsilon=100)
    sql = "SELECT SUM(v) FROM t"
    monkeypatch.setattr(loop, "_measure", failing(1, loop._measure, after=1))
    with pytest.raises(Broken):
        session.query(sql, epsilon=1)
    counts, main = spends(session)
    assert counts[1:] == ("released", Fraction(1, 20)) and main[1:] == ("reserved", Fraction(19, 20))
    assert session.query(sql, epsilon=1).cost.epsilon == 1
    assert spends(session)[2:] == [(sql, "released", Fraction(1))]


def test_a_reply_that_is_lost_can_be_had_again_by_its_receipt(session: dpsql.Session) -> None:
    first = session.query(PLAIN, epsilon=1)
    charged = session.charged
    assert charged is not None and charged.id == first.receipt.id
    assert session.replay(charged.id).rows == first.rows and session.budget.spent.epsilon == 1


# ---------------------------------------------------------------- what fails before is lost, and nothing else is


@pytest.mark.parametrize(
    ("where", "what"), [(backend, "execute"), (loop, "release"), (loop, "publish"), (loop, "keep")]
)
def test_what_fails_before_it_was_recorded_stays_spent_and_the_retry_pays(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, where: Any, what: str
) -> None:
    monkeypatch.setattr(where, what, failing(1, getattr(where, what)))
    with pytest.raises(Broken):
        session.query(PLAIN, epsilon=1)
    assert spends(session) == [(PLAIN, "reserved", Fraction(1))]
    answer = session.query(PLAIN, epsilon=1)
    assert not answer.receipt.reused and spends(session)[1:] == [(PLAIN, "released", Fraction(1))]
    assert session.query(PLAIN, epsilon=1).receipt.id == answer.receipt.id


def test_a_draw_that_was_not_recorded_is_never_shown(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    measure = loop._measure

    def watched(*arguments: Any) -> Any:
        drawn.append(measure(*arguments))
        return drawn[-1]

    record = Ledger.record

    def late(self: Ledger, *arguments: Any) -> Any:
        if len(drawn) == 1:
            raise Overtaken
        return record(self, *arguments)

    monkeypatch.setattr(loop, "_measure", watched)
    monkeypatch.setattr(Ledger, "record", late)
    answer = session.query(PLAIN, epsilon=1)
    assert len(drawn) == 2 and session.budget.spent.epsilon == 2
    assert list(answer.noisy[0].columns[0][0]) == list(drawn[1][0].columns[0][0])


def test_whoever_is_late_twice_is_told_so_and_shows_nothing(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: Any) -> Any:
        raise Overtaken

    monkeypatch.setattr(Ledger, "record", late)
    with pytest.raises(dpsql.LedgerError) as told:
        session.query(PLAIN, epsilon=1)
    assert told.value.code == "release-busy" and session.budget.spent.epsilon == 2


# ---------------------------------------------------------------- single flight


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(
        "[budget]\nepsilon = 100\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 1\n"
        '[tables.t]\nsource = "t.parquet"\nunit = "id"\n[tables.t.columns]\n'
        'k = { values = ["a", "b", "c"] }\nx = { bounds = "auto" }\nv = { min = 0, max = 10 }\n'
    )
    with dpsql.connect(tmp_path / "policy.toml"):  # the ledger is there, and the file was read once
        return tmp_path


def ask(policy: Path, sql: str, ready: Any, found: Any) -> None:
    with dpsql.connect(policy) as session:
        session.explain(sql, epsilon=1)
        ready.wait(60)
        answer = session.query(sql, epsilon=1)
        found.put((answer.rows, answer.cost.epsilon, answer.receipt.id))


@pytest.mark.parametrize("sql", [PLAIN, RANGED])
def test_eight_processes_with_one_query_pay_once_and_get_one_answer(folder: Path, sql: str) -> None:
    context = own_processes()
    ready, found = context.Barrier(8), context.Queue()
    started = [context.Process(target=ask, args=(folder / "policy.toml", sql, ready, found)) for _ in range(8)]
    for one in started:
        one.start()
    answers = [found.get(timeout=120) for _ in started]
    for one in started:
        one.join(60)
    assert len({str(rows) for rows, _, _ in answers}) == 1 and len({id for *_, id in answers}) == 1
    assert sorted(cost for _, cost, _ in answers) == [0] * 7 + [1]
    with dpsql.connect(folder / "policy.toml") as session:
        assert session.budget.spent.epsilon == 1


def test_threads_of_one_engine_with_one_query_pay_once(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    measure, waits = loop._measure, threading.Event()
    waiting = Claims.wait

    def slowly(*arguments: Any) -> Any:
        assert waits.wait(30)  # until the other one has asked, and waits
        return measure(*arguments)

    def told(*arguments: Any) -> Any:
        waits.set()
        return waiting(*arguments)

    monkeypatch.setattr(loop, "_measure", slowly)
    monkeypatch.setattr(Claims, "wait", told)
    answers: list[dpsql.Answer] = []
    both = [threading.Thread(target=lambda: answers.append(session.query(PLAIN, epsilon=1))) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    assert len(answers) == 2 and answers[0].rows == answers[1].rows
    assert session.budget.spent.epsilon == 1 and len(spends(session)) == 1


def test_fresh_noise_is_not_shared(session: dpsql.Session) -> None:
    first = session.query(PLAIN, epsilon=1, fresh=True)
    second = session.query(PLAIN, epsilon=1, fresh=True)
    assert session.budget.spent.epsilon == 2 and first.receipt.id != second.receipt.id


@pytest.mark.parametrize(
    "other",
    [
        "SELECT k, AVG(v) + 1 FROM t GROUP BY k ORDER BY 2 LIMIT 1",
        "SELECT k AS key, AVG(v) FROM t AS s GROUP BY key HAVING AVG(v) > 3",
    ],
)
def test_the_same_release_under_other_post_processing_is_one_flight(session: dpsql.Session, other: str) -> None:
    data = session._engine.identities()
    claims = {claim_of(session.explain(sql, epsilon=1).main, data) for sql in (PLAIN, other)}
    assert len(claims) == 1 and b"" not in claims


@pytest.mark.parametrize(
    "other",
    [
        "SELECT k, SUM(v) FROM t GROUP BY k",
        "SELECT k, AVG(v) FROM t WHERE v > 1 GROUP BY k",
        "SELECT AVG(v) FROM t",
        "SELECT k, AVG(v), COUNT(*) FROM t WHERE k = 'a' GROUP BY k",
        "SELECT k, AVG(v) FILTER (WHERE v > 2) FROM t GROUP BY k",
        "SELECT k, AVG(v * 2) FROM t GROUP BY k",
        RANGED,
    ],
)
@pytest.mark.sample(2)
def test_other_releases_are_other_flights(session: dpsql.Session, other: str) -> None:
    data = session._engine.identities()
    claims = {claim_of(session.explain(sql, epsilon=1).main, data) for sql in (PLAIN, other)}
    noisier = claim_of(session.explain(PLAIN, epsilon="0.5").main, data)
    limited = claim_of(session.explain(PLAIN, epsilon=1, max_rows=2).main, data)
    assert len({*claims, noisier, limited}) == 4


# ---------------------------------------------------------------- sessions that share an engine


def test_sessions_of_one_engine_are_closed_apart_and_share_what_was_released(folder: Path) -> None:
    with dpsql.Engine.open(folder / "policy.toml") as engine:
        ann, bob = engine.session("ann"), engine.session("bob")
        first = ann.query(PLAIN, epsilon=1)
        ann.close()
        for use in (lambda: ann.query(PLAIN, epsilon=1), lambda: ann.budget, lambda: ann.replay(first.receipt.id)):
            with pytest.raises(dpsql.LedgerError) as closed:
                use()
            assert closed.value.code == "session-closed"
        assert bob.query(PLAIN, epsilon=1).rows == first.rows and bob.budget.spent.epsilon == 1
        assert list(bob.budget.analysts) == ["ann"]
    with pytest.raises(dpsql.LedgerError):
        bob.query(PLAIN, epsilon=1)


def test_connect_closes_what_it_opened(folder: Path) -> None:
    session = dpsql.connect(folder / "policy.toml")
    session.close()
    with pytest.raises(dpsql.LedgerError) as closed:
        _ = session._engine.ledger.balance
    assert closed.value.code == "ledger-closed"


def test_the_keywords_of_a_session_are_the_fields_of_a_request() -> None:
    asked = inspect.signature(Asked.__call__).parameters
    methods: list[Any] = [vars(dpsql.Session)[name] for name in ("query", "explain", "batch", "prices")]
    for method in methods:
        found = inspect.signature(method).parameters
        assert list(found) == list(asked) == ["self", "sql", *(f.name for f in fields(Request))]
        assert [p.default for p in found.values()] == [p.default for p in asked.values()]
        assert method.__doc__
    with pytest.raises(TypeError, match="seed"):
        methods[0](None, "SELECT 1", seed=1)


def test_the_flags_of_the_command_line_are_the_fields_of_a_request() -> None:
    from dpsql.cli.query import query

    flags = {option.name for option in query.params}
    assert {f.name for f in fields(Request)} <= flags
