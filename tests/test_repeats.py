"""A repeat at no larger ε is free, whatever limits its release had and whatever limits would be chosen by now."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import Connect

import dpsql
from dpsql.analyze.bounding import Limits
from dpsql.quote.older import Chosen

RANDOM = np.random.default_rng(5)
UNITS = 1_500
EACH = RANDOM.integers(1, 6, UNITS)
IDS = np.repeat(np.arange(UNITS), EACH)
LARGE = (np.arange(UNITS) % 20 == 0)[IDS]
TABLE = pa.table(
    {
        "id": IDS,
        "k": RANDOM.choice(["a", "b", "c"], len(IDS)),
        "town": [f"t{i}" for i in RANDOM.integers(0, 6, len(IDS))],
        "x": np.where(LARGE, RANDOM.uniform(4, 8, len(IDS)), RANDOM.uniform(0.5, 1, len(IDS))),
    }
)
COLUMNS: dict[str, Any] = {"x": {"min": 0, "max": 500}, "k": {"values": ["a", "b", "c"], "nullable": False}}
POLICY: dict[str, Any] = {"tables": {"t": {"unit": "id", "columns": COLUMNS}}}
BOTH = "SELECT COUNT(*), SUM(x) FROM t"
ASKED: tuple[float | str, ...] = (1, 3, 1, 10, 3, "0.5", 10, "0.1", "2.9")


def ask(session: dpsql.Session, sql: str, asked: Sequence[float | str] = ASKED) -> list[dpsql.Answer]:
    """Ask at each ε in turn: what was bought at no smaller one answers for nothing, as `explain` says before."""
    answers: list[dpsql.Answer] = []
    most = 0.0
    for epsilon in asked:
        explained = session.explain(sql, epsilon=epsilon)
        stored = session.is_stored(explained)
        answers.append(session.query(sql, epsilon=epsilon))
        free = float(str(epsilon)) <= most
        assert stored >= free and (answers[-1].cost.epsilon == 0) == stored, (epsilon, answers[-1].limits)
        assert not stored or [stage.kind for stage in explained.stages] == ["main"]
        most = max(most, float(str(epsilon)))
    return answers


QUERIES = (
    "SELECT COUNT(*) FROM t",
    "SELECT AVG(x) FROM t",
    "SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k",
    "SELECT k, COUNT(DISTINCT id), COUNT(*) FROM t GROUP BY k",
    "SELECT COUNT(*), COUNT(DISTINCT town) FROM t",
    "SELECT MEDIAN(x), COUNT(*) FROM t",
    "SELECT COUNT(*) FILTER (WHERE x > (SELECT AVG(x) FROM t)) FROM t",
    "SELECT k, SUM(x) FROM t GROUP BY ROLLUP (k)",
)


@pytest.mark.parametrize("ledger", range(6))
def test_limits_that_would_be_others_now_make_no_repeat_dearer(connect: Connect, ledger: int) -> None:
    answers = ask(connect({"t": TABLE}, POLICY, epsilon=1000), BOTH)
    assert answers[2].rows == answers[1].rows != answers[0].rows  # of several the least noisy one answers
    assert all(answer.rows == answers[3].rows for answer in answers[4:])


@pytest.mark.parametrize("sql", QUERIES)
def test_repeats_of_all_kinds_of_queries_are_free(connect: Connect, sql: str) -> None:
    ask(connect({"t": TABLE}, POLICY, epsilon=1000), sql)


@pytest.mark.parametrize("ledger", range(3))
def test_private_keys_are_found_again_with_the_limits_of_before(connect: Connect, ledger: int) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000, delta=1e-4)
    answers = ask(session, "SELECT town, COUNT(*) FROM t GROUP BY town")
    assert all(answer.rows for answer in answers[1:])


@pytest.mark.parametrize("ledger", range(3))
@pytest.mark.parametrize("privacy", [{"adjacency": "replace_one"}, {"limits_share": 0.05}])
def test_repeats_are_free_under_other_rules(connect: Connect, privacy: dict[str, Any], ledger: int) -> None:
    ask(connect({"t": TABLE}, {**POLICY, "privacy": privacy}, epsilon=1000), BOTH)


@pytest.mark.parametrize("ledger", range(3))
@pytest.mark.parametrize("sql", [BOTH, "SELECT town, COUNT(*) FROM t GROUP BY town"])
def test_repeats_are_free_under_zcdp(sql: str, ledger: int) -> None:
    whole = {**POLICY, "budget": {"epsilon": 1000, "delta": 1e-4, "accountant": "zcdp"}}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": TABLE}, ledger=":memory:") as session:
        ask(session, sql)


@pytest.mark.parametrize("ledger", range(3))
def test_automatic_ranges_and_limits_are_found_again_together(connect: Connect, ledger: int) -> None:
    automatic = {"t": {"unit": "id", "columns": {**COLUMNS, "x": {"bounds": "auto"}}}}
    ask(connect({"t": TABLE}, {"tables": automatic}, epsilon=1000), BOTH, (1, 3, 1, 10, 3, 10))


@pytest.mark.parametrize("ledger", range(3))
def test_a_batch_is_free_again_and_so_are_its_statements(connect: Connect, ledger: int) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000)
    batch = f"SELECT COUNT(*) FROM t; {BOTH}; SELECT k, COUNT(*) FROM t GROUP BY k"
    for epsilon, free in ((1, False), (3, False), (1, True), (10, False), (3, True), ("0.5", True)):
        assert session.is_stored(session.explain_batch(batch, epsilon=epsilon)) == free
        assert all((answer.cost.epsilon == 0) == free for answer in session.batch(batch, epsilon=epsilon))
    assert session.query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1).cost.epsilon == 0


def test_statements_that_were_asked_apart_answer_a_batch(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000)
    parts = [BOTH, "SELECT k, COUNT(*) FROM t GROUP BY k"]
    for epsilon in (2, 20):
        for sql in parts:
            session.query(sql, epsilon=epsilon)
    assert all(answer.cost.epsilon == 0 for answer in session.batch("; ".join(parts), epsilon=2))


def test_randomised_rows_beside_chosen_limits_are_free_again(connect: Connect) -> None:
    answers = pa.table({"yes": [i % 3 == 0 for i in range(2_000)]})
    tables = {**POLICY["tables"], "poll": {"unit": "row", "columns": {"yes": {"nullable": False}}}}
    policy = {"privacy": {"adjacency": "replace_one"}, "tables": tables}
    session = connect({"t": TABLE, "poll": answers}, policy, epsilon=1000)
    batch = f"SELECT RANDOMIZED_RESPONSE(yes) FROM poll; {BOTH}"
    for epsilon, free in ((1, False), (4, False), (1, True), (2, True), (4, True)):
        assert session.is_stored(session.explain_batch(batch, epsilon=epsilon)) == free
        assert all((answer.cost.epsilon == 0) == free for answer in session.batch(batch, epsilon=epsilon))


def test_what_the_steward_learned_makes_repeats_no_dearer(connect: Connect) -> None:
    policy = dpsql.Policy.from_dict({**POLICY, "budget": {"epsilon": 1000, "delta": 0}})
    with dpsql.Engine.open(policy, sources={"t": TABLE}, ledger=":memory:") as engine:
        session = engine.session("ann")
        before = session.query(BOTH, epsilon=1)
        engine.learn(steward=True, columns=["t.x"], epsilon=4)
        assert session.query(BOTH, epsilon=1).rows == before.rows
        ask(engine.session("bob"), BOTH, (3, 1, 3, 10, 3))


def test_a_named_limit_is_answered_by_a_release_with_it_alone(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000)
    session.query("SELECT COUNT(*) FROM t", epsilon=10)
    named = session.query("SELECT COUNT(*) FROM t", epsilon=1, max_rows=2)
    assert named.cost.epsilon > 0 and "max_rows = 2" in named.limits
    assert session.query("SELECT COUNT(*) FROM t", epsilon=1, max_rows=2).rows == named.rows
    chosen = session.query("SELECT COUNT(*) FROM t", epsilon=1)
    assert chosen.cost.epsilon == 0 and "max_rows = 2" not in chosen.limits


def test_the_most_that_a_limit_may_be_holds_for_what_was_chosen_before(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    for most in ("", "max_rows = { most = 1 }\n"):
        (tmp_path / "policy.toml").write_text(
            "[budget]\nepsilon = 100\ndelta = 0\n"
            f'[tables.t]\nsource = "t.parquet"\nunit = "id"\n{most}[tables.t.columns]\nx = {{ min = 0, max = 500 }}\n'
        )
        with dpsql.connect(tmp_path / "policy.toml") as session:
            answer = session.query("SELECT COUNT(*) FROM t", epsilon=2)
            assert answer.cost.epsilon > 0 and ("max_rows = 1" in answer.limits) == bool(most)


@pytest.mark.parametrize(("most", "fits"), [(10, False), (50, True), (None, True)])
def test_the_most_rows_are_the_most_values_of_a_choice_of_before(
    connect: Connect, most: int | None, fits: bool
) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10)
    (step,) = session.explain("SELECT COUNT(*), COUNT(DISTINCT town) FROM t", epsilon=1).steps
    chosen = Chosen(Fraction(1), rows=8, peak=None, groups=None, values=50, size=None, typical=None)
    ends = () if most is None else (("max_rows", most),)
    found = chosen.limits(step.checked, Limits(max_rows=16, chosen=frozenset({"max_rows"}), ends=ends))
    assert (found is not None) == fits and (found is None or found.max_values == 50)


def test_a_table_of_prices_says_what_is_free(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000)
    for epsilon in (1, 3):
        session.query(BOTH, epsilon=epsilon)
    free = {float(one.epsilon) for one in session.prices(BOTH) if one.fits is None}
    assert free == {float(one.epsilon) for one in session.prices(BOTH) if one.epsilon <= 3}
    assert all(one.fits is not None for one in session.prices(BOTH, fresh=True))


def test_fresh_pays_and_what_is_less_noisy_answers_from_then_on(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000)
    first = session.query(BOTH, epsilon=1)
    again = session.query(BOTH, epsilon=1, fresh=True)
    assert again.cost.epsilon == 1 and again.rows != first.rows
    better = session.query(BOTH, epsilon=50)
    assert session.query(BOTH, epsilon=1).rows == better.rows


def test_the_interval_of_a_repeat_holds_what_its_own_limits_cut(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000)
    for answer in ask(session, BOTH):
        assert any("cuts" in note for note in answer.cut_notes) and "at least" not in str(answer)


def test_nothing_of_another_version_of_the_data_is_served(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(
        '[budget]\nepsilon = 100\ndelta = 0\n[tables.t]\nsource = "t.parquet"\nunit = "id"\n'
        "[tables.t.columns]\nx = { min = 0, max = 500 }\n"
    )
    seen: list[object] = []
    for rows in (TABLE.num_rows, 2_000, TABLE.num_rows):
        pq.write_table(TABLE.slice(0, rows), tmp_path / "t.parquet")
        with dpsql.Engine.open(tmp_path / "policy.toml") as engine:
            engine.refresh(steward=True)
            answers = ask(engine.session("ann"), BOTH, (3, 1, 3))
        assert answers[0].cost.epsilon == 3 and answers[0].rows not in seen
        seen.append(answers[0].rows)


def test_whoever_sees_only_his_own_releases_gets_no_limits_of_others(connect: Connect) -> None:
    policy = dpsql.Policy.from_dict({**POLICY, "budget": {"epsilon": 1000, "delta": 0}})
    with dpsql.Engine.open(policy, sources={"t": TABLE}, ledger=":memory:") as engine:
        ask(engine.session("ann", share="own"), BOTH, (1, 3, 1))
        assert not engine.session("bob", share="own").query(BOTH, epsilon=1).receipt.reused
        ask(engine.session("eve", share="all"), BOTH, (3, 1))


def test_limits_that_are_kept_are_no_part_of_an_answer(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=1000)
    answer = session.query(BOTH, epsilon=3)
    assert session.replay(answer.receipt.id).rows == answer.rows
