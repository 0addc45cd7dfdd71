"""How good default answers are: python -m tests.accuracy.judge [--set build|judge|all] [--repeats 4] [--epsilon 0.3,1]

Each answer comes from a new ledger, in which nothing was asked before. Its numbers are compared with plain DuckDB's and
with the best fixed limit's error (reference.py). The rule that chooses limits sees none of this.
--only NAME,… runs cases whose names begin so; --json FILE writes all figures; --compare FILE shows an earlier run's
beside them; --seed TEXT draws noise from a generator instead of the operating system.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from accuracy.cases import CASES, TOTAL, Case
from accuracy.questions import Facts, Floats, Question, facts
from accuracy.reference import Reference, Setting, references
from seeding import seeded

import dpsql

LEAST_HELD = 0.9
"""The share of intervals that hold in each case, at least."""
Booleans = NDArray[np.bool_]

SEEN = 13
"""A group of fewer units than this many noise scales of a histogram may be missing from an interval."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """One column of one answer, by cell: NaN where there is no value, infinite where an interval is open."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Figures:
    """One column of one question at one epsilon, over all repeats."""

    case: str
    sql: str
    epsilon: float
    column: str
    kind: str
    limit: float | None
    """The reference's."""
    error: float | None
    """The root mean square error, to that of the best fixed limit; None: that isn't known."""
    width: float | None
    """The median over repeats of the half width, to 1.96 times that error."""
    held: int
    intervals: int
    """Those with two ends."""
    open: int
    """Values without an interval of two ends: "at least" answers, and those without any."""
    bias: float | None
    """What all cells of all repeats miss together (below 0) or have too much, to their truth."""
    relative: float | None
    """The root mean square error to the truth, in the median cell."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A case: its figures, and how many intervals held in each of its ledgers."""

    case: str
    set: str
    figures: tuple[Figures, ...]
    ledgers: tuple[tuple[int, int], ...]
    """By ledger: intervals that hold, and intervals that have two ends."""
    unseen: tuple[float, ...]
    """The epsilons at which a group of heavy units is too small to be seen."""
    seconds: float


# ---------------------------------------------------------------- asking


def ask(case: Case, tables: dict[str, pa.Table], questions: Sequence[Question], epsilon: float) -> list[dpsql.Answer]:
    """The answers from a new ledger, to one question or to a batch."""
    budget = {"epsilon": TOTAL, "delta": case.delta, "accountant": case.accountant}
    policy = dpsql.Policy.from_dict({"budget": budget, **case.policy})
    with dpsql.Engine.open(policy, sources=tables, ledger=":memory:") as engine:
        engine.refresh(steward=True)
        with engine.session() as session:
            if case.batch:
                return session.batch("; ".join(q.sql for q in questions), epsilon=epsilon, **case.options)
            return [session.query(question.sql, epsilon=epsilon, **case.options) for question in questions]


def numbers(answer: dpsql.Answer, question: Question, keys: Sequence[Any]) -> dict[str, Numbers]:
    """By column, in the order of the truth's cells. Shown cells that no row has are left out."""
    place = {key: i for i, key in enumerate(keys)}
    rows = answer.rows
    cells = [place.get(row[0]) for row in rows] if question.key else [0] * len(rows)
    spans, found = answer.intervals(), {}
    for column in question.columns:
        index = answer.columns.index(column.name)
        drawn = Numbers(*(np.full(len(keys), np.nan) for _ in range(3)))
        for row, cell, span in zip(rows, cells, spans[column.name] or [None] * len(rows), strict=True):
            if cell is None:
                continue
            drawn.value[cell] = math.nan if row[index] is None else float(row[index])
            low, high = span or (None, None)
            drawn.low[cell] = -math.inf if low is None else low
            drawn.high[cell] = math.inf if high is None else high
        found[column.name] = drawn
    return found


# ---------------------------------------------------------------- judging


def judge(case: Case, epsilons: Sequence[float], repeats: int) -> Judged:
    """Ask all questions of a case at all epsilons so often, each time in a new ledger."""
    begun, tables = time.perf_counter(), dict(case.tables())
    known = _known(case, tables)
    figures: list[Figures] = []
    ledgers: list[tuple[int, int]] = []
    asked = [case.questions] if case.batch else [(question,) for question in case.questions]
    for epsilon in case.epsilons or epsilons:
        for questions in asked:
            drawn: list[dict[tuple[str, str], Numbers]] = []
            for _ in range(repeats):
                answers = zip(questions, ask(case, tables, questions, epsilon), strict=True)
                drawn.append({(q.sql, name): n for q, a in answers for name, n in numbers(a, q, known[q].keys).items()})
                ledgers.append(_held_in_ledger(drawn[-1], known))
            for question in questions:
                figures += _figures(case, question, known[question], epsilon, drawn)
    unseen = tuple(e for e in case.epsilons or epsilons if not _is_seen(case, e))
    return Judged(case.name, case.set, tuple(figures), tuple(ledgers), unseen, time.perf_counter() - begun)


def _known(case: Case, tables: dict[str, pa.Table]) -> dict[Question, Facts]:
    with duckdb.connect() as plain:
        for name, table in tables.items():
            plain.register(name, table)
        return {question: facts(plain, question, case.ranges) for question in case.questions}


def _is_seen(case: Case, epsilon: float) -> bool:
    """Are the heavy units enough to be found by a histogram with the default share of epsilon?"""
    share = 0.25 if epsilon <= 0.3 else 0.2 if epsilon <= 1 else 0.1
    return case.apart is None or case.apart >= SEEN / (share * epsilon)


def _hold(drawn: Numbers, truth: Floats) -> tuple[Booleans, Booleans]:
    """Which cells have an interval of two ends and a truth, and which of these intervals hold it."""
    ends = np.isfinite(drawn.low) & np.isfinite(drawn.high) & np.isfinite(truth)
    slack = 1e-9 * np.abs(np.nan_to_num(truth))  # of adding up doubles
    return ends, ends & (drawn.low - slack <= truth) & (truth <= drawn.high + slack)


def _held_in_ledger(drawn: dict[tuple[str, str], Numbers], known: dict[Question, Facts]) -> tuple[int, int]:
    truths = {(question.sql, name): truth for question, f in known.items() for name, truth in f.truths.items()}
    counted = [_hold(n, truths[place]) for place, n in drawn.items()]
    return sum(int(held.sum()) for _, held in counted), sum(int(ends.sum()) for ends, _ in counted)


def _figures(
    case: Case, question: Question, f: Facts, epsilon: float, drawn: Sequence[dict[tuple[str, str], Numbers]]
) -> Iterator[Figures]:
    setting = Setting(
        epsilon,
        replaces=case.replaces,
        gaussian=case.accountant == "zcdp",
        parts=len(case.questions) if case.batch else 1,
        named=case.options.get("max_rows"),
    )
    best = {} if case.private_keys else references(f, question, case.ranges, setting)
    for column in question.columns:
        truth, found = f.truths[column.name], [one[question.sql, column.name] for one in drawn]
        value, low, high = (np.array([getattr(n, part) for n in found]) for part in ("value", "low", "high"))
        ends = np.array([_hold(n, truth)[0] for n in found])
        yield Figures(
            case.name,
            question.sql,
            epsilon,
            column.name,
            column.kind,
            limit=best[column.name].limit if column.name in best else None,
            error=_error(value - truth, best.get(column.name)),
            width=_width((high - low) / 2, ends, best.get(column.name)),
            held=sum(int(_hold(n, truth)[1].sum()) for n in found),
            intervals=int(ends.sum()),
            open=int((np.isfinite(value) & np.isfinite(truth) & ~ends).sum()),
            bias=_bias(value, truth),
            relative=_relative(value, truth),
        )


def _error(off: Floats, best: Reference | None) -> float | None:
    """Over repeats and cells with a value, relative to each cell's scale."""
    if best is None or not np.isfinite(off).any():
        return None
    there = np.isfinite(off)
    errors = (np.where(there, off, 0) / best.scale) ** 2
    return float(np.sqrt(errors[there].sum() / np.broadcast_to((best.error / best.scale) ** 2, off.shape)[there].sum()))


def _width(half: Floats, ends: Floats, best: Reference | None) -> float | None:
    if best is None or not ends.any():
        return None
    ratios = []
    for row, there in zip(half, ends, strict=True):
        if there.any():
            possible = 1.96**2 * ((best.error / best.scale)[there] ** 2).sum()
            ratios.append(math.sqrt(((row[there] / best.scale[there]) ** 2).sum() / possible))
    return float(np.median(ratios))


def _bias(value: Floats, truth: Floats) -> float | None:
    there = np.isfinite(value) & np.isfinite(truth)
    total = np.broadcast_to(truth, value.shape)[there].sum()
    return float((value[there].sum() - total) / total) if there.any() and total else None


def _relative(value: Floats, truth: Floats) -> float | None:
    """Over repeats that have values, in cells with a truth other than 0."""
    cells = np.flatnonzero(np.isfinite(value).any(0) & np.isfinite(truth) & (truth != 0))
    found = [np.sqrt(np.nanmean((value[:, cell] / truth[cell] - 1) ** 2)) for cell in cells]
    return float(np.median(found)) if found else None


# ---------------------------------------------------------------- figures


@dataclass(frozen=True, slots=True)
class Summary:
    """What several figures come to; None: none of them has it."""

    error: float | None
    worst_error: float | None
    """The worst tenth begins here."""
    width: float | None
    worst_width: float | None
    held: float | None
    """The mean over figures, so that a question with many groups counts like any other."""
    intervals: int
    open: float | None
    """The share of values without an interval of two ends."""
    bad_ledgers: float | None
    """The share of ledgers with fewer than half of their intervals right."""


def summary(judged: Iterable[Judged], chosen: Callable[[Figures], bool] = lambda _: True) -> Summary:
    """Over the figures that are chosen of these cases."""
    cases = list(judged)
    figures = [f for one in cases for f in one.figures if chosen(f)]
    errors = [f.error for f in figures if f.error is not None]
    widths = [f.width for f in figures if f.width is not None]
    intervals, opened = sum(f.intervals for f in figures), sum(f.open for f in figures)
    held = [f.held / f.intervals for f in figures if f.intervals]
    ledgers = [right < of / 2 for one in cases for right, of in one.ledgers if of]
    return Summary(
        *_spread(errors),
        *_spread(widths),
        held=float(np.mean(held)) if held else None,
        intervals=intervals,
        open=opened / (intervals + opened) if intervals + opened else None,
        bad_ledgers=sum(ledgers) / len(ledgers) if ledgers else None,
    )


def _spread(found: Sequence[float]) -> tuple[float | None, float | None]:
    return (float(np.median(found)), float(np.quantile(found, 0.9))) if found else (None, None)


GOAL = Summary(error=1.5, worst_error=2.5, width=2, worst_width=4, held=0.93, intervals=0, open=None, bad_ledgers=0.05)
"""What default answers have to be over all cases: at most so far off and so wide, and held at least so often."""

HEAD = f"{'':28}{'error':>7}{'tenth':>7} |{'width':>7}{'tenth':>7} |{'held':>7}{'of':>6}{'open':>6}{'ledgers':>9}"


def line(name: str, found: Summary, note: str = "") -> str:
    """One case, or all of some kind, as a line of the table."""
    times = "".join(f"{'–' if x is None else _times(x):>7}" for x in (found.error, found.worst_error))
    widths = "".join(f"{'–' if x is None else _times(x):>7}" for x in (found.width, found.worst_width))
    held, opened, bad = ("–" if x is None else f"{x:.1%}" for x in (found.held, found.open, found.bad_ledgers))
    return f"{name:28}{times} |{widths} |{held:>7}{found.intervals:>6}{opened:>7}{bad:>8}  {note}".rstrip()


def _times(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def noted(one: Judged) -> str:
    """What a line of a case says beside its figures."""
    notes = [f"* too few heavy units to be seen at {', '.join(f'{e:g}' for e in one.unseen)}"] if one.unseen else []
    if all(f.error is None for f in one.figures):
        lost = [f.bias for f in one.figures if f.kind == "count" and f.bias is not None]
        notes += [f"rows of shown keys off by {np.mean(lost):+.1%}"] if lost else []
    return "; ".join(notes)


KINDS = {"counts": "count", "sums": "sum", "averages": "avg", "variances": "var"}


def totals(judged: Sequence[Judged]) -> dict[str, Summary]:
    """Over all cases, and by kind, group and epsilon."""
    epsilons = sorted({f.epsilon for one in judged for f in one.figures})
    chosen: dict[str, Callable[[Figures], bool]] = {
        **{name: partial(_is_of, kind) for name, kind in KINDS.items()},
        "alone": lambda f: "GROUP BY" not in f.sql,
        "by group": lambda f: "GROUP BY" in f.sql,
        **{f"epsilon {epsilon:g}": partial(_is_at, epsilon) for epsilon in epsilons},
    }
    parts = {name: replace(summary(judged, choice), bad_ledgers=None) for name, choice in chosen.items()}
    return {"all": summary(judged), **parts}


def _is_of(kind: str, f: Figures) -> bool:
    return f.kind == kind


def _is_at(epsilon: float, f: Figures) -> bool:
    return f.epsilon == epsilon


def seldom_held(judged: Sequence[Judged]) -> list[str]:
    """The names of cases whose intervals hold in fewer than 90%, but those in which a group is too small to be seen."""
    found = {one.case: summary([one]).held for one in judged if not one.unseen}
    return [name for name, held in found.items() if held is not None and held < LEAST_HELD]


def as_json(judged: Sequence[Judged]) -> dict[str, Any]:
    """All figures, for a file."""
    return {
        "version": dpsql.__version__,
        "totals": {name: asdict(found) for name, found in totals(judged).items()},
        "cases": [{**asdict(one), "summary": asdict(summary([one]))} for one in judged],
    }


# ---------------------------------------------------------------- the command


def selected(which: str, only: str = "") -> list[Case]:
    """The cases of a set, and of these the ones whose names begin with one of the words."""
    words = tuple(filter(None, only.split(",")))
    return [c for c in CASES if which in ("all", c.set) and (not words or c.name.startswith(words))]


def options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.accuracy.judge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=("build", "judge", "all"), default="build")
    parser.add_argument("--repeats", type=int, default=4, help="new ledgers for each question (4)")
    parser.add_argument("--epsilon", default="0.3,1", help="divided by commas (0.3,1)")
    parser.add_argument("--only", default="", help="how names of cases begin, divided by commas")
    parser.add_argument("--seed", help="of the noise; without it, the operating system's")
    parser.add_argument("--json", type=Path, help="where all figures are written")
    parser.add_argument("--compare", type=Path, help="figures that an earlier run wrote")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> None:
    asked = options(given)
    epsilons = [float(text) for text in asked.epsilon.split(",")]
    before = json.loads(asked.compare.read_text(encoding="utf-8")) if asked.compare else {"cases": [], "totals": {}}
    earlier = {one["case"]: one["summary"] for one in before["cases"]}
    judged: list[Judged] = []
    print(HEAD)

    def show(name: str, found: Summary, note: str, old: dict[str, Any] | None) -> None:
        print(line(name, found, note), flush=True)
        if old is not None:
            print(line("  before", Summary(**old)), flush=True)

    with seeded(asked.seed) if asked.seed else nullcontext():
        for case in selected(asked.set, asked.only):
            judged.append(judge(case, epsilons, asked.repeats))
            show(case.name, summary(judged[-1:]), noted(judged[-1]), earlier.get(case.name))
            if asked.json:  # after each case: a run that is stopped leaves what it has
                asked.json.write_text(json.dumps(as_json(judged), indent=1) + "\n", encoding="utf-8")
    print()
    for name, found in totals(judged).items():
        show(name, found, "", before["totals"].get(name))
    show("goal", GOAL, "", None)
    print(f"\nheld in fewer than {LEAST_HELD:.0%}: {', '.join(seldom_held(judged)) or 'none'}")


if __name__ == "__main__":
    main()
