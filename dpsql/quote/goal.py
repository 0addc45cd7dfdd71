"""Accuracy first: from an error that is good enough to the least ε that reaches it, from the noise alone.

An accuracy is an absolute error, or a share of a value's declared range; never of the answer, which would be a question
to the data. It is for every cell of every output at once, and speaks of the noise: not of clipping or of limits.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import lcm
from typing import Any

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call
from dpsql.aggregates.present import COLUMN
from dpsql.analyze.checked import Argument
from dpsql.bounds.bias import bias_of
from dpsql.bounds.promised import reach_of_cut
from dpsql.core.cost import show_rounded
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.error import half_width
from dpsql.plan.google import interval_of
from dpsql.policy.reader import exact_decimal
from dpsql.quote.lineage import call_text, kind_of, lineage, written
from dpsql.quote.model import Quote, Step
from dpsql.statistics.top import Top

CONFIDENCE = 0.95
LEAST_CONFIDENCE = 0.01
_DIGITS = 4  # of the ε that is found
_PLACES = 18 * 9 * 10 ** (_DIGITS - 1)  # as many ε of four digits there are from 10⁻⁶ on
_SHARE = re.compile(r"\s*([0-9.]+)\s*%\s*of\s+range\s*", re.IGNORECASE)

Price = Callable[[Fraction], Quote]


@dataclass(frozen=True, slots=True)
class Goal:
    """An error that no cell may exceed, with this confidence; share: of the range of the value that is summed."""

    error: Fraction
    share: bool
    confidence: float

    @classmethod
    def parse(cls, accuracy: object, confidence: object) -> Goal | None:
        """What was asked for; None where nothing was."""
        if accuracy is None:
            if confidence is not None:
                raise PrivacyError(
                    "confidence goes with accuracy",
                    code="accuracy",
                    hint="for instance --accuracy 100 --confidence 0.9",
                )
            return None
        share = _SHARE.fullmatch(accuracy) if isinstance(accuracy, str) else None
        number = accuracy if isinstance(accuracy, Fraction) else exact_decimal(share[1] if share else accuracy)
        if number is None or number <= 0:
            raise PrivacyError(
                f"accuracy is an error that is good enough: a positive number or a share of a range, not {accuracy!r}",
                code="accuracy",
                hint='for instance 100, or "1% of range"; a share of the answer would depend on the data',
            )
        level = CONFIDENCE if confidence is None else confidence
        if isinstance(level, bool) or not isinstance(level, int | float) or not LEAST_CONFIDENCE <= level < 1:
            raise PrivacyError(
                f"confidence lies between {LEAST_CONFIDENCE} and 1, not {level!r}",
                code="accuracy",
                hint="for instance 0.95",
            )
        error = Fraction(number)
        return cls(error / 100 if share else error, share is not None, float(level))

    def least(self, price: Price, most: Fraction) -> Quote:
        """The quote with the least ε, up to `most`, at which every output is accurate enough."""
        best = price(most)
        if not self._reached(best):
            raise self._unreachable(best, most)
        low, high = -1, _PLACES
        while high - low > 1:
            middle = (low + high) // 2
            epsilon = _place(middle)
            if epsilon < most and not self._reached(quote := price(epsilon)):
                low = middle
                continue
            best, high = (quote if epsilon < most else best), middle
        return best

    def loosest(self, quote: Quote) -> Fraction:
        """The accuracy, in the goal's own terms, that this quote has."""
        return max(
            (Fraction(width) / (_range(argument) if self.share else 1) for _, argument, width in self._widths(quote)),
            default=Fraction(0),
        )

    def offer(self, price: Price, most: Fraction) -> str | None:
        """The accuracy that this ε can pay for; None where it pays for none. Asking for it costs no more than that."""
        places = bisect_right(range(_PLACES), most, key=_place)  # `least` finds an ε of four digits, never one between
        return self.show(self.loosest(price(_place(places - 1)))) if places else None

    def show(self, error: Fraction) -> str:
        """An error in the goal's own terms, rounded up: what is offered can be had."""
        text = show_rounded(error * 100 if self.share else error, up=True, digits=4)
        return f"{text}% of range" if self.share else text

    def _reached(self, quote: Quote) -> bool:
        return self.loosest(quote) <= self.error

    def _widths(self, quote: Quote) -> Iterator[tuple[str, Argument, float]]:
        """Each output's error: all its cells at once where it is known how many there are, else each by itself."""
        steps = {step.name: step for step in quote.steps}
        if any(isinstance(m.statistic, Top) for step in quote.steps for m in step.measurements):
            raise _cannot("the winners", "which groups win depends on how far apart they are")
        listed = any(a.recipe.tells_presence for step in quote.steps for a in step.checked.arguments)
        if listed and not any(a.recipe.one_number for step in quote.steps for a in step.checked.arguments):
            raise _cannot("the list of groups", "how small a group is missed hangs on ε")
        responses = {step.name for step in quote.responses}
        found = lineage(quote.plan.post, {*steps, *responses})
        for (name, _), (places, unchanged) in zip(quote.result, found, strict=True):
            kind = kind_of((places, unchanged), responses)
            if kind in ("key", "public"):
                continue
            if quote.responses:
                raise _cannot(name, "the error of randomised rows depends on how many there are")
            order = sorted(places, key=lambda p: (list(steps).index(p[0]), p[1]))
            if kind != "aggregate":
                raise _cannot(name, f"it is computed from {', '.join(_text(steps[r], c) for r, c in order)}")
            release, column = order[0]
            step, index = steps[release], int(column[1:])
            argument, call = step.checked.arguments[index], step.calls[index]
            if not argument.recipe.one_number:
                raise _cannot(name, f"the error of {call.function} depends on how many rows there are")
            if self.share and (argument.value is None or argument.recipe.counted):
                raise _cannot(name, "a count has no declared range", "give an absolute accuracy: 100")
            width = _width(step, call, self.confidence)
            # With stored counts, what limits may cut is part of it; a larger ε makes that no smaller.
            cut = reach_of_cut(bias_of(step.checked, quote.counts), call, index, width, self.confidence)
            yield name, argument, width + max(cut)

    def _unreachable(self, quote: Quote, most: Fraction) -> PrivacyError:
        column, _, _ = max(self._widths(quote), key=lambda found: found[2])
        return PrivacyError(
            f"no ε that one query may spend makes {column} accurate to {self.show(self.error)} "
            f"with {self.confidence:.0%} confidence",
            code="accuracy",
            hint=f"at ε = {float(most):g}, the most there is, it is accurate to {self.show(self.loosest(quote))}; "
            "ask for that, for fewer groups, or with lower limits",
        )


def _width(step: Step, call: Call, confidence: float) -> float:
    """How far an aggregate that is linear in the noise can be off, and half a unit where it is rounded."""
    recipe = RECIPES[call.function]
    (quantity,) = recipe.needs(call)
    terms = step.estimates[quantity].terms
    if not terms:
        return 0.0
    noises: list[tuple[Any, Any]] = [(float(w), step.measurements[place[0]].noise) for place, w in terms]
    width = float(half_width(noises, confidence, max(1, step.count or 1)))
    whole = recipe.counted or (call.type is not None and (call.type.is_integer or call.type.is_boolean))
    rounded = whole and lcm(*(w.denominator for _, w in terms)) > 1
    return width + 0.5 if rounded else width


def _text(step: Step, column: str) -> str:
    """A column of a release as the query writes it."""
    release = step.checked.release
    if (end := interval_of(column)) is not None:
        return f"DP_INTERVAL_{end[1].upper()}({call_text(release.aggregates[end[0]])})"
    if column == COLUMN:
        return next(call_text(a) for a in release.aggregates if a.recipe is not None and a.recipe.tells_presence)
    index = int(column[1:])
    return written(release.keys[index]) if column.startswith("k") else call_text(release.aggregates[index])


def _range(argument: Argument) -> Fraction:
    assert argument.value is not None
    low, high = argument.value.range.low, argument.value.range.high
    assert isinstance(low, Fraction) and isinstance(high, Fraction)
    return high - low or Fraction(1)


def _place(index: int) -> Fraction:
    """The ε of four digits at this place of their order: 0.000001, 0.000001001, …"""
    power, digits = divmod(index, 9 * 10 ** (_DIGITS - 1))
    return Fraction((10 ** (_DIGITS - 1) + digits) * 10**power, 10 ** (6 + _DIGITS - 1))


def _cannot(column: str, why: str, hint: str | None = None) -> PrivacyError:
    return PrivacyError(
        f"the accuracy of {column} can't be promised from the noise alone: {why}",
        code="accuracy",
        hint=hint or "ask with epsilon= instead, or for SUM and COUNT by themselves; dpsql price shows what to expect",
    )
