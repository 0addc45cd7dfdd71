"""Which limits bound one unit's contribution, and which of them must be enforced at run time.

Rows per unit and groups per unit are two separate facts. Only a step whose bound is proved is left out; a bound that is
needed and missing is refused, and then chosen by a stage of the query where that can be (quote/limits.py).
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from sqlglot import exp

from dpsql.analyze.ownership import Ownership
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution
from dpsql.sql.google import Bounds
from dpsql.sql.refuse import Place, refuse


@dataclass(frozen=True, slots=True)
class SumScale:
    """How much of one sum counts as one row in a unit's size (Theorem SIZE-1)."""

    argument: exp.Expr
    where: exp.Expr | None
    clipped: Bounds | None  # the query's own bounds on its values (contribution_bounds_per_row)
    unit: Fraction  # Σ|x| of this much weighs as one row


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The most that one unit's rows may add up to: rows counted, plus Σ|x|/unit of each sum.

    Rows are counted once for each FILTER under which there is a number of rows, of values or an average, and once more
    where they lack one of several of these. A lone sum counts no rows.
    """

    most: Fraction  # in rows
    scales: tuple[SumScale, ...]


@dataclass(frozen=True, slots=True)
class Typical:
    """What released histograms tell of units under the limits that were chosen, by which noise is shared out.

    groups: which part of units' groups the cap leaves; rows: which part of their rows is left in those; rows_per_group:
    about how many of those a unit has in a group; vote: the mean of 1/√t over the groups that are left, t of a unit.
    """

    groups: float
    rows: float
    rows_per_group: float
    vote: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What the policy or the call allows one unit; None: no such limit."""

    max_rows: int | None = None
    max_rows_per_group: int | None = None
    max_groups: int | None = None
    min_units: int | None = None
    public_keys: bool = False  # the query wants no key to be selected privately
    chosen: frozenset[str] = frozenset()  # those of them that nobody named: the query's first stage chooses them
    size: SizeLimit | None = None  # in the place of max_rows, where that is chosen
    ends: tuple[tuple[str, int], ...] = ()  # of those that are chosen: how large the steward lets each of them be
    typical: Typical | None = None  # where they were chosen, and keys are private
    max_values: int | None = None  # different values of one unit, where that is chosen: else it is max_rows
    one_vote: bool = False  # of a histogram (AUTO-2): max_rows is a unit's vote, and tells nothing of its rows

    def most(self, name: str) -> int | None:
        """How large a limit that is chosen may be."""
        return dict(self.ends).get(name)


@dataclass(frozen=True, slots=True)
class PerGroup:
    """Something that is taken per unit and group, so that it needs a bound on one unit's groups.

    Where it stands, why it is so, and another way out, if there is one.
    """

    place: Place
    why: str
    way: str | None = None


@dataclass(frozen=True, slots=True)
class Bounding:
    """What is enforced at run time (None: needless), and one unit's contribution with it."""

    mass: int | None
    peak: int | None
    cap: int | None
    contribution: Contribution
    chosen: frozenset[str] = frozenset()  # which of these limits nobody named
    size: SizeLimit | None = None  # in the place of the mass: all that weighs rows rests on one weight of each unit
    typical: Typical | None = None
    values: int | None = None  # different values of one unit that count; None: as many as rows (Theorem DISTINCT-1)

    @property
    def rows(self) -> Fraction | None:
        """How many rows one unit counts for, at most: its mass, or its size in rows; None: no row is weighed."""
        return self.contribution.mass if self.size is None else self.size.most

    @property
    def weighted(self) -> bool:
        """Do rows have weights?"""
        return self.mass is not None or self.peak is not None or self.size is not None

    @property
    def enforced(self) -> bool:
        """Is anything enforced at run time?"""
        return self.weighted or self.cap is not None

    def of_chosen(self, names: frozenset[str], typical: Typical | None) -> Bounding:
        """The bounding of limits of which nobody named these."""
        return dataclasses.replace(self, chosen=names, typical=typical) if names else self


def bound(
    owner: Ownership,
    limits: Limits,
    *,
    keyed: bool,
    own_keys: bool,
    rows_counted: bool,
    units_counted: PerGroup | None,
    replace: bool,
    table: Place,
) -> Bounding:
    """Bound what is measured: rows (counts and sums), units per group, or both.

    own_keys: the keys are functions of the unit alone, so that a unit is in one group. table: as the query names it.
    Where a size is limited (ask may_have_size), it bounds all that weighs rows, and rows_counted is False.
    """
    found = _bound(owner, limits, keyed, own_keys, rows_counted, units_counted, replace, table)
    found = dataclasses.replace(found, size=limits.size)
    if found.mass is not None and found.peak is None:  # where rows are proved, so are their values
        found = dataclasses.replace(found, values=limits.max_values)
    enforced = {"max_rows": found.mass if limits.size is None else 0, "max_groups": found.cap}
    names = frozenset(n for n, limit in enforced.items() if limit is not None and n in limits.chosen)
    return found.of_chosen(names, limits.typical)


def _bound(
    owner: Ownership,
    limits: Limits,
    keyed: bool,
    own_keys: bool,
    rows_counted: bool,
    units_counted: PerGroup | None,
    replace: bool,
    table: Place,
) -> Bounding:
    if owner.unit is None and owner.rows != 1:
        _check_nameless(owner, units_counted, table)
    groups, cap = _groups(owner, limits, keyed, own_keys, units_counted)
    if not rows_counted:
        return Bounding(None, None, cap, Contribution(None, None, groups, keyed, replace))
    mass, enforced = _mass(owner, limits, table)
    peak, peak_enforced = mass, None
    per_group = limits.max_rows_per_group
    if per_group is not None and per_group < mass and owner.unit is not None:  # rows without a name can't be told apart
        if keyed and not own_keys:
            peak = peak_enforced = per_group
        else:  # one group: its peak is the mass
            mass = peak = enforced = per_group
    whole = Contribution(Fraction(mass), Fraction(peak), groups, keyed, replace)
    return Bounding(enforced, peak_enforced, cap, whole)


def _groups(
    owner: Ownership, limits: Limits, keyed: bool, own_keys: bool, needed: PerGroup | None
) -> tuple[Fraction | None, int | None]:
    """Groups per unit, and the cap that must be enforced for it."""
    proved = 1 if not keyed or own_keys else owner.rows  # Theorem OWN-2: r rows lie in at most r groups
    if needed is None:
        return (None if proved is None else Fraction(proved)), None
    limit = limits.max_groups
    if proved is not None and (limit is None or proved <= limit or "max_groups" in limits.chosen):
        return Fraction(proved), None
    if limit is None:
        raise refuse(
            PrivacyError,
            f"{needed.why}, and nothing says in how many groups one unit may be",
            needed.place,
            code="needs-max-groups",
            hint="say in how many groups one unit may count: --max-groups 4, max_groups=4, "
            "or [privacy] max_groups = 4 in the policy" + (f"\nor {needed.way}" if needed.way is not None else ""),
        )
    return Fraction(limit), limit


def _mass(owner: Ownership, limits: Limits, table: Place) -> tuple[int, int | None]:
    """Rows per unit, and the limit that must be enforced for it."""
    if owner.unit is None and owner.rows is not None:  # each row is a unit, and no limit is below what is proved
        return owner.rows, None
    # What is chosen for another release of the query is none of this one's, where it needs none.
    needless = "max_rows" in limits.chosen and (owner.rows is not None or owner.promised is not None)
    given = [n for n in (None if needless else limits.max_rows, owner.promised) if n is not None]
    limit = min(given) if given else None
    if owner.rows is not None and (limit is None or owner.rows <= limit):
        return owner.rows, None
    if limit is None:
        raise refuse(
            PrivacyError,
            f"one unit may have any number of rows of {owner.table}",
            table,
            code="needs-max-rows",
            hint="say for how many rows one unit may count: --max-rows 20, max_rows=20, "
            "or [privacy] max_rows = 20 in the policy",
        )
    return limit, limit


def _check_nameless(owner: Ownership, needed: PerGroup | None, table: Place) -> None:
    """Rows that are units of their own and stand there twice: they have no name by which they could be told apart."""
    if needed is not None or owner.rows is None:
        raise refuse(
            PrivacyError,
            f"{needed.why if needed is not None else owner.why}, and rows of {owner.table} that are repeated have no "
            "unit column",
            needed.place if needed is not None else table,
            code="row-unit",
            hint="group by public keys and count rows; or aggregate each side by itself and add the results up",
        )
