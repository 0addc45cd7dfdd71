"""What is to be said of an answer besides its values: one list, from which every way of showing an answer takes it."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, isfinite

from dpsql.aggregates import RECIPES
from dpsql.answer.model import Answer
from dpsql.answer.render import cut_lines, range_lines
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.statistics.choices import CHOSEN


def notes_of(answer: Answer) -> tuple[str, ...]:
    """A line each, none of them twice: what it leaves out, how values were chosen, what ranges and limits did to it."""
    found = [*answer.left_out, *answer.lists, *_chosen(answer)]
    found += [f"{name}: {_off(off)}" for name, off in answer.ranks.items()]
    found += answer.advice
    found += [f"{name} has no interval: {why}" for name, why in answer.missing.items()]
    found += [*range_lines(answer), *cut_lines(answer)]
    if answer.receipt.untested:
        found.append(f"measured by {answer.receipt.untested}, which dpsql was not tested with")
    return tuple(dict.fromkeys(found))


def _chosen(answer: Answer) -> Iterator[str]:
    """What is special about aggregates that have a note, and that of winners only the keys left."""
    for step in (one.step for one in answer.noisy):
        noted = {call.function: note for call in step.calls if (note := RECIPES[call.function].note) is not None}
        for note in dict.fromkeys(noted.values()):
            yield f"{' and '.join(sorted(name for name in noted if noted[name] == note))}: {note}"
        noises = [m.noise for m in step.measurements]
        scores = [place for q, e in step.estimates.items() if q.kind not in CHOSEN for place, _ in e.terms]
        if any(isinstance(noises[place[0]], NoisyMax) for place in scores):
            yield "the winners were chosen: the counts or sums behind them were not released"


def _off(off: float) -> str:
    """How many rows values that were chosen are off, in words. Limits of which too little is known may cut any."""
    if not isfinite(off):
        return "too little is known of what limits cut to say how many rows it is from the exact one"
    return f"at most {_rows(off)} from the exact one, in each row with 95%"


def _rows(off: float) -> str:
    """A number of rows, in words."""
    return f"{ceil(off):,} rows" if ceil(off) != 1 else "1 row"
