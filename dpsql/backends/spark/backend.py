"""Spark as a backend: private rows are read by a cluster; everything public stays with the engine of this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sqlglot import exp

from dpsql.backends.base import WHOLE_SOURCE, Backend, Contents, Deadline, Kind, Misread, Versions, engine_ended
from dpsql.backends.in_groups import of_columns
from dpsql.backends.located import Located, list_again
from dpsql.backends.spark.catalog import CatalogTable, catalog_table
from dpsql.backends.spark.conform import conform, short_answers
from dpsql.backends.spark.queries import Table, write
from dpsql.backends.spark.reading import Reading
from dpsql.backends.spark.remembered import Server, is_remembered, name_of, remember
from dpsql.backends.spark.run import Steps, forms_of, written
from dpsql.backends.spark.server import Connection
from dpsql.backends.spark.sources import BUCKETED, FITS, Files, columns_of, is_in_calendar, is_known, uploaded
from dpsql.backends.spark.versions import versions
from dpsql.backends.statements.named import columns_named_by
from dpsql.core.arrays import to_python
from dpsql.core.doing import doing
from dpsql.core.errors import DataError, EngineError, PolicyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Scan
from dpsql.policy.model import Policy
from dpsql.policy.settings import EngineSettings
from dpsql.quote.model import ResponseStep, Step


@dataclass(frozen=True, slots=True)
class SparkKind:
    """Spark at an address; beside: the kind of engine that has what is public; skewed: as the policy has it."""

    url: str
    beside: Kind
    skewed: bool = False

    def versions(self) -> Versions:
        """Which version of Spark's client is installed."""
        return versions()

    def contents(self, source: str, files: tuple[Path, ...]) -> tuple[Contents, ...]:
        """The tables of a source that no policy names yet."""
        return self.beside.contents(source, files)

    def locate(self, policy: Policy, objects: Mapping[str, Any]) -> tuple[Located, ...]:
        """Find each table's source. An object from Python is in this process, where no cluster reads it."""
        found = self.beside.locate(policy, objects)
        for one in found:
            _check_source(one)
        connection = (
            Connection(self.url, policy.engine.timeout) if any(one.table.kind == "catalog" for one in found) else None
        )
        try:
            return tuple(_listed(policy, one, connection) for one in found)
        except BaseException:
            if connection is not None:
                connection.close()
            raise

    def open_backend(self, located: tuple[Located, ...], settings: EngineSettings, folder: Path) -> Spark:
        """Open the sources."""
        tables = [one.listing for one in located if isinstance(one.listing, CatalogTable)]
        connection = (
            tables[0].connection if tables else Connection(self.url, settings.timeout)
        )  # where they were looked up
        try:
            beside = self.beside.open_backend(tuple(map(_beside, located)), settings, folder)
            try:
                return Spark(self.url, connection, located, beside, self.skewed)
            except BaseException:
                beside.close()
                raise
        except BaseException:
            connection.close()
            raise


def _check_source(one: Located) -> None:
    if one.table.public and one.table.kind == "catalog":
        raise PolicyError(
            f"tables.{one.table.name}.source: public tables are read by this machine, and Spark's catalog isn't here",
            code="not-on-backend",
            hint="write it to a parquet or CSV file that this machine sees, and name that",
        )
    if not one.table.public and (one.object is not None or one.table.kind not in ("parquet", "catalog")):
        where = f"sources[{one.table.name!r}]" if one.object is not None else f"tables.{one.table.name}.source"
        raise PolicyError(
            f"{where}: Spark reads private tables of parquet files",
            code="not-on-backend",
            hint=f'write it as parquet once, and name that: source = "{one.table.name}.parquet"',
        )


def _listed(policy: Policy, one: Located, connection: Connection | None) -> Located:
    """A source with what tells its versions apart."""
    if one.table.public:
        # Theorem OWN-3 counts matches in public tables as they are now: Spark must have no others. It has a copy.
        return replace(one, is_copied=True)
    if connection is not None and one.table.kind == "catalog":
        found = catalog_table(connection, one)
        return replace(one, listing=found, is_replaced=found.is_replaced)
    return replace(one, listing=partial(list_again, policy, one.table, one.files))


def _beside(one: Located) -> Located:
    """A source as the engine of this process has it: of a catalog's table it knows types and no rows."""
    return replace(one, object=one.listing.empty, listing=None) if isinstance(one.listing, CatalogTable) else one


def _reading(one: Located) -> Reading:
    if isinstance(one.listing, CatalogTable):
        return one.listing.reading
    return Reading(tuple(f"file:{file}" for file in one.files))


_CONFORMED: set[tuple[str, str, str]] = set()  # the servers that this process has asked, each for one of its lives


class Spark:
    """A session on a Spark Connect server, and the local engine for what is public and for the steward."""

    def __init__(
        self, url: str, connection: Connection, located: tuple[Located, ...], beside: Backend, skewed: bool = False
    ) -> None:
        self._url = url
        self._beside = beside
        self._connection = connection
        server = url, connection.version, connection.life
        if server not in _CONFORMED or not server[2]:
            self._check_server(server[1])
            _CONFORMED.add(server)
        self._files: dict[str, Files] = {}
        tables: dict[str, Table] = {}
        for number, one in enumerate(located):
            schema = beside.schema[one.name]
            if one.table.public:
                tables[one.name] = self._public(one, schema)
            else:
                files = Files(one, _reading(one), schema, self.columns(one), connection, number)
                self._files[one.name], tables[one.name] = files, replace(files.table, skewed=skewed)
        self._tables = tables
        self._elsewhere = frozenset(one.name for one in located if isinstance(one.listing, CatalogTable))

    def _check_server(self, version: str) -> None:
        """Ask a server everything, unless it answered all of it before, to this or another process, and still looks
        the same by a short probe. Any difference runs all of it (ATTACKS 56)."""
        connection, local = self._connection, self.public.apart
        name = self._name_of_server(version)
        if name is not None and is_remembered(name):
            return
        conform(connection, local)
        if name is not None:
            remember(name)

    def _name_of_server(self, version: str) -> str | None:
        """The name to remember the server by; None for one that isn't remembered: it doesn't state its builds, or
        answers the short probe otherwise than DuckDB."""
        builds = self._connection.builds
        answers = None if builds is None else short_answers(self._connection, self.public.apart)
        if builds is None or answers is None:
            return None
        return name_of(Server(self._url, version, builds, self._connection.settings), answers)

    def _public(self, one: Located, schema: Sequence[tuple[str, str]]) -> Table:
        """A public table, as the local engine reads it, without columns of moments that the engines don't share."""
        columns = {n: v for n, v in columns_of(schema).items() if is_known(v.type)}
        kinds = {name: v.type.sql for name, v in columns.items()}
        if not kinds:
            return Table("", {})
        listed = [exp.alias_(exp.column(name, quoted=True), name, quoted=True) for name in kinds]
        rows = self.public.table(exp.select(*listed).from_(exp.to_identifier(one.name, quoted=True)), {})
        usable = {n: kind for n, kind in kinds.items() if is_in_calendar(rows.column(n), columns[n].type)}
        copy = uploaded(self._connection, rows, usable)
        return Table(
            copy.view, {n: replace(v, low=columns[n].low, high=columns[n].high) for n, v in copy.columns.items()}
        )

    @property
    def schema(self) -> Any:
        """Types are read off the files by the local engine, so that prices are the same."""
        return self._beside.schema

    @property
    def public(self) -> Any:
        """The local engine's."""
        return self._beside.public

    @property
    def twin(self) -> Any:
        """The local engine's."""
        return self._beside.twin

    @property
    def versions(self) -> Versions:
        """Which Spark answers."""
        return replace(versions(), installed=self._connection.version)

    def apart(self, one: Located) -> frozenset[str]:
        """The columns that Spark reads as what they are, in lower case: no query has others."""
        return frozenset(self._files[one.name].columns)

    def examine(
        self, one: Located, columns: Sequence[str], until: Deadline | None = None
    ) -> dict[str, tuple[str, ...] | None]:
        """What a full reading of these columns shows (Theorem SCAN-1, On Spark)."""
        with doing(f"reading {one.table.name}"):
            return self._files[one.name].examine(columns, until)

    def unreadable(self, one: Located, columns: Sequence[str]) -> DataError:
        """What is said of a source with values that Spark and DuckDB don't read alike."""
        return DataError(
            f"tables.{one.table.name}: a value{of_columns(columns)} can't be read by Spark: text that isn't UTF-8, a "
            "decimal of too many digits, or a moment outside of the years 1 to 9999",
            code="unreadable",
            hint="write the file again with values that their types hold, and NULL for moments that stand for none",
        )

    def trust(self, one: Located, shown: Mapping[str, Sequence[str]]) -> None:
        """Read the columns that were read in full from now on, and no others; by buckets where these are true."""
        # Theorem SCAN-1: what another engine has read of the same files says nothing of how Spark reads them.
        read = {name for name, facts in shown.items() if name and FITS in facts}
        # Theorem BUCKET-1: only where each row of this version was found in its bucket.
        dealt_out = BUCKETED in shown[WHOLE_SOURCE] if WHOLE_SOURCE in shown else None
        self._files[one.name].show(read, is_dealt_out=dealt_out)
        self._tables[one.name] = replace(self._tables[one.name], bucketed=bool(dealt_out))

    def named(self, steps: Sequence[Step | ResponseStep]) -> dict[str, frozenset[str]]:
        """The columns that statements of these steps name, in whichever form Spark is asked."""
        known = {name: files.columns.keys() for name, files in self._files.items()}
        return columns_named_by(steps, "Spark", forms_of, known)

    @contextmanager
    def measuring(self, until: Deadline | None) -> Iterator[Steps]:
        """The session, for the steps of one query."""
        yield Steps(self._connection, self._tables, until)

    def written(self, step: Step | ResponseStep, *, pretty: bool = False) -> tuple[str, ...]:
        """A step's statements in Spark's SQL; texts of the query stand behind them, as they are handed over."""
        # Theorem FORM-1: how many rows there are chooses a form. What is shown, and what is refused, looks at none.
        shown, other = ({n: replace(t, rows=rows) for n, t in self._tables.items()} for rows in (None, 0))
        written(step, other)
        found = []
        for text in written(step, shown):
            said = [f"-- :{name} is {value!r}" for name, value in text.parameters.items()]
            found.append("\n".join([text.sql, *said]))
        return tuple(found)

    @property
    def refuses_statements(self) -> bool:
        """It has no word for some primitives, and there are forms that it can't compute."""
        return True

    def check_running(self) -> None:
        """Refuse what can't be measured any more."""
        if self._connection.failed:
            raise engine_ended()
        self._beside.check_running()

    def close(self) -> None:
        """Close the session and the local engine."""
        self._connection.close()
        self._beside.close()

    # The steward's questions about files that this machine sees are the local engine's; others are Spark's.

    def rows(self, scan: Scan) -> exp.Select:
        """The rows of a table with their owners."""
        return self._beside.rows(scan)

    def look(self, query: exp.Select) -> tuple[Any, ...]:
        """The one row that a query gives."""
        if self._elsewhere.isdisjoint(table.name for table in query.find_all(exp.Table)):
            return self._beside.look(query)
        named = query.copy()
        named.set("expressions", [exp.alias_(e.unalias(), f"c{i}") for i, e in enumerate(query.expressions)])
        try:
            text = write(named, {**self._tables, **self._whole()})
            found = self._connection.arrow(text.sql, text.parameters)
        except SQLError as refused:
            raise EngineError(refused.message) from None
        return tuple(to_python(column)[0] for column in found.columns)

    def _whole(self) -> Mapping[str, Table]:
        """The catalog's tables with all columns: queries may have some of them alone."""
        return {name: self._files[name].whole() for name in self._elsewhere}

    def misread(self, one: Located) -> Misread:
        """What isn't read as it stands."""
        return self._beside.misread(_beside(one))

    def columns(self, one: Located) -> tuple[tuple[str, str], ...]:
        """All columns of a source."""
        return self._beside.columns(_beside(one))

    def digests(self, one: Located, file: Path | None, key: bytes) -> dict[str, str]:
        """What tells the rows of a file from others."""
        return self._beside.digests(one, file, key)
