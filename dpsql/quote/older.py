"""Limits that were chosen before, which the ledger keeps beside their release: a repeat is answered from that release.

What is chosen now may differ: other histograms are stored by now, or ε is another one. A release that left with limits
of an older choice answers all the same, and for nothing (Theorems LIMITS-1, "Repeats", and FREE-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from math import log
from typing import Any

from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy, ReleaseFacts
from dpsql.analyze.bounding import Limits, SizeLimit, Typical
from dpsql.analyze.checked import CheckedRelease
from dpsql.core.frozen import dataclass
from dpsql.quote.model import Ask, Released, Stage
from dpsql.statistics.choices import CHOSEN
from dpsql.statistics.strategy import Linear

SAME = 1e-6  # of logarithms: noise that differs by less is equal
TRIES = 200  # older choices that are tried for one query, the newest first


@dataclass(frozen=True, slots=True)
class Chosen:
    """The limits of a release that was stored, as they were enforced, and the ε that its stage had for all of it."""

    epsilon: Fraction
    rows: int | None
    peak: int | None
    groups: int | None
    values: int | None
    size: SizeLimit | None
    typical: Typical | None

    def limits(self, checked: CheckedRelease, limits: Limits) -> Limits | None:
        """These in the place of all limits that are to be chosen for a release; None where they don't fit there.

        checked: the release with fixed limits. Whatever somebody named stays as it is, and the steward's word for the
        most that a limit may be holds.
        """
        found: dict[str, Any] = {"typical": self.typical}
        if "max_groups" in checked.bounding.chosen:
            found["max_groups"] = self.groups
        if "max_rows" in checked.bounding.chosen:
            found |= {"size": self.size, "max_values": self.values}
            if self.size is None:
                found["max_rows"] = self.rows
            peaks = checked.private_keys and checked.bounding.cap is not None
            if peaks and (limits.max_rows_per_group is None or limits.most("max_rows_per_group") is not None):
                found["max_rows_per_group"] = self.peak or self.rows
        for name in ("max_rows", "max_rows_per_group", "max_groups"):
            most = limits.most(name)
            if name in found and (found[name] is None or (most is not None and found[name] > most)):
                return None
        most = limits.most("max_rows")
        if most is not None and found.get("max_values") is not None and found["max_values"] > most:
            return None
        if self.size is not None and most is not None:
            return None  # a size bounds no rows
        return replace(limits, **found)


Place = tuple[int, int]
"""A release that needs limits: its statement's place, and its own among the statement's."""


def choices(kept: Sequence[tuple[Place, Sequence[tuple[str, Chosen]]]]) -> Iterator[dict[Place, Chosen]]:
    """Limits for all releases that need some: all that are of one spend together, the newest first; others where that
    has none.

    kept: of each release what was kept, the newest first, each with the id of its spend.
    """
    if any(not found for _, found in kept):
        return
    ids = dict.fromkeys(id for _, found in kept for id, _ in found)
    of_spends = (product(*(_of_spend(found, id) for _, found in kept)) for id in ids)
    every = dict.fromkeys(one for several in of_spends for one in islice(several, TRIES))
    for chosen in islice(every, TRIES):
        yield {place: one for (place, _), one in zip(kept, chosen, strict=True)}


def _of_spend(found: Sequence[tuple[str, Chosen]], id: str) -> list[Chosen]:
    """What a spend chose for a release; the newest of another one's, where it measured no such release."""
    return [one for spend, one in found if spend == id] or [found[0][1]]


def noise_beside(released: Released, stage: Stage) -> float:
    """How much noise stored tables have beside what a stage with the same limits would buy, as a mean logarithm.

    Limits trade noise for what they cut: noise alone would prefer the limits that cut the most.
    """
    tables = [one.step for one in released.noisy if isinstance(one, Noisy)]
    ratios = [
        log(had / asked)
        for left, step in zip(tables, stage.releases, strict=True)
        for had, asked in zip(
            _variances(left, [Fraction(m.noise.variance) for m in left.measurements]),
            _variances(step, [Fraction((m.in_rows(step.bits) or m.noise).variance) for m in step.measurements]),
            strict=True,
        )
        if had and asked
    ]
    return sum(ratios) / max(1, len(ratios))


def least_noise(had: Ask, asked: Ask) -> float:
    """About the least that `noise_beside` says of a release for so much, beside one for what is asked."""
    return 2 * log(asked.pure / had.pure) + SAME


def _variances(step: ReleaseFacts, drawn: Sequence[Fraction]) -> Iterator[Fraction]:
    """The variances of the aggregates of a table, given those of its noise."""
    for call in step.calls:
        recipe = RECIPES[call.function]
        for contrast in recipe.contrasts(call):
            if not any(q.kind in CHOSEN for q in contrast):
                yield Linear.combine((step.estimates[q], weight) for q, weight in contrast.items()).variance(drawn)
        for need in recipe.needs(call):
            if need.kind in CHOSEN:
                ((place, _), _) = step.estimates[need].terms[0]
                yield drawn[place]
