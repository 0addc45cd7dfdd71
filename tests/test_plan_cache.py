"""Plans that are kept: the same question is planned once, and anything else anew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql import run as loop
from dpsql.analyze.ownership import rows_promise
from dpsql.backends.duckdb.backend import Steps
from dpsql.backends.duckdb.run import statement_text
from dpsql.options import Request
from dpsql.quote import plan_cache
from dpsql.quote.model import Quote

ROWS = pa.table({"k": ["a", "b"] * 50, "v": pa.array(range(100), pa.int32()), "u": pa.array(range(100), pa.int32())})
POLICY = {
    "privacy": {"limits_share": 0},
    "tables": {
        "t": {"unit": "u", "rows_per_unit": 1, "columns": {"k": {"values": ["a", "b"]}, "v": {"min": 0, "max": 99}}}
    },
}


def planned(session: dpsql.Session, sql: str, **options: Any) -> Quote:
    return session._quoting.quote(sql, Request(**options))


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": ROWS}, POLICY)


def test_the_same_question_has_the_same_quote(session: dpsql.Session) -> None:
    sql = "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k"
    first = planned(session, sql, epsilon=1, max_rows=1)
    assert planned(session, sql, epsilon=1, max_rows=1) is first
    for other in ({"epsilon": 2, "max_rows": 1}, {"epsilon": 1, "max_rows": 2}, {"epsilon": "1", "max_rows": 1}):
        assert planned(session, sql, **other) is not first
    assert planned(session, sql + " ", epsilon=1, max_rows=1) is not first


def test_options_are_checked_whatever_is_known(session: dpsql.Session) -> None:
    planned(session, "SELECT COUNT(*) FROM t", epsilon=1, max_rows=1)
    with pytest.raises(dpsql.Error):
        planned(session, "SELECT COUNT(*) FROM t", epsilon=1, max_rows=True)
    with pytest.raises(TypeError):
        planned(session, "SELECT COUNT(*) FROM t", epsilon=1, max_row=1)


def test_a_query_that_asks_for_the_time_is_planned_anew(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(*) FROM t WHERE v < EXTRACT(second FROM now())"
    assert planned(session, sql, epsilon=1, max_rows=1) is not planned(session, sql, epsilon=1, max_rows=1)


def test_a_promise_that_was_verified_since_counts(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(*) FROM t"
    options = {"epsilon": 1, "max_rows": 5}
    before = planned(session, sql, **options)
    assert before.steps[0].checked.bounding.mass == 1  # enforced
    engine = session._engine
    promise = rows_promise(engine.policy.tables["t"])
    assert promise is not None
    engine.ledger.record_promise("t", promise, engine.versions()["t"], True)
    after = planned(session, sql, **options)
    assert after.steps[0].checked.bounding.mass is None  # proved


def test_ranges_that_are_released_first_are_never_taken_for_known(connect: Connect) -> None:
    policy = {"tables": {"t": {"unit": "row", "columns": {"v": {"bounds": "auto"}}}}}
    session = connect({"t": ROWS.select(["v"])}, policy)
    sql = "SELECT SUM(v) FROM t"
    assert planned(session, sql, epsilon=10).main.settle is not None
    session.query(sql, epsilon=10)
    assert planned(session, sql, epsilon=10).main.settle is None


def test_a_quote_with_counts_of_units_is_kept_until_such_counts_are_released(connect: Connect) -> None:
    session = connect({"t": ROWS}, {"tables": POLICY["tables"]}, epsilon=1000)
    sql = "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k"
    first = planned(session, sql, epsilon=1)
    assert [stage.kind for stage in first.stages] == ["limits", "main"]
    assert planned(session, sql, epsilon=1) is first
    answer = session.query(sql, epsilon=1)  # by the quote that is kept
    assert session.budget.spent == answer.cost
    second = planned(session, sql, epsilon=1)
    assert second is not first and len(second.counts) > 0  # its counts are stored by now
    assert planned(session, sql, epsilon=1) is second
    assert session.query(sql, epsilon=1).rows == answer.rows
    session.query(sql, epsilon=1, fresh=True)
    session.query("SELECT COUNT(*) FROM t WHERE v < 7", epsilon=1)
    assert planned(session, sql, epsilon=1) is second  # other rows were counted
    session.query(sql, epsilon=100)
    assert planned(session, sql, epsilon=1) is not second  # there are better counts


def test_two_who_ask_by_one_kept_quote_pay_for_their_own_noise(connect: Connect) -> None:
    session = connect({"t": ROWS}, {"tables": POLICY["tables"]})
    sql = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
    quote = planned(session, sql, epsilon=1)
    data = session._engine.data()
    (first,), (second,) = (loop.run(quote, data, session._payer, fresh=True) for _ in range(2))
    assert first.rows != second.rows
    assert session.budget.spent.epsilon == first.cost.epsilon + second.cost.epsilon == 2


def test_other_public_rows_give_another_quote(connect: Connect, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"k": ["a"]}), tmp_path / "keys.parquet")
    policy = {
        "tables": {
            "t": {"unit": "row", "columns": {"k": {"references": "keys.k"}}},
            "keys": {"public": True, "source": str(tmp_path / "keys.parquet")},
        }
    }
    session = connect({"t": ROWS.select(["k"])}, policy)
    sql = "SELECT k, COUNT(*) FROM t GROUP BY k"
    assert planned(session, sql, epsilon=1).steps[0].cells.column(0).to_pylist() == ["a", None]
    pq.write_table(pa.table({"k": ["a", "b"]}), tmp_path / "keys.parquet")
    assert planned(session, sql, epsilon=1).steps[0].cells.column(0).to_pylist() == ["a", "b", None]


def test_only_some_are_kept(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MOST", 2)
    texts = [f"SELECT COUNT(*) FROM t WHERE v < {i}" for i in range(3)]
    found = [planned(session, sql, epsilon=1, max_rows=1) for sql in texts]
    again = [planned(session, sql, epsilon=1, max_rows=1) for sql in reversed(texts)]
    assert again[0] is found[2] and again[1] is found[1] and again[2] is not found[0]


def test_one_with_many_cells_is_not_kept(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "LARGEST", 2)  # a, b and NULL are three
    sql = "SELECT k, COUNT(*) FROM t GROUP BY k"
    assert planned(session, sql, epsilon=1, max_rows=1) is not planned(session, sql, epsilon=1, max_rows=1)


def test_a_plan_made_while_public_rows_changed_is_not_kept(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    from dpsql import quoting as pipeline
    from dpsql.quote.ask import asked

    def write(values: list[int]) -> None:
        pq.write_table(pa.table({"v": values}), tmp_path / "new.parquet")
        (tmp_path / "new.parquet").replace(tmp_path / "p.parquet")

    many, one = [7] * 10 + list(range(10)), list(range(10))
    write(many)
    policy = {
        "tables": {
            "t": {"unit": "row", "columns": {"v": {"min": 0, "max": 99}}},
            "p": {"public": True, "source": str(tmp_path / "p.parquet")},
        }
    }
    session = connect({"t": ROWS.select(["v"])}, policy)
    sql = "SELECT COUNT(*) FROM t JOIN p ON p.v = t.v"
    with pytest.raises(dpsql.PrivacyError):  # a row may find many
        planned(session, sql, epsilon=1)

    def meanwhile(*given: Any) -> object:
        write(one)
        return asked(*given)

    monkeypatch.setattr(pipeline, "asked", meanwhile)
    assert planned(session, sql, epsilon=1).steps[0].measurements[0].sensitivity.l1 == 1
    monkeypatch.undo()
    write(many)
    with pytest.raises(dpsql.PrivacyError):
        planned(session, sql, epsilon=1)
    write(one)  # the contents that the plan was made for, in another file
    first = planned(session, sql, epsilon=1)
    assert planned(session, sql, epsilon=1) is first


@pytest.mark.parametrize("first, then", [("anna", "bob"), ("anna", "anna"), ("carl", "bob")])
def test_a_quote_that_is_kept_tells_nobody_of_other_peoples_spends(first: str, then: str) -> None:
    """A range is named by the spend that found it, which each analyst knows by a name of his own."""
    policy = dpsql.Policy.from_dict(
        {"budget": {"epsilon": 100, "delta": 0}, "tables": {"t": {"unit": "row", "columns": {"v": {"bounds": "auto"}}}}}
    )
    sql = "SELECT AVG(v) FROM t"
    with dpsql.Engine.open(policy, sources={"t": ROWS.select(["v"])}, ledger=":memory:") as engine:
        engine.session("carl", share="all").query("SELECT SUM(v) FROM t", epsilon=20)
        engine.session(first, share="all").explain(sql, epsilon=20)
        session = engine.session(then, share="all")
        answer = session.query(sql, epsilon=20)
        others = [e.id for e in session._engine.ledger.history() if e.analyst == "carl"]
    told = {one["id"]: one["time"] for one in answer.about["releases"]}
    assert len(told) == 3 and not told.keys() & set(others)  # the range's, the counts', its own
    assert sorted(map(bool, told.values())) == [False, False, True]  # nor when others spent


def test_a_batch_leaves_nothing_of_its_text_with_its_first_statement() -> None:
    """Attack 50: whoever asks that alone is planned for from the same analysis."""
    table = {"unit": "u", "columns": {"k": {"values": ["a", "b"]}, "v": {"min": 0, "max": 99}}}
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 100, "delta": 9e-4}, "tables": {"t": table}})
    sql = "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k"
    with dpsql.Engine.open(policy, sources={"t": ROWS}, ledger=":memory:") as engine:
        engine.session("anna", share="own").explain_batch(f"{sql}; SELECT COUNT(*) FROM t WHERE v = 77", epsilon=1)
        quote = planned(engine.session("bob", share="own"), sql, epsilon=1)
    assert {stage.kind for stage in quote.stages} == {"limits", "main"}
    assert {stage.text.removeprefix("limits of: ") for stage in quote.stages} == {sql}


@pytest.mark.parametrize(("share", "analyses"), [("open", 1), ("all", 2), ("own", 2)])
def test_analysts_who_are_kept_apart_share_no_analysis(connect: Connect, share: Any, analyses: int) -> None:
    """How soon a plan is there would tell that somebody else has asked the same (attack 50)."""
    from dpsql.analyze import checked

    session = connect({"t": ROWS}, {"tables": {"t": {"unit": "u", "columns": {"v": {"min": 0, "max": 99}}}}})
    engine: Any = session._engine
    done: list[object] = []
    analyzed = checked._analyzed

    def noted(*given: Any) -> Any:
        done.append(given)
        return analyzed(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked, "_analyzed", noted)
        for analyst, epsilon in (("anna", 1), ("bert", 2)):
            engine_session = dpsql.Session(engine, analyst, share=share)
            engine_session.explain("SELECT SUM(v) FROM t", epsilon=epsilon, max_rows=2)
    assert len(done) == analyses


def test_each_run_of_a_kept_quote_has_a_secret_of_its_own(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theorem CAP-1: the groups that a unit keeps are chosen anew, though the plan is the same one."""
    session = connect({"t": ROWS}, {"tables": {"t": {"unit": "u", "columns": {"v": {"min": 0, "max": 99}}}}})
    sql = "SELECT v, COUNT(DISTINCT u) FROM t GROUP BY v"
    options: dict[str, Any] = {"epsilon": 1, "max_rows": 5, "max_groups": 2}
    first, second = planned(session, sql, **options), planned(session, sql, **options)
    assert first is second and first.steps[0].checked.bounding.cap == 2
    drawn: list[int] = []
    execute = Steps.execute

    def noted(self: Steps, step: Any, given: Any, secret: int, heavy: Any = ()) -> Any:
        drawn.append(secret)
        assert not any(int(number) >= 2**32 for number in re.findall(r"\d+", statement_text(step)))
        return execute(self, step, given, secret, heavy)

    monkeypatch.setattr(Steps, "execute", noted)
    for _ in range(2):
        session.query(sql, fresh=True, **options)
    assert len(set(drawn)) == len(drawn) >= 2


@pytest.mark.parametrize("where", ["k <> '$dpsql_secret'", '"$dpsql_secret" = 1'])
def test_a_text_like_the_secret_parameter_is_no_parameter(connect: Connect, where: str) -> None:
    """Statements without caps take none: one that is given to them fails when all is paid for."""
    rows = ROWS.append_column("$dpsql_secret", pa.array([1] * len(ROWS)))
    session = connect({"t": rows}, {"tables": {"t": {"unit": "u", "columns": {"v": {"min": 0, "max": 99}}}}})
    options: dict[str, Any] = {"epsilon": 50, "max_rows": 1}
    for sql in (f"SELECT COUNT(*), SUM(v) FROM t WHERE {where}", f"SELECT MEDIAN(v) FROM t WHERE {where}"):
        assert session.query(sql, **options).rows
    capped = f"SELECT v, COUNT(DISTINCT u) FROM t WHERE {where} GROUP BY v"
    assert session.query(capped, max_groups=1, **options).rows


def test_a_step_that_is_changed_writes_its_own_statement(session: dpsql.Session) -> None:
    from dataclasses import replace

    quote = planned(session, "SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1, max_rows=1)
    engine = session._engine
    loop._measure(quote.main, engine, engine.deadline(), engine.indexing(engine.data()))
    other = planned(session, "SELECT k, COUNT(*) FROM t WHERE v > 5 GROUP BY k", epsilon=1, max_rows=1)
    (step,) = quote.steps
    assert step.texts and not replace(step, statement=other.steps[0].statement).texts
