"""Indexes of heavy units: kept in memory by an engine, and in a file beside the ledger that a steward had written.

    <ledger>.index    the first line says what it is; then a tag under the ledger's key, of all that follows; then a
                      line of JSON, and for each table an Arrow stream of units and how many rows they have

One missing unit breaks what limits promise (Theorem INDEX-1). So nothing of a file is believed that isn't as it was
written by somebody with the ledger's key, and an index speaks of one version of the data, read by one version of the
engine. It names people: its owner alone may read it. A file that is anything else is as good as none.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from dpsql.accounting import durable
from dpsql.accounting.keys import DIGEST_BYTES, owners_of
from dpsql.accounting.ledger import Ledger
from dpsql.backends.base import Measuring
from dpsql.backends.listed import HeavyUnits, listed_for
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Expr, Link
from dpsql.quote.indexed import Need, Owned, UnitsTable, units_table
from dpsql.quote.model import AnyStep, Step
from dpsql.store.archive import from_bytes, to_bytes

FIRST = b"dpsql index 1\n"
PURPOSE = "index"
LARGE = 4 << 20
"""Bytes of a source from which on an engine looks for heavy units by itself; nothing but time hangs on it."""
MANY = 64
"""How many lists an engine keeps: each is of some megabytes, and analysts choose the keys of groups."""
Counted = tuple[Owned, tuple[Expr, ...]]
TOTALS = 8
"""How many aggregates of before a table of units keeps: analysts choose them, and each is one number for each unit."""
SHARED = 0o077
"""What the file's mode must not grant: anything to anybody else."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An index, and the version of the data (and of whatever reads them) that it speaks of."""

    heavy: HeavyUnits
    to: str


class UnitIndexes:
    """The indexes that an engine knows. Thread-safe."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.file = None if ledger.path is None else Path(f"{ledger.path}.index")
        self._kept: dict[Counted, Bound] = {}
        self._read: dict[Counted, Bound] = {}
        self._missed: Counter[Counted] = Counter()
        self._unlisted: dict[Counted, int] = {}  # of what no list was made, and down to how many rows
        self._uncounted: set[Owned] = set()  # of whose units no table was made
        self._seen: object = None  # the file that was read last
        self._lock = Lock()

    def find(self, need: Need, to: str) -> HeavyUnits | None:
        """An index that serves this need of exactly these data; None: there is none."""
        with self._lock:
            self._look()
            found = [known.get(need.counted) for known in (self._kept, self._read)]
        # Theorem INDEX-1: of other data it says nothing.
        fit = [one.heavy for one in found if one is not None and one.to == to and one.heavy.serves(need)]
        return fit[0] if fit else None

    def missed(self, need: Need) -> int:
        """How often an index was missing, this time among them; 0 where none can be made."""
        with self._lock:
            if _half(need) <= self._unlisted.get(need.counted, 0):
                return 0
            if len(self._missed) >= MANY:
                self._missed.clear()
            self._missed[need.counted] += 1
            return self._missed[need.counted]

    def never(self, counted: Counted, above: int) -> None:
        """Remember that no list of these is made: units of a kind that has none, or too many with so few rows."""
        with self._lock:
            if len(self._unlisted) >= MANY:
                self._unlisted.clear()
            self._unlisted[counted] = max(above, self._unlisted.get(counted, 0))

    def find_units(self, table: UnitsTable, to: str) -> HeavyUnits | None:
        """A table of all units with these aggregates, of exactly these data; None: there is none."""
        with self._lock:
            kept = self._kept.get((table.of, ()))
        return kept.heavy if kept is not None and kept.to == to and kept.heavy.holds(table) else None

    def may_count(self, of: Owned) -> bool:
        """May a table of its units be made? Not again where they were too many, or of a kind that has none."""
        with self._lock:
            return of not in self._uncounted

    def never_count(self, of: Owned) -> None:
        """Remember that no table of these units is made."""
        with self._lock:
            if len(self._uncounted) >= MANY:
                self._uncounted.clear()
            self._uncounted.add(of)

    def keep(self, one: Bound) -> None:
        """Keep an index in memory, in the place of what was kept of the same kind; the oldest of too many go."""
        counted = (one.heavy.of, one.heavy.by)
        with self._lock:
            self._kept.pop(counted, None)
            self._kept[counted] = one
            while len(self._kept) > MANY:
                del self._kept[next(iter(self._kept))]

    def write(self, indexes: Sequence[Bound]) -> None:
        """Write the file, in the place of the one that is there; a ledger in memory has none."""
        if self.file is not None:
            content = _packed(indexes)
            durable.write(self.file, FIRST + self._ledger.seal(PURPOSE, content) + content)

    def _look(self) -> None:
        """Read the file, if it isn't the one that was read last."""
        try:
            found = None if self.file is None else self.file.stat()
        except OSError:
            found = None
        seen = None if found is None else (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        if seen != self._seen:
            self._seen, self._read = seen, {} if self.file is None or found is None else self._believed(self.file)

    def _believed(self, file: Path) -> dict[Counted, Bound]:
        """What a file says; nothing where somebody else could have written or seen it, or it isn't whole."""
        with suppress(OSError), file.open("rb") as handle:
            found = os.fstat(handle.fileno())
            exposed = found.st_mode & SHARED or found.st_uid not in owners_of(self._ledger.path)
            if os.name == "posix" and exposed:
                return {}
            first, its_tag, content = handle.read(len(FIRST)), handle.read(DIGEST_BYTES), handle.read()
            if first == FIRST and self._ledger.is_sealed(its_tag, PURPOSE, content):
                return {(one.heavy.of, one.heavy.by): one for one in _unpacked(content)}
        return {}


def _half(need: Need) -> int:
    """Down to how many rows an engine looks, so that somewhat smaller limits are served as well."""
    return max(1, need.limit // 2)


class Indexing:
    """The indexes of the data that one query is about, for its steps; and what they find for later queries."""

    def __init__(self, indexes: UnitIndexes, bound: Callable[[Owned], str], size: Callable[[str], int]) -> None:
        """bound: what an index of these rows speaks of, asked before they are read; size: that of a table's source."""
        self._indexes, self._ask, self._size = indexes, bound, size
        self._asked: dict[Owned, str] = {}
        self._found: list[HeavyUnits] = []

    def look_for(self, of: Owned, above: int, rows: Measuring, by: tuple[Expr, ...] = ()) -> HeavyUnits | None:
        """Every unit with more than so many rows (by: in one group); None where units of this kind aren't listed."""
        self._bind(of)
        found = rows.heavy_units(of, above, by)
        if found is None:
            self._indexes.never((of, by), above)
        else:
            self._found.append(found)
        return found

    def count_units(self, steps: Sequence[AnyStep], rows: Measuring) -> None:
        """Count once what each unit has in a table, for all steps that are made of that, and for lists of heavy ones.

        A small table is counted by each statement for itself.
        """
        wanted: dict[Owned, dict[Expr, None]] = {}
        for step in steps:
            table = units_table(step) if isinstance(step, Step) else None
            if table is not None and self._size(table.of.table) >= LARGE:
                wanted.setdefault(table.of, {}).update(dict.fromkeys(table.columns))
        for of, columns in wanted.items():
            self._counted(UnitsTable(of, tuple(columns)), rows)

    def _counted(self, table: UnitsTable, rows: Measuring) -> HeavyUnits | None:
        """A table of units with these aggregates, counted now if it isn't known; None: there can be none."""
        known = self._units(table)
        if known is not None or not self._indexes.may_count(table.of):
            return known
        before = self._units(UnitsTable(table.of, ()))
        others = () if before is None else before.totals
        columns = tuple(dict.fromkeys((*table.columns, *others)))[: max(TOTALS, len(table.columns))]
        self._bind(table.of)
        found = rows.all_units(table.of, columns)
        if found is None:
            self._indexes.never_count(table.of)
        else:
            self._found.append(found)
        return found

    def _units(self, table: UnitsTable) -> HeavyUnits | None:
        """A table of units of before, with these aggregates; the one with the most."""
        to = self._bind(table.of)
        mine = next((one for one in reversed(self._found) if one.holds(table)), None)
        return mine or self._indexes.find_units(table, to)

    def _bind(self, of: Owned) -> str:
        """What an index of these rows speaks of. Asked before they are read: it stays what it was then."""
        return self._asked.setdefault(of, self._ask(of))

    def of(self, step: Step, rows: Measuring) -> tuple[HeavyUnits, ...]:
        """The indexes by which a step is measured; none: in the plain way. What was paid for is being measured.

        Where a statement reads all rows of a large table, it has to look for heavy units anyway: they are looked for
        first, down to half of its limit, so that a somewhat smaller limit is served as well (Theorem INDEX-1). So are
        they for statements over some of the rows, from the second on that could make use of them.
        """
        used: dict[HeavyUnits, None] = {}
        table = units_table(step)
        units = None if table is None else self._units(table)
        if units is not None:
            used[units] = None
        for use in rows.uses(step):
            known = [self._known(need) for need in use.needs]
            missing = next((need for need, one in zip(use.needs, known, strict=True) if one is None), None)
            enough = 1 if use.whole else 2
            if missing is not None and self._size(use.table) >= LARGE and self._indexes.missed(missing) >= enough:
                known = [self._known(need) or self._look_down(need, rows) for need in use.needs]
            found = [one for one in known if one is not None]
            listed = listed_for(use, found)
            if listed is not None and listed.helps:
                used.update(dict.fromkeys(found))
        return tuple(used)

    def _known(self, need: Need) -> HeavyUnits | None:
        """An index of before that serves this need."""
        to = self._bind(need.of)
        return next((one for one in self._found if one.serves(need)), None) or self._indexes.find(need, to)

    def _look_down(self, need: Need, rows: Measuring) -> HeavyUnits | None:
        if need.sizes is not None:
            return self._counted(UnitsTable(need.of, need.sizes.columns), rows)
        return self.look_for(need.of, _half(need), rows, need.by)

    def keep(self, *, write: bool = False) -> Path | None:
        """Keep what was found, now that the data turned out to be the same as before; write: in the file, too."""
        kept = [Bound(heavy, self._asked[heavy.of]) for heavy in self._found]
        self._found = []
        for one in kept:
            self._indexes.keep(one)
        if write:
            self._indexes.write([one for one in kept if not one.heavy.by])  # those by groups are an engine's own
        return self._indexes.file


def _packed(indexes: Sequence[Bound]) -> bytes:
    streams = [to_bytes(one.heavy.units) for one in indexes]
    told = [
        {
            "table": one.heavy.of.table,
            "owner": one.heavy.of.owner,
            "links": [[link.table, link.on] for link in one.heavy.of.links],
            "above": one.heavy.above,
            "complete": one.heavy.complete,
            "total": one.heavy.total,
            "to": one.to,
            "size": len(stream),
        }
        for one, stream in zip(indexes, streams, strict=True)
    ]
    return json.dumps(told).encode() + b"\n" + b"".join(streams)


def _unpacked(content: bytes) -> list[Bound]:
    """What was packed: the tag has been looked at."""
    head, _, rest = content.partition(b"\n")
    found, place = [], 0
    for told in json.loads(head):
        stream = rest[place : place + told["size"]]
        place += told["size"]
        found.append(Bound(_heavy(told, from_bytes(stream)), told["to"]))
    return found


def _heavy(told: Mapping[str, Any], units: Any) -> HeavyUnits:
    links = tuple(Link(name, tuple((here, there) for here, there in on)) for name, on in told["links"])
    of = Owned(told["table"], told["owner"], links)
    return HeavyUnits(of, told["above"], units, told["complete"], told["total"])
