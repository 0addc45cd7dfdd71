"""What is aimed at, beside what was measured: met, missed, or not measured at the size that a goal is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

Results = Mapping[str, Any]
Value = Callable[[Results, int], float | None]
"""What was measured at so many rows; None where it wasn't."""

TEN, FIFTY = 10_000_000, 50_000_000
SCALE_1 = 6_000_000  # line items


@dataclass(frozen=True, slots=True)
class Goal:
    """At most `most`, at so many rows (0: whatever the size). None: reported beside the others, without a goal."""

    about: str
    most: float | None
    rows: int
    value: Value
    unit: str = "×"


def _entry(results: Results, case: str, rows: int) -> Mapping[str, Any] | None:
    return next((e for e in results["speed"] if e["case"] == case and e["rows"] == rows), None)


def ratio(case: str, to: str, way: str = "again") -> Value:
    """A way's CPU time to plain DuckDB's (`to_plain`) or the floor's (`to_floor`): the median of turns."""

    def value(results: Results, rows: int) -> float | None:
        entry = _entry(results, case, rows)
        found = entry[to].get(way) if entry else None
        return found["median"] if found else None

    return value


def between(case: str, other: str) -> Value:
    """One case's CPU time to another's, both asked again."""

    def value(results: Results, rows: int) -> float | None:
        first, second = _entry(results, case, rows), _entry(results, other, rows)
        return _cpu(first) / _cpu(second) if first and second else None

    return value


def beyond(case: str) -> Value:
    """Seconds of CPU time beyond the floor's."""

    def value(results: Results, rows: int) -> float | None:
        entry = _entry(results, case, rows)
        return _cpu(entry) - _cpu(entry, "floor") if entry else None

    return value


def peak(case: str) -> Value:
    """The whole process's peak of memory in MB, after it was opened and asked once."""

    def value(results: Results, rows: int) -> float | None:
        entry = _entry(results, case, rows)
        return entry["peak_mb"]["dpsql"] if entry else None

    return value


def mean(ending: str = "") -> Value:
    """The geometric mean over TPC-H's queries of the ratio to plain."""

    def value(results: Results, rows: int) -> float | None:
        entries = [e for e in results["speed"] if e["data"] == "TPC-H" and e["rows"] == rows]
        found = [e["to_plain"]["again"]["median"] for e in entries if e["case"].endswith("auto") == bool(ending)]
        return exp(sum(map(log, found)) / len(found)) if found else None

    return value


def small(*path: str, times: float = 1) -> Value:
    def value(results: Results, rows: int) -> float | None:
        found: Any = results["small"]
        for name in path:
            found = found.get(name) if found else None
        return found * times if found is not None else None

    return value


def transactions(rate: str) -> Value:
    """Of the ledger, for one new query."""

    def value(results: Results, rows: int) -> float | None:
        found = results["small"].get(rate)
        return sum(found["ledger"].values()) if found else None

    return value


def _cpu(entry: Mapping[str, Any], way: str = "again") -> float:
    found: float = entry["ways"][way]["cpu"]["median"]
    return found


GOALS = (
    Goal("Q1 to the floor", 1.2, TEN, ratio("Q1", "to_floor")),
    Goal("Q2 to the floor", 1.2, TEN, ratio("Q2", "to_floor")),
    Goal("Q3 to the floor, limits named, an engine that stays open", 1.6, TEN, ratio("Q3", "to_floor")),
    Goal("Q3 to the floor, limits that choose themselves", None, TEN, ratio("Q3 auto", "to_floor")),
    Goal("Q3 to plain, with an index", 6, TEN, ratio("Q3", "to_plain", "index")),
    Goal("Q3 with max_rows_per_group, to Q3 without", 1.5, TEN, between("Q3 per group", "Q3")),
    Goal("Q4 to plain", 9, TEN, ratio("Q4", "to_plain")),
    Goal("Q4 to the floor", 4, TEN, ratio("Q4", "to_floor")),
    Goal("Q4's peak of memory", 700, TEN, peak("Q4"), "MB"),
    Goal("Q6 to plain", 1.4, TEN, ratio("Q6", "to_plain")),
    Goal("Q7 to the floor", 1.8, TEN, ratio("Q7", "to_floor")),
    Goal("50 sums to plain", 4, TEN, ratio("50 sums", "to_plain")),
    Goal("COUNT(DISTINCT x) to plain", 8, TEN, ratio("distinct", "to_plain")),
    Goal("medians by 10,000 keys, beyond the floor", 1, TEN, beyond("medians"), "s"),
    Goal("TPC-H, geometric mean to plain, limits named", 1.8, SCALE_1, mean()),
    Goal("TPC-H, geometric mean to plain, no limit named", None, SCALE_1, mean("auto")),
    Goal("TPC-H Q1 to plain", 5, SCALE_1, ratio("Q01", "to_plain")),
    Goal("TPC-H Q1 to plain, with an index", 5, SCALE_1, ratio("Q01", "to_plain", "index")),
    Goal("Q3's peak of memory, 2.5M users", 600, FIFTY, peak("Q3"), "MB"),
    Goal("a small new query", 15, 0, small("rate", "cpu", "median", times=1000), "ms"),
    Goal("the same, limits_share = 0", 15, 0, small("bare_rate", "cpu", "median", times=1000), "ms"),
    Goal("a small new query's transactions of the ledger", 4, 0, transactions("rate"), ""),
    Goal("the same, limits_share = 0", 4, 0, transactions("bare_rate"), ""),
    Goal("TPC-H's worst to plan", 80, 0, small("planning", "cpu", "most", times=1000), "ms"),
)


def judged(results: Results) -> list[dict[str, Any]]:
    """Each goal with what was measured. A value at another size is shown, and decides nothing."""
    return [_judged(goal, results) for goal in GOALS]


def _judged(goal: Goal, results: Results) -> dict[str, Any]:
    said = {"goal": goal.about, "most": goal.most, "unit": goal.unit, "rows": goal.rows}
    value = goal.value(results, goal.rows)
    if value is not None:
        verdict = "no goal" if goal.most is None else "met" if value <= goal.most else "missed"
        return {**said, "value": value, "at_rows": goal.rows, "verdict": verdict}
    sizes: Sequence[int] = sorted({e["rows"] for e in results["speed"]}, reverse=True)
    for rows in sizes:
        if (elsewhere := goal.value(results, rows)) is not None:
            return {**said, "value": elsewhere, "at_rows": rows, "verdict": "not measured at this size"}
    return {**said, "value": None, "at_rows": None, "verdict": "not measured"}
