"""A sample of the corpus with noise from a seed: default answers are no worse than their margins.

`python -m tests.accuracy.judge` measures all of it. `judge.GOAL` is what answers have to be over all of it; the margins
here are wide, because the sample is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from accuracy.cases import CASES
from accuracy.judge import Judged, Summary, judge, summary

REPEATS = 2
EPSILON = 1.0


@dataclass(frozen=True, slots=True)
class Margins:
    """What a summary may come to. Errors and widths: times those of the best fixed limit."""

    error: float
    worst_error: float
    width: float
    worst_width: float
    held: float
    bad_ledgers: float


SAMPLE = ("survey", "meters", "tiny", "signs", "small", "orders, linked", "orders, replaced")
"""Cases that are quick, of all kinds."""
WITHIN = Margins(error=3, worst_error=25, width=12, worst_width=100, held=0.8, bad_ledgers=0.25)

KNOWN: Mapping[str, tuple[float, float]] = {
    "twelve at most": (150, 0.6),
    "values of d": (250, 0.1),
    "thirty heavy": (200, 0.1),
    "visits, 40 named": (4, 0.5),
    "visits": (6, 0.6),
    "few pro people": (250, 0.2),
    "16 of 17": (1.1, 0.8),
    "16 of 30": (1.1, 0.2),
}
"""What was wrong once: the largest error of a column, and the least share of intervals that hold."""


@pytest.fixture(scope="module")
def judged() -> dict[str, Judged]:
    cases = [case for case in CASES if case.name in SAMPLE or case.name in KNOWN]
    assert len(cases) == len(SAMPLE) + len(KNOWN)
    return {case.name: judge(case, [EPSILON], REPEATS) for case in cases}


def failed(found: Summary, most: Margins) -> list[str]:
    """The names of what lies beyond its margin."""
    figures = {name: getattr(found, name) for name in Margins.__slots__}
    assert None not in figures.values(), figures
    worse = {name: value > getattr(most, name) for name, value in figures.items() if name != "held"}
    return [name for name, is_worse in worse.items() if is_worse] + ["held"] * (figures["held"] < most.held)


def test_default_answers_are_within_their_margins(judged: dict[str, Judged]) -> None:
    found = summary(judged[name] for name in SAMPLE)
    assert failed(found, WITHIN) == [], found


def test_margins_tell_what_lies_beyond_them(judged: dict[str, Judged]) -> None:
    found = summary(judged[name] for name in SAMPLE)
    impossible = Margins(error=0, worst_error=0, width=0, worst_width=0, held=1.01, bad_ledgers=-1)
    assert sorted(failed(found, impossible)) == sorted(Margins.__slots__)


@pytest.mark.parametrize("name", KNOWN)
def test_what_was_wrong_once_is_within_its_margins(name: str, judged: dict[str, Judged]) -> None:
    most, least = KNOWN[name]
    figures = judged[name].figures
    errors = {f"{f.sql} {f.column}": f.error for f in figures if f.error is not None}
    assert errors and max(errors.values()) <= most, errors
    held = summary([judged[name]]).held
    assert held is None or held >= least
