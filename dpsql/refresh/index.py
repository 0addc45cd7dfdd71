"""index: find heavy units once for the data as they are now, so that queries needn't (Theorem INDEX-1).

Trusted: it reads rows, what it writes names people, and what it says is not private.
"""

from __future__ import annotations

from pathlib import Path

from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass
from dpsql.engine import Shared
from dpsql.plan.build import scan_of
from dpsql.policy.model import Policy
from dpsql.quote.indexed import Owned

ABOVE = 10
"""Units with more rows are listed, unless the policy has a smaller limit: then those above that."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What was found: from how many rows on units are listed, and of each table how many are; and the file."""

    file: Path | None  # None: the ledger is in memory, and so is the index
    above: int
    tables: tuple[tuple[str, int | None], ...]  # None: no index lists them

    def __str__(self) -> str:
        lines = [] if self.file is None else [f"{'written':<9} {self.file}"]
        lines.append(f"{'serves':<9} limits of {self.above:,} rows and more")
        for name, units in self.tables:
            what = "not indexed: only units that are whole numbers or text are, and on Spark no more than a million"
            counted = what if units is None else ""
            listed = f"{units:,} unit{'' if units == 1 else 's'} with more than {self.above:,} rows"
            lines.append(f"{'table':<9} {name}: {counted or listed}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The same for programs."""
        return {"file": None if self.file is None else str(self.file), "above": self.above, "tables": dict(self.tables)}


def index(engine: Shared, above: int | None = None) -> Indexed:
    """Look for heavy units in every table that has units, keep them, and write them beside the ledger."""
    data = engine.data()
    indexing = engine.indexing(data)
    rows = _above(engine.policy) if above is None else above
    owned = dict(_owned(engine))
    with engine.backend.measuring(None) as measuring:
        found = {name: indexing.look_for(of, rows, measuring) for name, of in owned.items()}
    if engine.data() != data:
        raise DataError(
            "the data changed while they were read, and no index was made",
            code="data-changed",
            hint="wait until whatever writes them is done, then run this again",
        )
    file = indexing.keep(write=True)
    return Indexed(file, rows, tuple((name, None if h is None else h.units.num_rows) for name, h in found.items()))


def _above(policy: Policy) -> int:
    """A small number, no larger than any limit that the policy names."""
    limits = policy.privacy
    named = [limits.max_rows, limits.max_rows_per_group, *(t.rows_per_unit for t in policy.tables.values())]
    return min([ABOVE, *(limit for limit in named if isinstance(limit, int))])


def _owned(engine: Shared) -> list[tuple[str, Owned]]:
    """The tables whose rows have units, by their names as the policy writes them."""
    found = []
    for one in engine.guarded:
        columns = tuple((name.lower(), name) for name, _ in engine.schema[one.name])
        of = Owned.by(scan_of(engine.policy, one.table, columns))
        found += [] if of is None else [(one.table.name, of)]
    return found
