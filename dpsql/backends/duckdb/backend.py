"""DuckDB as a backend: its sources opened and locked, its statements run, its public engine beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import duckdb
from sqlglot import exp

from dpsql.backends.base import WHOLE_SOURCE, Codes, Deadline, Exact, Misread, Versions, engine_ended
from dpsql.backends.duckdb.codes import encode
from dpsql.backends.duckdb.contents import contents
from dpsql.backends.duckdb.csv_files import LONGEST
from dpsql.backends.duckdb.cursor import Cursor, EngineEnded, Health, NoRoom, one_message
from dpsql.backends.duckdb.dialect import DUCKDB, lacks_primitives, text_of
from dpsql.backends.duckdb.digests import digests, look_inside, types
from dpsql.backends.duckdb.heavy_units import all_units, heavy_units
from dpsql.backends.duckdb.public import PublicDatabase, TwinDatabase
from dpsql.backends.duckdb.run import execute, main_text, main_tree, statement_text
from dpsql.backends.duckdb.scan import Column, Proven
from dpsql.backends.duckdb.sources import (
    columns_apart,
    create_view,
    hold,
    misread,
    open_private,
    prove,
    read_schema,
)
from dpsql.backends.duckdb.spill import make_spill
from dpsql.backends.duckdb.versions import versions
from dpsql.backends.in_groups import of_columns
from dpsql.backends.listed import HeavyUnits
from dpsql.backends.located import Located
from dpsql.backends.located import locate as locate_sources
from dpsql.backends.statements.codes import render_codes
from dpsql.backends.statements.distinct import render_matching
from dpsql.backends.statements.named import columns_named_by
from dpsql.backends.statements.render import render_histogram
from dpsql.backends.statements.rows import relation
from dpsql.core.doing import doing
from dpsql.core.errors import DataError, EngineError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Scan
from dpsql.policy.model import Policy
from dpsql.policy.settings import EngineSettings
from dpsql.quote.indexed import uses_of
from dpsql.sql.as_sql import as_sql

if TYPE_CHECKING:
    from dpsql.quote.indexed import Owned, Use
    from dpsql.quote.model import ResponseStep, Step

__all__ = ["DuckDB", "contents", "locate", "open_backend", "versions"]

FACTS = tuple(field.name for field in fields(Proven))


def locate(policy: Policy, objects: Mapping[str, Any]) -> tuple[Located, ...]:
    """Find each table's source; of a table of a database file, its own rows are looked at."""
    found = locate_sources(policy, objects)
    return tuple(replace(one, inside=look_inside) if one.stays_open and one.object is None else one for one in found)


def open_backend(located: tuple[Located, ...], settings: EngineSettings, folder: Path) -> DuckDB:
    """An engine over these sources."""
    return DuckDB(located, settings, folder)


@dataclass(frozen=True, slots=True)
class Steps:
    """A cursor on the private engine, for the steps of one query."""

    cursor: Cursor
    again: frozenset[str]  # tables that are cheap to read more than once

    def execute(self, step: Step, given: Mapping[str, Any], secret: int, heavy: Sequence[HeavyUnits] = ()) -> Exact:
        """Run a step's statements."""
        self.cursor.secret = secret
        return execute(step, self.cursor, given, heavy, self.again)

    def uses(self, step: Step) -> tuple[Use, ...]:
        """What all of its statements need that indexes refine."""
        return uses_of(step)

    def heavy_units(self, of: Owned, above: int, by: tuple[exp.Expr, ...] = ()) -> HeavyUnits | None:
        """Look for heavy units."""
        return heavy_units(of, above, self.cursor, by)

    def all_units(self, of: Owned, columns: tuple[exp.Expr, ...]) -> HeavyUnits | None:
        """Count what each unit has in a table."""
        return all_units(of, columns, self.cursor)

    def encode(self, step: ResponseStep) -> Codes:
        """Run the statement of a step whose rows leave."""
        return encode(step, self.cursor)


class DuckDB:
    """Two engines in memory: the private one, locked, and the public one with the twin. Each query takes a cursor."""

    def __init__(self, located: tuple[Located, ...], settings: EngineSettings, folder: Path) -> None:
        self.located = located
        spill = make_spill(settings, folder)
        self._remove_spill = (lambda: None) if spill is None else finalize(self, spill.remove)
        aside = None if spill is None else spill.path
        self._health = Health()
        self._private = open_private(located, settings, aside)
        self.schema = read_schema(self._private, located)
        self.public = PublicDatabase(located, aside)
        self.twin = TwinDatabase(self.public, self.schema)
        cheap = (one for one in located if one.object is not None or one.table.kind in ("parquet", "duckdb"))
        self._again = frozenset(one.table.name.lower() for one in cheap)  # text would be parsed each time
        self._settings = settings
        self._apart: dict[str, Mapping[str, Column] | None] = {}
        self._whole: dict[str, str] = {}  # views with all columns, for the steward, where queries don't have all
        self._misfits: set[str] = set()  # tables from Python whose values don't all fit their types

    @property
    def versions(self) -> Versions:
        """Which DuckDB this is."""
        return versions()

    def apart(self, one: Located) -> frozenset[str] | None:
        """The columns of a source that are read in full one by one; None where it is read as a whole."""
        found = self._columns_apart(one)
        return None if found is None else frozenset(found)

    def _columns_apart(self, one: Located) -> Mapping[str, Column] | None:
        if one.name not in self._apart:
            with closing(Cursor(self._private.cursor(), self._health)) as cursor:
                self._apart[one.name] = columns_apart(cursor, one)
        return self._apart[one.name]

    def examine(
        self, one: Located, columns: Sequence[str], until: Deadline | None = None
    ) -> dict[str, tuple[str, ...] | None]:
        """The facts that a full reading shows of these columns (Theorem SCAN-1); None of one that isn't readable."""
        with one_message():
            known = self._columns_apart(one) or {}
            with closing(Cursor(self._private.cursor(), self._health)) as cursor, doing(f"reading {one.table.name}"):
                cursor.until = until
                try:
                    found = prove(cursor, one, [known[name] for name in columns if name in known])
                except NoRoom as crowded:
                    raise self._no_room(one, str(crowded)) from None
                except EngineEnded as ended:
                    raise _ended(one, str(ended)) from None
                if cursor.ended:  # by somebody else's statement: what it showed last may not be so
                    raise _ended(one, "")
        return {
            name: None if proven is None else tuple(fact for fact in FACTS if getattr(proven, fact))
            for name, proven in found.items()
        }

    def _no_room(self, one: Located, column: str) -> DataError:
        """What is said while a source is opened: what was read is a public fact, and so is that it can't be read."""
        limits = self._settings
        what = f"to read its column {column}" if column else "to read it"
        return DataError(
            f"tables.{one.table.name}: {what} takes more memory than the engine may have "
            f"({limits.memory}), or more disk for spilling (spill = {limits.spill})",
            code="no-room",
            hint="raise [engine] memory or spill; or write the file with smaller row groups",
        )

    def unreadable(self, one: Located, columns: Sequence[str]) -> DataError:
        """What is said of a source of which no engine reads each value."""
        if one.object is None and one.table.kind == "csv":
            return DataError(
                f"tables.{one.table.name}: {one.table.source} is not well-formed CSV",
                code="malformed-csv",
                hint="save it as UTF-8, close every quote, double quotes inside of quoted fields, end all lines alike, "
                f"and keep records below {LONGEST:,} bytes",
            )
        return DataError(
            f"tables.{one.table.name}: a value{of_columns(columns)} can't be read: text that isn't UTF-8, or a time "
            "out of range",
            code="unreadable",
            hint="write the file again with values that their types hold; "
            "`SELECT MAX(column)` over each finds the column",
        )

    def trust(self, one: Located, shown: Mapping[str, Sequence[str]]) -> None:
        """Read a source as plainly as its facts allow. Columns that nobody read in full aren't there for queries."""
        proven = {name: Proven(**{fact: fact in facts for fact in FACTS}) for name, facts in shown.items()}
        with one_message():
            self._show(one, proven)

    def _show(self, one: Located, proven: Mapping[str, Proven]) -> None:
        known = self._columns_apart(one)
        if one.object is not None:
            if not proven[WHOLE_SOURCE].fits:
                self._misfits.add(one.name)
        elif known is None:
            whole = proven[WHOLE_SOURCE]
            create_view(self._private, one, {name.lower(): whole for name, _ in self.schema[one.name]})
        else:
            if len(proven) < len(known) and one.name not in self._whole:
                self._whole[one.name] = f"dpsql_whole_{one.name}"
                create_view(self._private, one, name=self._whole[one.name])
            create_view(self._private, one, proven)

    def named(self, steps: Sequence[Step | ResponseStep]) -> dict[str, frozenset[str]]:
        """The columns that statements of these steps name, of each table whose columns are read one by one."""
        apart = {one.name: columns for one in self.located if (columns := self._columns_apart(one)) is not None}
        return columns_named_by(steps, DUCKDB.name, _trees, {name: columns.keys() for name, columns in apart.items()})

    def cursor(self) -> Cursor:
        """A cursor on the private engine, which is locked."""
        with one_message():
            cursor = Cursor(self._private.cursor(), self._health)
            for one in self.located:
                if one.object is not None:
                    hold(cursor, one, fits=one.table.name.lower() not in self._misfits)
        return cursor

    @contextmanager
    def measuring(self, until: Deadline | None) -> Iterator[Steps]:
        """A cursor for the steps of one query, closed behind them."""
        cursor = self.cursor()
        cursor.until = until
        try:
            yield Steps(cursor, self._again)
        finally:
            cursor.close()

    def written(self, step: Step | ResponseStep, *, pretty: bool = False) -> tuple[str, ...]:
        """The statements of a step in DuckDB's dialect; the main one is kept, unless it is for people."""
        from dpsql.quote.model import ResponseStep

        if isinstance(step, ResponseStep):
            return (text_of(render_codes(step.statement), pretty=pretty),)
        first = [main_text(step, pretty=True) if pretty else statement_text(step)]
        more = [render_histogram(h) for h in step.histograms] + [render_matching(m) for m in step.matchings]
        return (*(first if step.tallies else ()), *(text_of(query, pretty=pretty) for query in more))

    @property
    def refuses_statements(self) -> bool:
        """Only where there is a primitive without a word for it."""
        return lacks_primitives()

    def check_running(self) -> None:
        """Refuse what can't be measured, or not be answered, any more."""
        if self._health.failed or self.public.health.failed:
            raise engine_ended()

    def close(self) -> None:
        """Close both engines, and remove what was written aside."""
        self._private.close()
        self._remove_spill()
        self.twin.close()
        self.public.close()

    def rows(self, scan: Scan) -> exp.Select:
        """The very rows that queries read: those that belong to nobody are dropped."""
        return relation(scan)

    def look(self, query: exp.Select) -> tuple[Any, ...]:
        """One row, for the steward, who may see the engine's own words."""
        whole = query.copy()
        for table in whole.find_all(exp.Table):
            # Some of its columns may be unread: Theorem SCAN-1 has the same rows for both views.
            if name := self._whole.get(table.name):
                table.set("this", exp.to_identifier(name, quoted=True))
        with closing(self.cursor()) as cursor:
            try:
                row = cursor.execute(as_sql(whole, dialect=DUCKDB.name)).fetchone()
            except duckdb.Error as error:
                raise EngineError(str(error)) from None
        assert row is not None
        return tuple(row)

    def columns(self, one: Located) -> tuple[tuple[str, str], ...]:
        """All columns of a source, as it holds them."""
        with closing(self.cursor()) as cursor:
            return types(cursor, one)

    def digests(self, one: Located, file: Path | None, key: bytes) -> dict[str, str]:
        """Keyed sums over the rows of one file of a source."""
        with closing(self.cursor()) as cursor:
            try:
                return digests(cursor, one, file, key)
            except duckdb.Error as error:
                raise EngineError(str(error)) from None

    def misread(self, one: Located) -> Misread:
        """What a CSV file holds that is passed over."""
        return misread(one)


def _ended(one: Located, column: str) -> DataError:
    """What is said while a source is opened; nothing is recorded, since nothing was shown."""
    what = f"its column {column} was" if column else "it was"
    return DataError(
        f"tables.{one.table.name}: the engine failed for good while {what} read, which says nothing of its values",
        code="engine-failed",
        hint="open it again; if that fails in the same way, this DuckDB can't read the source: write it anew, or use "
        "another version of DuckDB",
    )


def _trees(step: Step | ResponseStep) -> Iterator[exp.Query]:
    """The statements of a step."""
    from dpsql.quote.model import ResponseStep

    if isinstance(step, ResponseStep):
        yield render_codes(step.statement)
        return
    if step.tallies:
        tree = main_tree(step)
        yield tree
        if DUCKDB.name not in step.texts:  # it is run next: a statement takes longer to make than to write
            step.texts[DUCKDB.name] = text_of(tree)
    yield from (render_histogram(h) for h in step.histograms)
    yield from (render_matching(m) for m in step.matchings)
