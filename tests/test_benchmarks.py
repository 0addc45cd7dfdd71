"""`python -m benchmarks` on a few rows: it runs from end to end, and its results have what the README promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cases, events, goals, limits
from benchmarks.accuracy import Errors
from benchmarks.report import report
from benchmarks.turns import Failed, Worker, in_turns

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two queries, one of people and one of rows, and the errors of one of them."""
    out = tmp_path_factory.mktemp("benchmark")
    command = [sys.executable, "-m", "benchmarks", "--quick", "--rows", "2000", "--cases", "Q3,Q6,tiny"]
    asked = [*command, "--parts", "events,accuracy", "--runs", "1", "--data", str(out / "data"), "--out", str(out)]
    subprocess.run(asked, cwd=ROOT, check=True, capture_output=True)
    assert (out / "results.md").read_text(encoding="utf-8").startswith("# Results\n")
    found: dict[str, Any] = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return found


def test_every_way_is_measured(results: dict[str, Any]) -> None:
    assert [(e["case"], e["rows"]) for e in results["speed"]] == [("Q3", 2000), ("Q6", 2000)]
    for entry in results["speed"]:
        people = entry["unit"] == "user_id"
        ways = {"plain", "cold", "new", "again", "stored"} | ({"by unit", "floor"} if people else set())
        assert ways <= set(entry["ways"])
        for way in entry["ways"].values():
            for clock in ("cpu", "wall"):
                assert 0 < way[clock]["least"] <= way[clock]["median"] <= way[clock]["most"]
        assert entry["to_plain"]["again"]["median"] > 0 and ("again" in entry["to_floor"]) == people
        assert entry["peak_mb"]["dpsql"] > 0 and entry["peak_mb"]["plain"] > 0
        assert not people or "index" in entry["ways"] or entry["not_measured"]["index"]


def test_errors_and_intervals_are_those_of_the_answers(results: dict[str, Any]) -> None:
    timed = [e["error"]["again"] for e in results["speed"]]
    for columns in [*timed, *(e["columns"] for e in results["accuracy"])]:
        for one in columns.values():
            assert one["of_cells"] == 20 and 0 <= one["held"] <= one["intervals"] <= 20 * one["runs"]
            assert one.get("rmse", 0) >= 0  # of numbers that are shown at all
        assert any("rmse" in one for one in columns.values())
    assert [e["case"] for e in results["accuracy"]] == ["Q3"]


def test_the_corpus_is_judged(results: dict[str, Any]) -> None:
    (case,) = results["corpus"]["cases"]
    assert case["case"] == "tiny" and case["summary"]["intervals"] > 0 and case["summary"]["error"] > 0
    assert "| tiny | build | " in report(results) and "| counts | " in report(results)


def test_the_machine_and_its_load_are_told(results: dict[str, Any]) -> None:
    assert results["machine"]["cores"] > 0 and results["machine"]["memory_mb"] > 0
    assert results["machine"]["versions"]["duckdb"] and results["machine"]["python"]
    assert len(results["load"]["before"]) == len(results["load"]["after"]) == 3


def test_a_goal_is_judged_only_at_its_own_size(results: dict[str, Any]) -> None:
    assert len(results["goals"]) == len(goals.GOALS)
    verdicts = {one["goal"]: one["verdict"] for one in results["goals"]}
    assert verdicts["Q6 to plain"] == "not measured at this size" and verdicts["Q4 to plain"] == "not measured"
    for value, verdict in ((1.4, "met"), (1.5, "missed")):
        entry = {"case": "Q6", "data": "events", "rows": goals.TEN, "to_plain": {"again": {"median": value}}}
        judged = goals.judged({"speed": [entry], "small": {}})
        assert [g["verdict"] for g in judged if g["goal"] == "Q6 to plain"] == [verdict]


def test_the_report_has_all_parts(results: dict[str, Any]) -> None:
    larger = [{**e, "rows": 4000} for e in results["speed"]]
    text = report({**results, "speed": results["speed"] + larger, "opened": {"events 2000": 1.0, "events 4000": 1.0}})
    for heading in ("## Goals", "## events, 2,000 rows", "## Growth", "## Error and coverage, each run"):
        assert heading in text
    assert "not measured: OpenDP (others are asked at 1M rows, see --peers-at)" in text


def test_errors_are_relative_and_intervals_are_counted() -> None:
    truth = {"keys": [["a"], ["b"]], "values": {"N": [100.0, 50.0]}, "intervals": {}}
    found = Errors(truth)
    spans = [[90.0, 105.0], [50.5, 60.0], None]
    found.add({"keys": [["a"], ["b"], ["None"]], "values": {"N": [110.0, 45.0, 3.0]}, "intervals": {"N": spans}})
    column = found.columns()["N"]
    assert (column["held"], column["intervals"], column["cells"]) == (1, 2, 3)
    assert column["rmse"] == pytest.approx(0.1) and column["bias"] == pytest.approx(0, abs=1e-12)


def test_a_system_that_fails_or_hangs_is_a_result() -> None:
    task = {"kind": "plain", "files": {}, "sql": "SELECT * FROM none", "floor": ""}
    with Worker(task) as worker, pytest.raises(Failed, match="Catalog"):
        worker.run("plain")
    with pytest.raises(Failed, match=r"more than 0 s"):
        Worker(task, patience=0)


def test_turns_go_there_and_back() -> None:
    assert [way for _, way in in_turns(2, ("a", "b"))] == ["a", "b", "b", "a"]


def test_others_are_shown_with_their_best_limit_and_with_fifty_rows() -> None:
    def of(rmse: float, cells: int = 20) -> dict[str, dict[str, Any]]:
        return {"COUNT": {"rmse": rmse, "cells": cells, "of_cells": 20}}

    text = limits.table(
        {
            "Q3": {
                "dpsql": {"none": of(0.02), "50": of(0.039)},
                "A": {"20": of(0.2), "50": of(0.04), "100": of(0.012)},
                "B": {"20": of(0.2, 15), "50": of(0.04, 15), "100": of(0.9, 18)},
                "C": {"20": "has no quantiles", "50": "has no quantiles"},
            },
            "Q6": {"dpsql": {"none": of(0.001)}, "A": {"1": of(0.002)}, "B": {"1": of(0.002)}, "C": {"1": of(0.002)}},
        },
        ["dpsql", "A", "B", "C"],
    )
    assert text.splitlines()[2:] == [
        "| Q3 COUNT | 2%; 3.9% | 1.2% (100); 4% | 90%, 18 groups (100); 4%, 15 groups | has no quantiles |",
        "| Q6 COUNT | 0.1% | 0.2% | 0.2% | 0.2% |",
    ]


def test_errors_by_limit_are_measured_from_an_account_of_its_own_each_time(tmp_path: Path) -> None:
    case = next(case for case in cases.EVENTS if case.name == "Q1")
    found = limits.measure(case, events.made(20_000, case.unit, tmp_path), 2, (50,), [])
    assert found.keys() == {"dpsql"} and found["dpsql"].keys() == {"none", "50"}
    assert all(columns["COUNT"]["runs"] == 2 for columns in found["dpsql"].values())
