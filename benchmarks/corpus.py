"""Default answers on the corpus of shapes (tests/accuracy): how far off, how wide, and how often intervals hold."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from accuracy.judge import as_json, judge, line, noted, selected, summary

EPSILONS = (0.1, 0.3, 1.0, 3.0)
REPEATS = 4
"""New ledgers for each question at each epsilon."""
QUICK = "tiny"
"""The case that a quick run takes, once."""


def measured(only: set[str], quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """All figures of both sets, or of the cases that are named. Nothing where only other names are."""
    cases = [case for case in selected("all") if case.name in (only or ({QUICK} if quick else {case.name}))]
    judged = []
    epsilons: Sequence[float] = (1.0,) if quick else EPSILONS
    for case in cases:
        judged.append(judge(case, epsilons, 1 if quick else REPEATS))
        say(line(case.name, summary(judged[-1:]), noted(judged[-1])))
    return as_json(judged) if judged else {}
