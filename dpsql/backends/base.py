"""The contract of a backend: what opens the sources, computes exact statistics, and answers for public data.

A backend is a folder beside this file. Its `backend.py` is a Kind: it finds a policy's sources and opens them. What it
opens is a Backend: the schema of the sources, a full reading of each, exact statistics of a step, and two engines that
hold no private row: one for post-processing, and one of empty tables that knows names and types.

What every backend promises beyond these signatures: a statement over private rows either ends or fails with a message
that is the same whatever the rows are (ATTACKS 9); it computes exactly what the step's nodes say (Theorem TOTAL-1); and
each record is one row, whose values depend on that record alone (Theorem SCAN-1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.core.arrays import Places, positions
from dpsql.core.errors import DataError, PolicyError
from dpsql.core.frozen import dataclass
from dpsql.statistics.base import Integers, Spectrum, Tally

if TYPE_CHECKING:
    from sqlglot import exp

    from dpsql.analyze.domains import PublicEngine
    from dpsql.backends.listed import HeavyUnits
    from dpsql.backends.located import Located
    from dpsql.plan.nodes import Expr, Scan
    from dpsql.policy.model import Policy
    from dpsql.policy.settings import EngineSettings
    from dpsql.quote.indexed import Owned, Use
    from dpsql.quote.model import ResponseStep, Step
    from dpsql.sql.parse import Tree

Schema = Mapping[str, tuple[tuple[str, str], ...]]
"""Each table's columns and their types, as core/types.py writes them; a type that isn't there is any other text."""


SECRET = "dpsql_secret"
"""The parameter of statements with caps: under it units choose their groups (Theorem CAP-1)."""

WHOLE_SOURCE = ""
"""The one part of a source that is read as a whole: it stands for all columns together."""


# ---------------------------------------------------------------- values


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """A spectrum: how often each value occurs in each cell, in the order of cells and values."""

    cells: Integers
    values: Integers
    counts: Integers

    def of(self, cells: Places) -> tuple[Integers, Integers, Places]:
        """The values that occur in each of these cells, ascending, how often, and how many there are in each."""
        starts = np.searchsorted(self.cells, cells)
        lengths = np.searchsorted(self.cells, cells, side="right") - starts
        found = positions(starts, lengths)
        return self.values[found], self.counts[found], lengths


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """Exact integers computed from private rows, one array per tally, in the order of the cells.

    cells is the Arrow table of the keys that occur, where they are private. Nothing but release.py may read this.
    """

    tallies: dict[Tally, Integers]
    cells: Any = None
    spectra: dict[Spectrum, Counts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """For each column the codes of all rows, in the order in which they were read. Only release.py may look."""

    columns: tuple[NDArray[np.uint32], ...]


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a query's statements must have ended, and the limit that this comes from, as people write it."""

    at: float
    limit: str


@dataclass(frozen=True, slots=True)
class Misread:
    """What a source holds that isn't read as it stands: records that are no rows, and fields not of their type."""

    records: int
    fields: tuple[tuple[str, int], ...] = ()  # a column's name, and in how many rows


@dataclass(frozen=True, slots=True)
class Contents:
    """One table that a file holds: its name there (None where the file is the table), its columns and their types."""

    table: str | None
    columns: tuple[tuple[str, str], ...]
    separator: str | None = None  # of a CSV file's fields, where it isn't the one that its ending says


@dataclass(frozen=True, slots=True)
class Versions:
    """Which engine is installed, and with which of its versions the whole suite passed."""

    engine: str
    installed: str
    tested: tuple[str, ...]
    package: str  # as pip calls it
    beside: tuple[Versions, ...] = ()  # what the proofs assume as much: the parser

    @property
    def untested(self) -> str:
        """What is installed and isn't among the tested versions, in words; else nothing."""
        return " and ".join(f"{one.engine} {one.installed}" for one in self._untested())

    @property
    def warning(self) -> str:
        """What is said of an untested engine."""
        each = [f"{one.engine} {one.installed}, only with {', '.join(one.tested)}" for one in self._untested()]
        return f"dpsql was not tested with {', and not with '.join(each)}"

    def require(self) -> None:
        """Refuse an engine that dpsql was not tested with."""
        if self.untested:
            wanted = " ".join(f'"{one.package}=={one.tested[-1]}"' for one in self._untested())
            raise PolicyError(
                f"the engine is refused: {self.warning}",
                code="untested-engine",
                hint=f"install a tested one (pip install {wanted}); only the steward can "
                'allow others: [engine] untested = "warn", and no --strict-engine',
            )

    def _untested(self) -> list[Versions]:
        return [one for one in (self, *self.beside) if one.installed not in one.tested]


# ---------------------------------------------------------------- the contract


class Measuring(Protocol):
    """A way to private rows, for the steps of one query. Whatever fails, fails with one and the same message."""

    def execute(self, step: Step, given: Mapping[str, Any], secret: int, heavy: Sequence[HeavyUnits] = ()) -> Exact:
        """The exact integers of a step; given: public values that it takes as constants, by name.

        heavy: indexes by which the same integers may be found sooner (Theorem INDEX-1).
        """

    def uses(self, step: Step) -> tuple[Use, ...]:
        """What indexes must be like so that `execute` makes use of them for this step."""

    def heavy_units(self, of: Owned, above: int, by: tuple[Expr, ...] = ()) -> HeavyUnits | None:
        """Every unit with more than so many rows; None where the backend keeps no index of such units.

        by: with more than that in one group, whose rows have the same values of these expressions.
        """

    def all_units(self, of: Owned, columns: tuple[Expr, ...]) -> HeavyUnits | None:
        """Every unit with its number of rows and these aggregates; None where the backend keeps no such table."""

    def encode(self, step: ResponseStep) -> Codes:
        """The codes of all rows of a step whose rows leave one by one."""


class Twin(Protocol):
    """Empty tables of the same schema: names and types of queries, with no data to leak."""

    def describe(self, tree: Tree) -> tuple[tuple[str, str], ...]:
        """Names and types of a query's result; an SQLError, with its place, where the engine refuses the query."""

    def types(self, query: exp.Query) -> tuple[tuple[str, str], ...]:
        """Names and types of a part of a query."""


class Backend(Protocol):
    """The sources of one policy, opened and closed to everything else. Threads may use it at the same time."""

    @property
    def schema(self) -> Schema:
        """Each table's columns and types, from metadata alone."""

    @property
    def public(self) -> PublicEngine:
        """Where post-processing runs: it holds public tables only. Refuses with an EngineError."""

    @property
    def twin(self) -> Twin:
        """Where names and types are asked for."""

    @property
    def versions(self) -> Versions:
        """Which version of its engine this is."""

    def apart(self, one: Located) -> frozenset[str] | None:
        """The columns of a private source that are read in full one by one, in lower case; None where it is read as a
        whole, which is then its only part, called ""."""

    def examine(
        self, one: Located, columns: Sequence[str], until: Deadline | None = None
    ) -> Mapping[str, tuple[str, ...] | None]:
        """What a full reading of these parts of a private source shows (Theorem SCAN-1), of each in words that `trust`
        understands, in a fixed order; None where it doesn't hold records and readable values. Neighbours agree on it.
        WHOLE_SOURCE may be among them without being asked for: what all columns have in common.

        until: when it must have ended. A DataError says why it couldn't be read to the end.
        """

    def unreadable(self, one: Located, columns: Sequence[str]) -> DataError:
        """What is said of a source where `examine` gave None for these parts."""

    def trust(self, one: Located, shown: Mapping[str, Sequence[str]]) -> None:
        """From now on read a source as plainly as this has shown to be sound. Unknown words mean nothing.

        shown: of all parts that were ever read in full; queries have no others.
        """

    def named(self, steps: Sequence[Step | ResponseStep]) -> Mapping[str, frozenset[str]]:
        """The parts of sources that statements of these steps read, by their tables; of sources that are read as a
        whole, nothing."""

    def measuring(self, until: Deadline | None) -> AbstractContextManager[Measuring]:
        """A way to private rows that ends with the context; its statements are stopped at the deadline."""

    @property
    def refuses_statements(self) -> bool:
        """Can it refuse a step's statement? Then each is written before it is paid for."""

    def written(self, step: Step | ResponseStep, *, pretty: bool = False) -> tuple[str, ...]:
        """A step's statements as text, for people and to see that they can be written. Reads no row.

        What this backend can't compute is refused here with an SQLError: a query is written before it is paid for.
        """

    def check_running(self) -> None:
        """Refuse, before anything is charged, what can't be measured any more (Theorem TOTAL-1, Resources)."""

    def close(self) -> None:
        """Close everything. Never fails."""

    # For the steward alone: what these give is not private.

    def rows(self, scan: Scan) -> exp.Select:
        """The rows of a table with their owners, as queries read them: a query for `look`."""

    def look(self, query: exp.Select) -> tuple[Any, ...]:
        """The one row that a query over private tables gives. Refuses with an EngineError, in the engine's words."""

    def misread(self, one: Located) -> Misread:
        """What of a source isn't read as it stands."""

    def columns(self, one: Located) -> tuple[tuple[str, str], ...]:
        """All columns of a source and their types, as it holds them, whatever the policy lists."""

    def digests(self, one: Located, file: Path | None, key: bytes) -> dict[str, str]:
        """For each column of one file of a source (None: of an object), and under "" for whole rows, a text that tells
        its rows from others, in whatever order they are. Refuses with an EngineError.
        """


class Kind(Protocol):
    """A kind of backend: the module `backend` of its folder. Its engine is imported with it."""

    def versions(self) -> Versions:
        """Which version of its engine is installed."""

    def contents(self, source: str, files: tuple[Path, ...], /) -> tuple[Contents, ...]:
        """The tables of a source that no policy names yet: from metadata alone, of a CSV file from its first line."""

    def locate(self, policy: Policy, objects: Mapping[str, Any], /) -> tuple[Located, ...]:
        """Find each table's source, or take the object that was passed for it. Opens nothing."""

    def open_backend(self, located: tuple[Located, ...], settings: EngineSettings, folder: Path, /) -> Backend:
        """Open the sources; folder: that of the policy."""


# ---------------------------------------------------------------- the only words about private rows


def engine_failed(reason: str = "") -> DataError:
    """What is said whenever a statement over private rows fails, whatever the reason: rows may be it.

    reason: for the steward's log.
    """
    told = DataError("the engine failed while it read the data; the query stays charged", code="engine", hint=CAUSES)
    told.aside = reason
    return told


CAUSES = (
    "the usual causes are memory, room for what doesn't fit into it, and time: [engine] memory, spill and timeout, and "
    "reply_after of a server; ask for less at once, or the steward finds which it was in his log, or looks at the "
    "sources with dpsql check --steward"
)
"""The same words for every cause."""


def unread(reason: str = "") -> DataError:
    """What is said where columns that a query is the first to name couldn't be read in full, whatever the reason."""
    told = DataError(
        "the engine failed while it read a column for the first time; nothing was charged",
        code="engine",
        hint=f"{CAUSES}; for ten minutes it isn't read again for nothing, and after several failures for longer",
    )
    told.aside = reason
    return told


def engine_ended() -> DataError:
    """What is said from then on, before anything is charged."""
    return DataError(
        "the engine of this session failed earlier and can't be used any more; nothing was charged",
        code="engine-failed",
        hint="open a new session; if it fails again, the steward can look at the sources with dpsql check --steward",
    )


def timed_out(limit: str) -> DataError:
    """What is said when a query's time is up: how long its rows take may be a matter of them, too."""
    return engine_failed(f"time: it took longer than {limit} and was stopped")
