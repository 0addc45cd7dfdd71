"""Batches: one reservation, shared statistics measured once, the least total error, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sqlglot.tokenizer_core import TokenType
from support import Connect, scale_of

import dpsql
from dpsql import run as loop
from dpsql.analyze.bounding import Limits
from dpsql.analyze.checked import Checked
from dpsql.cli.main import cli
from dpsql.core.errors import BudgetError, DataError, Error, LedgerError, PrivacyError, SQLError
from dpsql.options import Request
from dpsql.quote.ask import asked
from dpsql.quote.calibrate import calibrate
from dpsql.quote.merge import merge, share
from dpsql.quote.model import Stage
from dpsql.sql import statements as dividing
from dpsql.sql.parse import parse
from dpsql.sql.statements import statements

TABLE = pa.table(
    {
        "id": [i // 3 for i in range(300)],
        "k": ["a", "b", "c"] * 100,
        "v": [float(i % 50) for i in range(300)],
        "w": [i % 7 for i in range(300)],
    }
)
POLICY: dict[str, Any] = {
    "privacy": {"max_rows": 3, "max_groups": 2},
    "tables": {
        "t": {
            "unit": "id",
            "columns": {"k": {"values": ["a", "b", "c"]}, "v": {"min": 0, "max": 50}, "w": {"min": 0, "max": 7}},
        }
    },
}
REPORT = """-- a report; with comments
SELECT k, COUNT(*) AS n FROM t GROUP BY k;
SELECT k, AVG(v) AS mean FROM t GROUP BY k ORDER BY mean;

SELECT COUNT(*) AS n FROM t WHERE w > 3; -- the end;
"""


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=100)


def checked(session: dpsql.Session, text: str, limits: Limits) -> Checked:
    quoting = session._quoting
    return quoting._statement(parse(text), limits, session._engine.catalog()).checked


def quoted(session: dpsql.Session, text: str, **options: Any) -> Stage:
    ask, limits = asked(Request(**options), session._engine.policy)
    return calibrate(merge(text, [checked(session, t, limits) for t in statements(text)]).checked, ask)


def test_counts_of_distinct_values_are_measured_once_and_share_with_other_counts(session: dpsql.Session) -> None:
    text = "SELECT k, COUNT(DISTINCT v), COUNT(*) FROM t GROUP BY k; SELECT k, COUNT(DISTINCT v) FROM t GROUP BY k"
    quote = share(quoted(session, text, epsilon=1))
    assert [len(step.measurements) for step in quote.releases] == [2] and quote.own.epsilon <= 1
    scales = {scale_of(m) / m.sensitivity.l1 for s in quote.releases for m in s.measurements}
    assert len(scales) == 1  # one kind of count
    first, second = session.batch(text, epsilon=50)
    assert [row[:2] for row in first.rows] == second.rows


def test_statements_end_at_semicolons_that_are_not_in_texts_or_comments() -> None:
    assert [s.strip() for s in statements("SELECT ';'; -- a;b\n SELECT 2 /* ; */;;\n")] == [
        "SELECT ';'",
        "-- a;b\n SELECT 2 /* ; */",
    ]
    assert statements("") == [""] and statements("SELECT 'open") == ["SELECT 'open"]
    with pytest.raises(SQLError):
        statements("SELECT 1;" * 101)


def test_a_text_of_many_statements_is_refused_before_it_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """16,000 characters took half a minute, as each statement looked at all tokens: each is looked at twice at most."""
    looks: list[int] = []

    class Token:
        def __init__(self, place: int) -> None:
            self._start, self.token_type = place, TokenType.SEMICOLON if place % 2 else TokenType.NUMBER

        @property
        def start(self) -> int:
            looks.append(1)
            return self._start

    class Tokenizer:
        def tokenize(self, text: str) -> list[Token]:
            return [Token(i) for i in range(len(text))]

    monkeypatch.setattr(dividing, "_DIALECT", Tokenizer())
    with pytest.raises(SQLError, match="at most 100 statements"):
        statements("1;" * 500)
    assert len(looks) <= 2 * 1_000


def test_a_batch_is_one_reservation_and_answers_each_statement(session: dpsql.Session) -> None:
    by_key, mean, some = session.batch(REPORT, epsilon=30)
    assert session.budget.spent.epsilon == 30
    (entry,) = session._engine.ledger.history()
    assert entry.cost.epsilon == 30 and entry.note["sql"] == REPORT.strip()
    assert by_key.columns == ["k", "n"] and mean.columns == ["k", "mean"] and some.columns == ["n"]
    assert all(abs(n - 100) < 25 for k, n in by_key.rows if k is not None)
    assert abs(some.rows[0][0] - 129) < 30
    for one in (by_key, mean, some):
        assert one.receipt.id == entry.id and one.receipt.state == "released" and one.cost.epsilon == 30
    assert [i is not None for i in (by_key.intervals()["n"], mean.intervals()["mean"], some.intervals()["n"])] == [
        True
    ] * 3
    low, high = (by_key.intervals()["n"] or [])[0] or (0.0, 0.0)
    assert low < by_key.rows[0][1] < high


def test_what_two_statements_share_is_measured_once(session: dpsql.Session) -> None:
    quote = quoted(session, REPORT, epsilon=1)
    assert len(quote.steps) == 2  # by key, and the one with a WHERE
    titles = [m.statistic.title for step in quote.releases for m in step.measurements]
    assert len(titles) == len(set(titles)) == 2
    apart = quoted(
        session, "SELECT COUNT(*) FROM t; SELECT COUNT(*) AS c FROM t ORDER BY c; SELECT COUNT(*) FROM t", epsilon=1
    )
    assert len(apart.releases) == 1 and len(apart.releases[0].measurements) == 1


def test_shared_statistics_agree_between_statements(session: dpsql.Session) -> None:
    one, two = session.batch(
        "SELECT k, COUNT(*) FROM t GROUP BY k; SELECT k, COUNT(*) * 2 FROM t GROUP BY k", epsilon=1
    )
    assert [2 * n for _, n in one.rows] == [n for _, n in two.rows]


def test_the_split_is_that_of_least_total_error(connect: Connect) -> None:
    """The figure of THEORY: Δ = (1, 100) at ε = 1 has the total variance 22,916, and 80,008 with equal shares."""
    session = connect({"t": TABLE}, {"tables": {"t": {"unit": "id"}}}, epsilon=100)
    ask, one = asked(Request(epsilon=1, max_rows=1), session._engine.policy)
    _, hundred = asked(Request(epsilon=1, max_rows=100), session._engine.policy)
    sql = "SELECT COUNT(*) FROM t"
    different = sql + " WHERE w > 3"
    both = merge("", [checked(session, sql, one), checked(session, different, hundred)])
    equal = calibrate(both.checked, ask)
    best = share(equal)

    def total(stage: Stage) -> float:
        return sum(2.0 * float(scale_of(m) / 2**s.bits) ** 2 for s in stage.releases for m in s.measurements)

    assert total(equal) == pytest.approx(80_008, rel=1e-4)
    assert total(best) == pytest.approx(22_916, rel=1e-3)
    assert best.own.epsilon <= equal.own.epsilon == 1
    assert float(best.own.epsilon) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "discrete_gaussian"])
@pytest.mark.sample(2)
def test_a_split_never_costs_more_than_was_asked_for(connect: Connect, accountant: str, mechanism: str) -> None:
    budget = {"epsilon": 10, "delta": 1e-6, "accountant": accountant}
    session = connect({"t": TABLE}, POLICY | {"budget": budget})
    text = "SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t WHERE w > 1; SELECT COUNT(DISTINCT id) FROM t WHERE w > 2"
    equal = quoted(session, text, epsilon=1, mechanism=mechanism)
    best = share(equal)
    assert best.own.epsilon <= 1 and best.own.delta <= equal.own.delta * (1 + Fraction(1, 10**6))
    spreads = [[m.noise.variance / 4**s.bits if "units" not in m.statistic.title else m.noise.variance
                for s in q.releases for m in s.measurements] for q in (equal, best)]  # fmt: skip
    assert sum(spreads[1]) < sum(spreads[0])
    session.batch(text, epsilon=1, mechanism=mechanism)
    assert session.budget.spent.epsilon <= 1


def test_different_units_of_measure_get_equal_shares(session: dpsql.Session) -> None:
    quote = quoted(session, "SELECT COUNT(*) FROM t; SELECT SUM(v) FROM t WHERE w > 2", epsilon=1)
    assert share(quote) is quote


def test_all_or_nothing_a_refused_statement_costs_nothing_and_points_at_its_line(session: dpsql.Session) -> None:
    with pytest.raises(Error) as refused:
        session.batch("SELECT COUNT(*) FROM t;\nSELECT nothing FROM t", epsilon=1)
    assert refused.value.span is not None and refused.value.span.line == 2
    assert "   2 | SELECT nothing FROM t" in str(refused.value)
    assert session.budget.spent.epsilon == 0


def test_all_or_nothing_a_batch_that_is_too_dear_is_refused_whole(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1)
    with pytest.raises(BudgetError):
        session.batch(REPORT, epsilon=2)
    assert session.budget.spent.epsilon == 0 and session._engine.ledger.history() == []


def test_a_batch_that_fails_after_payment_shows_nothing_of_any_statement(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = vars(loop)["finish"], []

    def fail_on_the_second(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise DataError("no", code="post-processing")
        return original(*arguments)

    monkeypatch.setattr(loop, "finish", fail_on_the_second)
    with pytest.raises(DataError):
        session.batch(REPORT, epsilon=1)
    (entry,) = session._engine.ledger.history()
    assert entry.state == "released" and session.budget.spent.epsilon == 1
    monkeypatch.undo()
    again = session.batch(REPORT, epsilon=1)  # what was measured is stored: to ask again is free
    assert len(again) == 3 and again[0].receipt.reused and session.budget.spent.epsilon == 1


def test_a_repeated_batch_is_free_and_so_is_each_of_its_statements(session: dpsql.Session) -> None:
    first = session.batch(REPORT, epsilon=2)
    again = session.batch(REPORT, epsilon=2)
    assert [a.rows for a in again] == [a.rows for a in first] and all(a.receipt.reused for a in again)
    assert session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon="0.1").receipt.reused
    assert session.budget.spent.epsilon == 2
    fresh = session.batch(REPORT, epsilon=2, fresh=True)
    assert not fresh[0].receipt.reused and session.budget.spent.epsilon == 4


def test_a_lost_batch_is_replayed_whole(session: dpsql.Session) -> None:
    first = session.batch(REPORT, epsilon=2)
    again = session.replays(first[0].receipt.id)
    assert [a.rows for a in again] == [a.rows for a in first]
    assert [a.intervals() for a in again] == [a.intervals() for a in first]
    with pytest.raises(LedgerError, match="was a batch"):
        session.replay(first[0].receipt.id)


def test_private_keys_keep_their_equal_shares_and_thresholds(connect: Connect) -> None:
    policy = {"privacy": {"max_rows": 3, "max_groups": 1}, "tables": {"t": {"unit": "id"}}}
    session = connect({"t": TABLE}, policy, epsilon=100, delta=1e-6)
    text = "SELECT k, COUNT(DISTINCT id) FROM t GROUP BY k; SELECT COUNT(*) FROM t"
    quote = quoted(session, text, epsilon=4)
    assert share(quote) is quote
    assert len(session.batch(text, epsilon=4)) == 2


def test_an_accuracy_is_for_one_query(session: dpsql.Session) -> None:
    with pytest.raises(PrivacyError, match="for one query"):
        session.batch(REPORT, accuracy=5)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "report.sql").write_text(REPORT)
    (tmp_path / "policy.toml").write_text(
        "[budget]\nepsilon = 10\ndelta = 0\nquery_epsilon = 1\n[privacy]\nlimits_share = 0\nmax_rows = 3\n"
        '[tables.t]\nsource = "t.parquet"\nunit = "id"\n'
        '[tables.t.columns]\nk = { values = ["a", "b", "c"] }\nv = { min = 0, max = 50 }\n'
    )
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli, arguments)


def test_a_file_of_several_statements_is_a_batch(run: Callable[..., Any]) -> None:
    done = run("query", "-f", "report.sql")
    assert done.exit_code == 0 and "cost ε = 1 · left ε = 9" in done.stderr
    first, second, third = done.stdout.split("\n\n")
    assert first.startswith("k,n\n") and second.startswith("k,mean\n") and third.startswith("n\n")
    found = json.loads(run("query", "-f", "report.sql", "--format", "json").stdout)
    assert [part["columns"] for part in found] == [["k", "n"], ["k", "mean"], ["n"]]
    id = found[0]["receipt"]["id"]
    assert run("budget", "--replay", id).stdout == done.stdout
    assert json.loads(run("budget", "--json").stdout)["spent"]["epsilon"] == 1


def test_explain_shows_a_batch_as_one_price_and_spends_nothing(run: Callable[..., Any]) -> None:
    done = run("explain", "-f", "report.sql")
    assert done.exit_code == 0 and done.stdout.startswith("price     ε = 1, δ = 0\n")
    assert done.stdout.count("measured") == 2 and "fits      10 more times" in done.stdout
    found = json.loads(run("explain", "-f", "report.sql", "--json").stdout)
    assert [len(release["measurements"]) for release in found["releases"]] == [1, 1]
    run("query", "-f", "report.sql")
    assert "a stored release answers it" in run("explain", "-f", "report.sql").stderr


@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_a_format_for_one_answer_is_refused_before_payment(run: Callable[..., Any], format_: str) -> None:
    done = run("query", "-f", "report.sql", "-o", f"x.{format_}")
    assert done.exit_code == 2 and "holds one answer" in done.stderr
    assert json.loads(run("budget", "--json").stdout)["spent"]["epsilon"] == 0


def test_two_statements_in_an_argument_stay_refused(run: Callable[..., Any]) -> None:
    done = run("query", "SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t")
    assert done.exit_code == 3 and "second statement" in done.stderr
