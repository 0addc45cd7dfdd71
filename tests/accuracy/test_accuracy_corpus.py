"""A sample of the corpus with noise from a seed: default answers are no worse than their margins.

`python -m tests.accuracy.judge` measures all of it. `judge.GOAL` is what answers have to be over all of it; the margins
here are wide, because the sample is small.
"""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def judged() -> dict[str, Judged]:
    cases = [case for case in CASES if case.name in SAMPLE]
    assert len(cases) == len(SAMPLE)
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
