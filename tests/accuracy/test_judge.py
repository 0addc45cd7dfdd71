"""The corpus is what it promises: enough shapes, half of them kept apart, always equal; and its figures are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from accuracy import judge as module
from accuracy.cases import CASES, Case, case_of, shape_called
from accuracy.judge import Figures, Judged, Numbers, judge, main, numbers, seldom_held, selected, summary
from accuracy.questions import A, Column, N, Question, Range, S, facts
from accuracy.reference import Setting, references
from accuracy.shapes import NAMED, SHAPES, Shape

import dpsql

SMALL = "tiny"
OPEN = float("inf")


def test_there_are_forty_shapes_and_half_of_the_cases_are_kept_apart() -> None:
    assert len(SHAPES) >= 40 and len({shape.name for shape in (*SHAPES, *NAMED)}) == len(SHAPES) + len(NAMED)
    assert len({case.name for case in CASES}) == len(CASES)
    apart = sum(case.set == "judge" for case in CASES)
    assert 0.4 < apart / len(CASES) < 0.6
    assert sum(shape.set == "judge" for shape in SHAPES) >= 20
    assert len(selected("build")) + len(selected("judge")) == len(selected("all")) == len(CASES)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.sample(6)
def test_a_shape_is_the_same_each_time(shape: Shape) -> None:
    table = shape.table()
    assert table.equals(shape.table())
    units = len(np.unique(table["id"].to_numpy()))
    assert 300 <= units <= 300_000 and len(table) < 2_500_000
    v = table["v"].drop_null().to_numpy()
    declared = np.mean((v >= shape.least) & (v <= shape.most))
    assert declared == 1 or "typos" in shape.name or shape.name == "dirty"


def test_truths_are_of_values_clipped_to_the_declared_range_and_null_stays_null() -> None:
    table = pa.table({"id": [1, 1, 2, 3], "g": ["a", "b", "b", "b"], "v": [5.0, 999.0, None, -3.0]})
    with duckdb.connect() as plain:
        plain.register("t", table)
        found = facts(plain, Question((N, S, A), "g"), {"v": Range(0, 10)})
    assert found.keys == ("a", "b")
    assert found.truths["n"].tolist() == [1, 3]
    assert found.truths["s"].tolist() == [5, 10] and found.truths["a"].tolist() == [5, 5]
    assert sorted(found.rows_per_unit.tolist()) == [1, 1, 2]


def test_the_best_limit_is_the_one_of_least_error() -> None:
    """900 units of 10 rows and one of 1,000: a limit of 11 loses 989 rows, one of 1,024 none, but has more noise."""
    counts = np.r_[np.full(900, 10), 1_000]
    table = pa.table({"id": np.repeat(np.arange(901), counts), "v": np.ones(counts.sum())})
    question = Question((N,))
    with duckdb.connect() as plain:
        plain.register("t", table)
        known = facts(plain, question, {})
    assert references(known, question, {}, Setting(0.1))["n"].limit == 11
    best = references(known, question, {}, Setting(10))["n"]
    assert best.limit == 1024 and best.error[0] == pytest.approx(np.sqrt(2) * 1024 / 10)
    assert references(known, question, {}, Setting(10, named=11))["n"].error[0] == pytest.approx(989, rel=0.01)


def test_open_ends_and_missing_intervals_are_apart_from_those_that_hold() -> None:
    truth = np.array([10.0, 10.0, 10.0, 10.0, np.nan])
    drawn = Numbers(truth, np.array([9, 11, 9, -OPEN, 9.0]), np.array([11, 12, OPEN, OPEN, 11.0]))
    ends, held = module._hold(drawn, truth)
    assert ends.tolist() == [True, True, False, False, False] and held.tolist() == [True, False, False, False, False]


def figures(**given: Any) -> Figures:
    return Figures(**{**dict.fromkeys(Figures.__slots__), "held": 0, "intervals": 0, "open": 0, **given})


def test_a_ledger_is_bad_where_fewer_than_half_of_its_intervals_hold() -> None:
    one = figures(error=2.0, held=19, intervals=20)
    other = figures(error=4.0, held=0, intervals=2, open=8)
    found = summary([Judged("x", "build", (one, other), ((1, 2), (0, 2), (0, 0), (2, 5)), (), 0)])
    assert found.bad_ledgers == pytest.approx(2 / 3) and found.held == pytest.approx(0.475)
    assert found.open == pytest.approx(8 / 30) and found.error == 3 and found.width is None
    seen, unseen = (Judged(name, "build", (other,), (), epsilons, 0) for name, epsilons in (("y", ()), ("z", (1.0,))))
    assert seldom_held([Judged("x", "build", (one,), (), (), 0), seen, unseen]) == ["y"]


def test_values_outside_of_the_truth_are_left_out_and_missing_ones_have_no_value() -> None:
    case: Case = case_of(shape_called(SMALL), (Question((N, S), "g"),))
    (question,) = case.questions
    (answer,) = module.ask(case, dict(case.tables()), case.questions, 1)
    drawn = numbers(answer, question, ("e", "a", "not there"))
    shown = dict(zip(answer.table["g"].to_pylist(), answer.table["n"].to_pylist(), strict=True))
    assert drawn["n"].value[:2].tolist() == [shown["e"], shown["a"]] and np.isnan(drawn["n"].value[2])
    assert isinstance(answer, dpsql.Answer)


def test_a_median_has_a_truth_and_no_reference() -> None:
    case = case_of(shape_called(SMALL), (Question((N, Column("m", "median", "v"))),))
    found = {f.column: f for f in judge(case, [1], 1).figures}
    assert found["n"].error is not None and found["m"].error is None and found["m"].intervals + found["m"].open == 1


def test_the_command_prints_a_line_for_each_case_and_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "before.json"
    asked = ["--only", SMALL, "--repeats", "1", "--epsilon", "1", "--seed", "1"]
    main([*asked, "--json", str(file)])
    first = capsys.readouterr().out
    found = json.loads(file.read_text(encoding="utf-8"))
    assert [case["case"] for case in found["cases"]] == [SMALL] and found["totals"]["all"]["intervals"] > 0
    main([*asked, "--compare", str(file)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == first.splitlines()[1] and lines[1].startswith(SMALL)
    assert lines[2].startswith("  before") and lines[2][28:] == lines[1][28:]
