"""What the sessions of one process share: the policy, the backend, the ledger, the plans. Thread-safe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from dpsql.accounting.opening import open_ledger
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.ownership import SCAN
from dpsql.backends.base import Deadline
from dpsql.backends.choose import kind_of
from dpsql.backends.located import Located, file_marks
from dpsql.core.errors import DataError, LedgerError, PolicyError, nearest
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import ColumnUnit, LinkedUnit, Policy
from dpsql.policy.settings_read import from_environment
from dpsql.quote.plan_cache import PlanCache


@dataclass(frozen=True, slots=True)
class Data:
    """The data that a query is about: the version of each table, and the state of the files that they are in."""

    versions: Mapping[str, str]
    marks: Mapping[Path, tuple[int, ...]]


class Shared:
    """A policy that is opened: opened once, for all sessions."""

    def __init__(
        self, policy: Policy, sources: Mapping[str, Any], ledger: str | Path | None, *, strict: bool = False
    ) -> None:
        _check_names(policy)
        kind = kind_of(policy)
        if strict or policy.engine.untested == "refuse":
            kind.versions().require()
        self.policy = policy
        self.settings = from_environment(policy.engine, os.environ)
        self.located = kind.locate(policy, sources)
        self._marks = file_marks(self.located)
        self.backend = kind.open_backend(self.located, self.settings, policy.folder)
        self.schema = self.backend.schema
        _check_units(policy, self.schema)
        _check_links(policy, self.schema)
        _check_automatic(policy, self.schema)
        _check_references(policy, self.schema)
        self.public, self.twin = self.backend.public, self.backend.twin
        self.ledger = open_ledger(policy, ledger)
        try:
            self._prove()
            # Objects from Python don't change: they are hashed once. Files are looked at again for every query.
            self._objects = self.ledger.recognise([one.source for one in self._guarded if one.object is not None])
            self._open_objects = self.ledger.identify([one.source for one in self._open if one.object is not None])
        except BaseException:
            self.ledger.close()  # whoever is refused has nothing to close
            raise
        self._opened: dict[str, str] | None = None  # the versions that this session is about
        self.recent = PlanCache()

    def _prove(self) -> None:
        """Read each private source in full, once for each version; then read it as plainly as that has shown sound.

        Neighbours agree on what was found (Theorem SCAN-1): it is recorded, and a source that isn't one of records, or
        that holds what no engine reads, is refused.
        """
        for one in self._guarded:
            name = one.table.name.lower()
            version = self.ledger.recognise([one.source])[name]
            said = next((p for p in self.ledger.promises(name, version) if p.startswith(SCAN)), None)
            if said is None:
                found = self.backend.examine(one)
                self._require_same(one, version)  # what was read must be what the finding is recorded for
                said = " ".join([SCAN, *(found or ())])
                self.ledger.record_promise(name, said, version, found is not None)
                if found is None:
                    raise self.backend.unreadable(one)
            self.backend.trust(one, said.removeprefix(SCAN).split())

    def _require_same(self, one: Located, version: str) -> None:
        name = one.table.name.lower()
        marks = file_marks([one])
        if self.ledger.recognise([one.source])[name] != version or any(self._marks[f] != m for f, m in marks.items()):
            raise DataError(
                f"tables.{one.table.name}: {one.table.source} changed while it was read",
                code="data-changed",
                hint="wait until whatever writes it is done, then open a new session",
            )

    @property
    def unlisted(self) -> frozenset[str]:
        """Private CSV tables: of their columns, only those that the policy lists have a type, and can be used."""
        return frozenset(
            one.table.name.lower() for one in self._guarded if one.object is None and one.table.kind == "csv"
        )

    @property
    def _guarded(self) -> list[Located]:
        return [one for one in self.located if not one.table.public]

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The column names of each table."""
        return {table: tuple(name for name, _ in columns) for table, columns in self.schema.items()}

    @property
    def _open(self) -> list[Located]:
        return [one for one in self.located if one.table.public]

    def versions(self) -> dict[str, str]:
        """Each private table's data version; refused if a source changed and the steward hasn't recorded it.

        Also when the steward has: schemas, headers and DuckDB files are those of the versions that were opened, and
        only those were found readable. Another version may have other columns in the unit's place (Theorem PROMISE-1).
        """
        files = [one.source for one in self._guarded if one.object is None]
        found = {**self._objects, **self.ledger.recognise(files)}
        relied = [one for one in self.located if self._opened is None or one.stays_open]
        replaced = any(self._marks[file] != mark for file, mark in file_marks(relied).items())
        if self._opened is None and not replaced:
            self._opened = found
        if replaced or found != self._opened:
            raise DataError(
                "a source was replaced since this session opened it",
                code="data-changed",
                hint="open a new session: this one still expects the old data",
            )
        return found

    def identities(self, versions: Mapping[str, str] | None = None) -> dict[str, str]:
        """The data versions of all private and of all public tables, with the types that columns are read as.

        versions: those of the private tables, where they are known.
        """
        private = self.versions() if versions is None else versions
        public = self.ledger.identify([one.source for one in self._open if one.object is None])
        every = {**private, **self._open_objects, **public}
        return {table: f"{version} {self.schema[table]}" for table, version in every.items()}

    def data(self) -> Data:
        """The data as it is now."""
        marks = file_marks(self.located)  # first: what changes while contents are looked at is another state
        return Data(self.identities(), marks)

    def check_unchanged(self, start: Data) -> None:
        """Refuse what was measured if any data changed since the query was looked at (Theorem PROMISE-1).

        Promises were verified, and matches in public tables counted, for the data as they were then. A file that
        changed and changed back is refused, too: it may have been read in between.
        """
        try:
            same = self.data() == start
        except (DataError, LedgerError):
            same = False
        if not same:
            raise DataError(
                "the data changed while the query ran; the query stays charged",
                code="data-changed",
                hint="ask again, in a new session",
            )

    def promises(self, versions: Mapping[str, str] | None = None) -> dict[str, frozenset[str]]:
        """The promises that were verified for the data as it is now."""
        present = self.versions() if versions is None else versions
        return {table: self.ledger.promises(table, version) for table, version in present.items()}

    def known(self) -> tuple[object, ...]:
        """All that a plan may rest on besides the query: two that are equal had the same data and promises between."""
        versions, marks = self.versions(), file_marks(self._open)
        promises = sorted((table, *sorted(held)) for table, held in self.promises(versions).items())
        return tuple(sorted(self.identities(versions).items())), tuple(promises), tuple(sorted(marks.items()))

    def catalog(self) -> Catalog:
        """What analyze knows besides the query."""
        return Catalog(self.policy, self.schema, self.promises(), self.public, self.twin.types, self.unlisted)

    def deadline(self) -> Deadline:
        """When the statements of a query that begins now must have ended."""
        limit = self.settings.timeout
        return Deadline(monotonic() + float(limit.seconds), limit.text)

    def close(self) -> None:
        """Close everything. Nothing is pending: the ledger is durable at every step."""
        self.backend.close()
        self.ledger.close()


def _check_units(policy: Policy, schema: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    """A unit's value must have one spelling: 0.0 and −0.0 are equal, and yet two texts."""
    for name, table in policy.tables.items():
        if isinstance(table.unit, ColumnUnit):
            column = table.unit.column.lower()
            kind = next(Type.parse(text) for known, text in schema[name] if known.lower() == column)
            if kind.is_float or not kind.is_key:
                raise PolicyError(
                    f"tables.{table.name}.unit: {table.unit.column} is {kind.sql}, which can't tell units apart",
                    code="unit-type",
                    hint="use a column of whole numbers or text",
                )


def _check_automatic(policy: Policy, schema: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    """Only numbers have automatic bounds."""
    for name, table in policy.tables.items():
        types = {column.lower(): Type.parse(text) for column, text in schema[name]}
        for lower, column in table.columns.items():
            if column.share is not None and not types[lower].is_numeric:
                raise PolicyError(
                    f"tables.{table.name}.columns.{column.name}.bounds: {column.name} is {types[lower].sql}, and only "
                    "numbers get automatic bounds",
                    code="bounds-type",
                    hint="write a min and a max, or leave bounds out",
                )


def _check_references(policy: Policy, schema: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    """Public keys come from a column that there is."""
    for table in policy.tables.values():
        for column in table.columns.values():
            target = column.references
            if target is None:
                continue
            there = [name for name, _ in schema[target.table.lower()]]
            if target.column.lower() not in (name.lower() for name in there):
                close = nearest(target.column, there)
                raise PolicyError(
                    f"tables.{table.name}.columns.{column.name}.references: {target.table} has no column "
                    f"{target.column}",
                    code="unknown-column",
                    hint=f"did you mean {target.table}.{close}?" if close else f"its columns: {', '.join(there)}",
                )


def _check_links(policy: Policy, schema: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    """Linked columns must have one type (all integers are one): a cast could fail on a row, or give it two owners."""
    types = {t: {c.lower(): Type.parse(text) for c, text in columns} for t, columns in schema.items()}
    for name, table in policy.tables.items():
        if not isinstance(table.unit, LinkedUnit):
            continue
        far = table.unit.through.lower()
        for here, there in table.unit.on:
            a, b = types[name][here.lower()], types[far][there.lower()]
            same = (a.is_integer and b.is_integer) or (a.is_text and b.is_text) or a == b
            if a.is_float or not same:
                raise PolicyError(
                    f"tables.{table.name}.unit.on: {here} is {a.sql} and {far}.{there} is {b.sql}",
                    code="link-type",
                    hint="give both columns the same type (in a CSV table: list them with a type)",
                )


def _check_names(policy: Policy) -> None:
    """Statements use names of their own."""
    for name, table in policy.tables.items():
        if name.startswith("dpsql_"):
            raise PolicyError(f"tables.{table.name}: names may not start with dpsql_", code="name", hint="rename it")
