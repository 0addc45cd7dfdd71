"""± means ±: what limits cut is estimated for a share of the query, and is part of every interval."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.answer.notebook import html_table
from dpsql.answer.render import as_json, cut_lines
from dpsql.core.errors import PrivacyError

RANDOM = np.random.default_rng(3)
UNITS = 20_000
EACH = np.ceil(RANDOM.lognormal(1, 1, UNITS)).astype(int)
IDS = np.repeat(np.arange(UNITS), EACH)
TABLE = pa.table(
    {
        "id": IDS,
        "x": RANDOM.lognormal(3, 0.7, len(IDS)),
        "k": RANDOM.choice(list("abcdefgh"), len(IDS)),
        "heavy": np.where(EACH[IDS] > 8, "h", "l"),
        "own": np.repeat(RANDOM.choice(list("abcd"), UNITS), EACH),
    }
)
X = TABLE["x"].to_numpy()
COLUMNS: dict[str, Any] = {
    "x": {"min": 0, "max": 80},
    "k": {"values": list("abcdefgh"), "nullable": False},
    "heavy": {"values": ["h", "l"], "nullable": False},
    "own": {"values": list("abcd"), "nullable": False},
}
POLICY: dict[str, Any] = {
    "privacy": {"max_rows": 8, "max_groups": 2, "limits_share": 0.05},
    "tables": {"t": {"unit": "id", "columns": COLUMNS}},
}
SQL = "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM t"
SHARE = 1 - np.minimum(EACH, 8).sum() / EACH.sum()


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, POLICY, epsilon=1000, delta=1e-6)


def spends(session: dpsql.Session) -> list[tuple[str, Fraction]]:
    return [(str(e.note["sql"]).split(":")[0], e.cost.epsilon) for e in session._engine.ledger.history()]


def inside(answer: dpsql.Answer, truth: Mapping[str, float], row: int = 0) -> dict[str, bool]:
    found = {}
    for name, value in truth.items():
        cells = answer.intervals()[name]
        cell = None if cells is None else cells[row]
        found[name] = cell is not None and cell[0] <= value <= cell[1]
    return found


def cells(answer: dpsql.Answer) -> list[tuple[float, float]]:
    """The intervals of n."""
    return [cell for cell in answer.intervals()["n"] or [] if cell is not None]


CLIPPED = np.clip(X, 0, 80)  # intervals are of values in the stated range
TRUTH = {"n": float(len(IDS)), "s": float(CLIPPED.sum()), "a": float(CLIPPED.mean())}


# ---------------------------------------------------------------- what is spent, and when


def test_a_twentieth_of_epsilon_tells_what_a_named_limit_and_a_range_cut(session: dpsql.Session) -> None:
    answer = session.query(SQL, epsilon=4)
    assert spends(session) == [("limits of", Fraction(1, 5)), (SQL, Fraction(19, 5))] and answer.cost.epsilon == 4
    assert inside(answer, TRUTH) == {"n": True, "s": True, "a": True}
    assert answer.limits[0] == "max_rows = 8" and answer.rows[0][0] < 0.9 * len(IDS)


def test_asked_again_it_is_free_and_the_next_query_over_the_same_rows_has_all_of_its_epsilon(
    session: dpsql.Session,
) -> None:
    first = session.query(SQL, epsilon=4)
    assert session.query(SQL, epsilon=4).cost.epsilon == 0
    session.query("SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k", epsilon=1)
    assert [cost for _, cost in spends(session)][2:] == [1]
    shown = session.replay(first.receipt.id)
    assert shown.intervals() == first.intervals() and shown.cut == first.cut and shown.cut_notes == first.cut_notes


def test_where_nothing_can_be_cut_nothing_is_spent_or_said(connect: Connect) -> None:
    session = connect(
        {"t": TABLE},
        {"privacy": {"limits_share": 0.05}, "tables": {"t": {"unit": "row", "columns": COLUMNS}}},
    )
    answer = session.query("SELECT k, COUNT(*), SUM(CLIP(x, 0, 50)) FROM t GROUP BY k", epsilon=1)
    assert len(spends(session)) == 1 and not (answer.limits or answer.cut or answer.cut_notes)
    session.query("SELECT SUM(x) FROM t", epsilon=1)
    assert [cost for _, cost in spends(session)][1:] == [
        Fraction(1, 320),
        Fraction(319, 320),
    ]  # one number is a sixteenth


def test_a_share_of_0_turns_it_off_and_the_answer_says_that_it_is_not_known(connect: Connect) -> None:
    session = connect({"t": TABLE}, {**POLICY, "privacy": {"max_rows": 8, "limits_share": 0}})
    answer = session.query(SQL, epsilon=1)
    assert len(spends(session)) == 1 and not any(facts["exceeds_noise"] for facts in answer.cut.values())
    assert cut_lines(answer)[0].startswith("too little is known of what max_rows = 8 may cut")
    ((low, high),) = cells(answer)
    assert low < len(IDS) and high == float("inf")  # a lower bound
    with pytest.raises(PrivacyError) as refused:
        connect({"t": TABLE}, {**POLICY, "privacy": {"limits_share": 0}}).query(SQL, epsilon=1)
    assert refused.value.code == "needs-max-rows"


def test_counts_that_choose_a_limit_tell_what_it_cuts(connect: Connect) -> None:
    session = connect({"t": TABLE}, {**POLICY, "privacy": {"limits_share": 0.05}}, epsilon=100)
    answer = session.query(SQL, epsilon=4)
    stages = session.explain(SQL, epsilon=5, fresh=True).stages
    assert [stage.kind for stage in stages] == ["main"]  # all counts are stored
    assert answer.limits[0].startswith("max_rows = ") and inside(answer, TRUTH) == dict.fromkeys(TRUTH, True)


def test_automatic_bounds_and_counts_share_one_price(connect: Connect) -> None:
    columns = {**COLUMNS, "x": {"bounds": "auto"}}
    policy = {**POLICY, "tables": {"t": {"unit": "id", "columns": columns}}}
    session = connect({"t": TABLE}, policy, epsilon=100)
    answer = session.query(SQL, epsilon=4)
    assert answer.cost.epsilon == sum(cost for _, cost in spends(session)) == 4 and len(spends(session)) == 3
    assert any(limit.startswith("the range of SUM(t.x)") for limit in answer.limits)
    assert session.query(SQL, epsilon=4).cost.epsilon == 0


def test_under_zcdp_the_counts_are_part_of_rho() -> None:
    whole = {**POLICY, "budget": {"epsilon": 10, "delta": 1e-6, "accountant": "zcdp"}}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": TABLE}, ledger=":memory:") as session:
        answer = session.query(SQL, epsilon=4)
        rhos = [e.cost.rho for e in session._engine.ledger.history()]
        conversion = session._engine.ledger.account.filter.conversion
        assert conversion is not None and len(rhos) == 2
        assert answer.cost.rho == sum(r for r in rhos if r) <= conversion.rho(Fraction(4))
        assert answer.cost.epsilon == 4


def test_how_many_values_a_released_range_clips_does_not_change_the_price() -> None:
    """What the query clips itself is outside of a narrower range that is found: one more count, for the same ρ."""
    columns = {**COLUMNS, "x": {"bounds": "auto"}}
    budget = {"epsilon": 10, "delta": 1e-6, "accountant": "zcdp"}
    whole = {"budget": budget, "tables": {"t": {"unit": "id", "columns": columns}}}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": TABLE}, ledger=":memory:") as session:
        answer = session.query("SELECT SUM(x), SUM(CLIP(x, 0, 5000)) FROM t", epsilon=1, max_rows=3)
        assert answer.cost.epsilon == 1 and len(spends(session)) == 3


def test_an_accuracy_pays_for_the_counts_too(session: dpsql.Session) -> None:
    quote = session.explain("SELECT COUNT(*) FROM t", accuracy=200)
    assert [stage.kind for stage in quote.stages] == ["limits", "main"]


def test_what_is_cut_where_noisy_values_filter_is_told_by_the_rows_before(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) AS n FROM t WHERE x > (SELECT AVG(x) FROM t)", epsilon=4)
    assert any(line.startswith("max_rows = 8 cuts about") for line in cut_lines(answer))
    exact = int((X.mean() < X).sum())
    ((low, high),) = cells(answer)
    assert low <= exact <= high and high < 3 * exact


@pytest.mark.parametrize("call", ["query", "explain", "batch", "prices"])
def test_clipping_is_gone_and_says_what_to_do_instead(session: dpsql.Session, call: str) -> None:
    with pytest.raises(PrivacyError) as refused:
        getattr(session, call)(SQL, epsilon=1, clipping=True)
    assert refused.value.code == "removed" and "answer.cut" in str(refused.value) and spends(session) == []
    with pytest.raises(PrivacyError) as gone:
        _ = session.query("SELECT COUNT(*) FROM t", epsilon=1).clipping
    assert gone.value.code == "removed"


# ---------------------------------------------------------------- what is said of it


def test_a_column_whose_cut_exceeds_its_noise_is_marked_everywhere(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) AS n FROM t", epsilon=40)
    facts = answer.cut["n"]
    assert facts["exceeds_noise"] and abs(facts["low_by"] - SHARE) < 0.4 * SHARE
    mark = f"low by about {facts['low_by']:.0%}"
    assert mark in str(answer) and mark in html_table(answer) and cut_lines(answer)[0].startswith(f"n is {mark}")
    told = json.loads(json.dumps(as_json(answer)))
    assert told["cut"]["n"] == facts and told["intervals"]["n"] and told["receipt"]["cut"] == list(answer.cut_notes)
    assert answer.cut_notes[0].startswith("max_rows = 8 cuts about")
    quiet = session.query("SELECT COUNT(*) AS n FROM t", epsilon="0.0005", fresh=True)
    assert not quiet.cut.get("n", {"exceeds_noise": False})["exceeds_noise"] and "low by" not in str(quiet)


def test_explain_says_what_is_spent_on_it_and_afterwards_what_it_told(session: dpsql.Session) -> None:
    assert "what limits and ranges cut is estimated first, for ε = 0.05" in str(session.explain(SQL, epsilon=1))
    session.query(SQL, epsilon=1)
    said = str(session.explain(SQL, epsilon=1))
    assert "is estimated first" not in said and "cut       max_rows = 8 cuts about" in said
    assert "max_rows = 2 cuts about" in str(session.explain(SQL, epsilon=1, max_rows=2))


# ---------------------------------------------------------------- intervals


ENOUGH = 0.75
"""Of 24 cells or more, each held with probability 0.95: fewer are held once in 10,000 runs. Without the cut: none."""


def held(session: dpsql.Session, sql: str, truth: Mapping[Any, float], runs: int = 4) -> float:
    """How often intervals of the last column hold the truth, over all cells."""
    good = []
    for _ in range(runs):
        answer = session.query(sql, epsilon=2, delta="1e-9", fresh=True)
        cells = answer.intervals()[answer.columns[-1]]
        assert cells is not None
        shown = [(row[0], cell) for row, cell in zip(answer.rows, cells, strict=True) if cell is not None]
        good += [cell[0] <= truth[key] <= cell[1] for key, cell in shown if key in truth]
    return float(np.mean(good))


def by(key: str, weight: Any = None) -> dict[Any, float]:
    names = TABLE[key].to_numpy(zero_copy_only=False)
    return {k: float((names == k).sum() if weight is None else weight[names == k].sum()) for k in np.unique(names)}


@pytest.mark.parametrize("key", ["k", "own"])
def test_intervals_of_groups_hold_what_is_cut_of_them(session: dpsql.Session, key: str) -> None:
    assert held(session, f"SELECT {key}, COUNT(*) AS n FROM t GROUP BY {key}", by(key)) >= ENOUGH
    assert held(session, f"SELECT {key}, SUM(x) AS s FROM t GROUP BY {key}", by(key, CLIPPED)) >= ENOUGH


def test_a_group_that_loses_all_that_is_cut_is_held(session: dpsql.Session) -> None:
    """Nothing is assumed of how groups differ: a cell may have lost all that all cells lose together."""
    assert held(session, "SELECT heavy, COUNT(*) AS n FROM t GROUP BY heavy", by("heavy"), 12) >= ENOUGH


def test_units_that_are_counted_in_too_many_groups_are_held(session: dpsql.Session) -> None:
    pairs = {(i, k) for i, k in zip(IDS.tolist(), TABLE["k"].to_pylist(), strict=True)}
    exact = {k: float(sum(1 for _, one in pairs if one == k)) for k in "abcdefgh"}
    assert held(session, "SELECT k, COUNT(DISTINCT id) AS n FROM t GROUP BY k", exact) >= ENOUGH


def test_computed_columns_hold_it_too(session: dpsql.Session) -> None:
    exact = by("k")
    ratio = {k: 2 * n for k, n in exact.items()}
    assert held(session, "SELECT k, 2 * COUNT(*) AS n FROM t GROUP BY k", ratio) >= ENOUGH  # propagated
    running = dict(zip(sorted(exact), np.cumsum([exact[k] for k in sorted(exact)]), strict=True))
    sql = "SELECT k, SUM(n) OVER (ORDER BY k) AS total FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)"
    assert held(session, sql, running, 3) >= ENOUGH  # simulated


def test_only_the_side_on_which_something_is_missing_is_wider(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) AS n FROM t", epsilon=2)
    ((count,),), ((low, high),) = answer.rows, cells(answer)
    assert count - low < 0.01 * len(IDS) and high - count > 0.1 * len(IDS)


def test_an_answer_without_groups_is_shown_where_values_are_beyond_a_range(connect: Connect) -> None:
    """No key is selected: each has one unit. What was paid for must not fail afterwards."""
    ids = np.arange(4000)
    table = pa.table({"id": ids, "x": ids % 200, "k": [f"k{i}" for i in ids]})
    tables = {"t": {"unit": "id", "columns": {"x": COLUMNS["x"]}}}
    session = connect({"t": table}, {**POLICY, "tables": tables}, epsilon=1000, delta=1e-6)
    answer = session.query("SELECT k, SUM(x) AS s, AVG(x) AS a FROM t GROUP BY k", epsilon=4)
    assert answer.rows == [] and answer.intervals()["s"] == [] and "s" in str(answer)


def test_values_of_groups_in_which_a_unit_does_not_count_are_held(connect: Connect) -> None:
    """A limit on groups takes different values away, too: of rows that the limit on values never sees."""
    keys = [f"k{i}" for i in range(20)]
    people = 3_000
    table = pa.table({"id": np.repeat(np.arange(people), 20), "k": np.tile(keys, people), "x": np.arange(20 * people)})
    columns = {"k": {"values": keys, "nullable": False}}
    session = connect({"t": table}, {"tables": {"t": {"unit": "id", "columns": columns}}}, epsilon=100)
    sql = "SELECT k, COUNT(DISTINCT x) AS d, COUNT(DISTINCT id) AS u FROM t GROUP BY k ORDER BY k"
    answer = session.query(sql, epsilon=3, max_groups=2)
    for found in (answer, session.replay(answer.receipt.id)):
        ends = [
            end for row, end in zip(found.rows, found.intervals()["d"] or (), strict=True) if row[0] is not None and end
        ]
        held = [low <= people <= high < 10 * people for low, high in ends]
        assert len(held) == 20 and sum(held) >= 18  # of 95%
        (note,) = (note for note in found.cut_notes if note.startswith("max_groups = 2 cuts about "))
        assert 80 < float(note.split("%")[0].split()[-1]) < 95  # 18 of 20
