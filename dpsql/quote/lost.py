"""How much limits and ranges cut, from released counts of units: post-processing (Theorems CUT-1 and POST-1).

A histogram says how many units have about how many rows or groups, so about how many of those a limit cuts. Beyond the
last bucket that can be told from noise it is taken to hold nobody; for the most that may be cut, to fall off as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log, log2, sqrt

from dpsql.aggregates.loss import Loss, OfTotal, Outside, Share
from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.checked import CheckedRelease
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Release
from dpsql.quote.bounds import counted, scale_of_count
from dpsql.quote.cuts import MOST, Cut, Kind, cuts_of
from dpsql.quote.limits import STRAY
from dpsql.quote.model import Step

CLEAR = 3.0  # noise scales by which the next bucket must be above 0 to be counted, too
SEEN = 3.0  # noise scales above which units outside of a range are more than noise
DOUBT = 2.0  # standard deviations of the counts' noise that are added to what is cut
FALL = 0.35  # beyond the last bucket, each holds at most this share of the one before,
BEYOND = 2  # and so many of them any at all: no unit has more than four times what the last that are counted have
APART = 3.0  # rows that meet conditions on noisy values lose at most so many times the share that all rows lose
FLATTER = 0.25  # at most, numbers in a bucket fall off as slowly as this share of how they seem to

Tables = Mapping[Release, Noisy]
"""The counts of units that were released, by what they count."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What is known of one limit or range that may cut something; None: nothing is."""

    cut: Cut
    share: Share | None = None  # of a limit
    units: tuple[float, float] | None = None  # of a range: with a value outside, about and at most

    @property
    def known(self) -> bool:
        return self.share is not None or self.units is not None


def found_of(one: CheckedRelease, tables: Tables) -> Iterator[Found]:
    """What released counts tell of each limit and range of a release."""
    for cut in cuts_of(one):
        noisy = None if cut.histogram is None else tables.get(cut.histogram)
        if noisy is None:
            yield Found(cut)
        elif cut.kind == "outside":
            yield Found(cut, units=_outside(noisy))
        else:
            share = share_of(noisy, cut.limit, cut.first)
            if share is not None and cut.before:
                share = replace(share, most=APART * share.most)
            yield Found(cut, share=share)


def loss_of(one: CheckedRelease, tables: Tables) -> Loss:
    """What a release loses, as far as that is known."""
    found = list(found_of(one, tables))
    own: tuple[Kind, ...] = ("total", "peak")
    shares: dict[Kind, Share] = {f.cut.kind: f.share for f in found if f.share is not None and f.cut.kind not in own}
    totals = list(_of_totals([f for f in found if f.cut.kind in own]))
    outside = [Outside(f.cut.aggregate, f.cut.place, *f.units) for f in found if f.units is not None and f.units[1] > 0]
    rows = _together([shares[kind] for kind in ("rows", "largest", "groups") if kind in shares])
    return Loss(rows, shares.get("groups"), tuple(outside), bool(one.release.keys), tuple(totals))


def _of_totals(found: Sequence[Found]) -> Iterator[OfTotal]:
    """What is lost of each sum by limits of its own."""
    for aggregate in dict.fromkeys(f.cut.aggregate for f in found):
        shares = [f.share for f in found if f.cut.aggregate == aggregate and f.share is not None]
        if (share := _together(shares)) is not None:
            yield OfTotal(aggregate, share)


def _together(shares: Sequence[Share]) -> Share | None:
    """Rows that are left by one limit are cut by the next one."""
    if not shares:
        return None
    about, most = 1.0, 1.0
    for one in shares:
        about, most = about * (1 + one.about), most * (1 + one.most)
    return Share(about - 1, most - 1, max(s.lumps for s in shares), shares[0].kept)


# ---------------------------------------------------------------- a range


def _outside(noisy: Noisy) -> tuple[float, float]:
    """About how many units have a value outside, and at most; nobody, where that may be noise alone."""
    counts, scale = noisy.estimate(counted(noisy)), float(scale_of_count(noisy))
    units = float(counts.floats[0])
    return (units, units + DOUBT * sqrt(2) * scale) if units > SEEN * scale else (0.0, 0.0)


# ---------------------------------------------------------------- a limit


def share_of(noisy: Noisy, limit: float, first: int = 0) -> Share | None:
    """What a limit cuts of what units have; None where no bucket can be told from noise.

    first: what they have is counted in units of 2^first.
    """
    counts, scale = noisy.estimate(counted(noisy)).floats, float(scale_of_count(noisy))
    units = {b: float(n) for b, n in zip(noisy.cells.column(0).to_pylist(), counts, strict=True) if b is not None}
    found = shared(units, scale, limit / 2.0**first)
    return None if found is None else replace(found, lumps=found.lumps * 2.0**first, kept=found.kept * 2.0**first)


def shared(units: Mapping[int, float], scale: float, limit: float) -> Share | None:
    """What a limit cuts, by how many units each bucket holds, with noise of this scale."""
    last = _last(units, scale)
    if last is None:
        return None
    told = {b: max(0.0, n) for b, n in units.items() if b <= last}
    falls = {b: _fall(units, b, scale) for b in told}
    has = {b: _has(b, limit, falls[b]) for b in told}
    whole = sum(n * has[b][0] for b, n in told.items())
    lost = sum(n * has[b][1] for b, n in told.items())
    kept = max(whole - lost, 1.0)
    flatter = {b: _has(b, limit, falls[b] * FLATTER)[1] for b in told}
    doubt = DOUBT * sqrt(2) * scale * sqrt(sum(excess**2 for excess in flatter.values()))
    tail = dict(_tail(units, last, scale))
    flatter |= {b: _has(b, limit, 1.0)[1] for b in tail}
    all_ = told | tail
    most = sum(n * flatter[b] for b, n in all_.items()) + doubt
    squares = sum(n * flatter[b] ** 2 for b, n in all_.items())
    return Share(lost / kept, most / kept, squares / most if most else 0.0, kept)


def _last(units: Mapping[int, float], scale: float) -> int | None:
    """The last bucket that noise alone doesn't explain (Theorem LIMITS-1), and those after it that are clear of it."""
    least = scale * log(len(units) / (2 * STRAY))
    last = max((b for b, n in units.items() if n > least), default=None)
    while last is not None and units.get(last + 1, 0.0) > CLEAR * scale:
        last += 1
    return last


def _tail(units: Mapping[int, float], last: int, scale: float) -> Iterator[tuple[int, float]]:
    """How many units may be in the next buckets: they fall off as the last ones do, and aren't far above the noise."""
    before, count = max(units.get(last - 1, 0.0), scale / 2), units[last] + scale
    fall = min(count / before, FALL)  # heavy tails are straight lines here: they don't fall off faster and faster
    for bucket in range(last + 1, min(last + BEYOND, MOST) + 1):
        count = min(count * fall, max(units.get(bucket, 0.0), 0.0) + DOUBT * scale)
        yield bucket, count


def _fall(units: Mapping[int, float], bucket: int, scale: float) -> float:
    """How numbers fall off within a bucket, as a power of them: by how many units lie before it and behind."""
    if bucket < 2:
        return 0.0
    before, behind = (max(units.get(b, 0.0), scale / 2) / 2.0**b for b in (bucket - 1, bucket + 1))
    return min(6.0, max(0.0, log2(before / behind) / 2))


POINTS = 64


def _has(bucket: int, limit: float, fall: float) -> tuple[float, float]:
    """What a unit of a bucket has on average, and what of it is beyond a limit, where numbers fall off like this."""
    if bucket == 0:
        return 1.0, max(0.0, 1.0 - limit)
    places = [1 + (i + 0.5) / POINTS for i in range(POINTS)]  # between the bucket's ends, the first of which is 1
    weights = [place**-fall for place in places]
    low, whole = 2.0 ** (bucket - 1), sum(weights)
    mean = low * sum(w * p for w, p in zip(weights, places, strict=True)) / whole
    excess = sum(w * max(0.0, low * p - limit) for w, p in zip(weights, places, strict=True)) / whole
    return mean, excess


# ---------------------------------------------------------------- in words


def lines(found: Sequence[Found]) -> list[str]:
    """For people: what each limit and range cuts, about."""
    said, unknown = [], []
    for one in found:
        if one.share is not None:
            things = {"groups": "the groups", "total": "that sum", "peak": "that sum"}.get(one.cut.kind, "the rows")
            which = " that there are before conditions on noisy values" if one.cut.before else ""
            said.append(f"{one.cut.text} cuts {_part(one.share.about)} of {things}{which}")
        elif one.units is not None:
            about = f"about {one.units[0]:,.0f}" if one.units[0] else "hardly any"
            said.append(f"{about} units have a value outside of {one.cut.text}")
        else:
            unknown.append(one.cut.text)
    few = [*unknown[:3], *([f"{len(unknown) - 3} more"] if len(unknown) > 3 else [])]
    return said + ([f"not known, and not in ±, is what these cut: {', '.join(few)}"] if few else [])


def _part(share: float) -> str:
    """A share of what is left as one of the whole."""
    lost = share / (1 + share)
    return "next to nothing" if lost < 0.00005 else f"about {lost:.{1 if lost >= 0.001 else 2}%}"


def found_in(steps: Sequence[Step], tables: Tables) -> list[Found]:
    """What is known of all limits and ranges of some steps, each once."""
    found = [f for step in steps for f in found_of(step.checked, tables)]
    return list({f.cut.histogram or f.cut.text: f for f in reversed(found)}.values())[::-1]
