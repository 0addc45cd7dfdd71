"""What limits and ranges cut of a release, as far as released counts of units tell it (Theorem CUT-1)."""

from __future__ import annotations

from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What a limit cuts, as a share of what it leaves."""

    about: float
    most: float  # with the noise of the counts, and a tail beyond the last of them that can be told from noise
    lumps: float  # what one unit that is cut loses, on average over what is lost
    kept: float  # about what is left, in rows or groups


@dataclass(frozen=True, slots=True)
class Outside:
    """Units with a value outside of a range."""

    aggregate: int  # of the noisy table's
    place: int  # 0: its value; 1: the other one of a pair
    about: float
    most: float


@dataclass(frozen=True, slots=True)
class OfTotal:
    """What a limit on one unit's total cuts of a sum."""

    aggregate: int  # of the noisy table's
    share: Share


@dataclass(frozen=True, slots=True)
class Loss:
    """What a release loses: rows, units that are counted in each group, and values beyond their ranges.

    None, and a range that isn't there: nothing is cut, or what is isn't known.
    """

    rows: Share | None = None
    units: Share | None = None
    outside: tuple[Outside, ...] = ()
    keyed: bool = False  # is it shared out over groups?
    totals: tuple[OfTotal, ...] = ()  # of sums that limits on rows don't cut

    @property
    def cuts(self) -> bool:
        """Is anything known to be cut, or may it be by what is known?"""
        shares = [self.rows, self.units, *(total.share for total in self.totals)]
        return bool(self.outside) or any(share is not None and share.most > 0 for share in shares)

    def of(self, aggregates: tuple[int, ...]) -> Loss:
        """The same for some of the aggregates, in this order."""
        found = [
            Outside(i, one.place, one.about, one.most)
            for i, wanted in enumerate(aggregates)
            for one in self.outside
            if one.aggregate == wanted
        ]
        totals = [
            OfTotal(i, one.share)
            for i, wanted in enumerate(aggregates)
            for one in self.totals
            if one.aggregate == wanted
        ]
        return Loss(self.rows, self.units, tuple(found), self.keyed, tuple(totals))
