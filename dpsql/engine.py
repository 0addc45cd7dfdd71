"""What the sessions of one process share: the policy, the backend, the ledger, the plans. Thread-safe."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from dpsql.accounting.opening import open_ledger
from dpsql.accounting.signing import Signer
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.ownership import SCAN, columns_named, is_scan_fact, promises_of, scan_facts, scan_findings
from dpsql.analyze.recall import Recall
from dpsql.backends.base import WHOLE_SOURCE, Deadline, engine_failed, timed_out, unread
from dpsql.backends.choose import kind_of
from dpsql.backends.failed_readings import FailedReadings
from dpsql.backends.located import Located, file_marks, has_other_files
from dpsql.core import VERSION
from dpsql.core.concurrency import ReadWriteLock
from dpsql.core.errors import DataError, LedgerError, PolicyError, nearest
from dpsql.core.extras import NEEDED, require
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.keys import from_environment
from dpsql.policy.model import ColumnUnit, LinkedUnit, Policy
from dpsql.quote.indexed import Owned
from dpsql.quote.model import ResponseStep, Step
from dpsql.quote.plan_cache import AnalysisCache, PlanCache
from dpsql.store.unit_index import Indexing, UnitIndexes


@dataclass(frozen=True, slots=True)
class Data:
    """The data that a query is about: the version of each table, and the state of the files that they are in."""

    versions: Mapping[str, str]
    marks: Mapping[Path, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """For whom columns are read that a query is the first to name.

    admitted: raises where the query couldn't be paid now. charged: the deadline of a query that was paid for.
    """

    analyst: str = ""
    admitted: Callable[[], None] = lambda: None
    charged: Deadline | None = None


class Shared:
    """A policy that is opened: opened once, for all sessions."""

    def __init__(
        self, policy: Policy, sources: Mapping[str, Any], ledger: str | Path | None, *, strict: bool = False
    ) -> None:
        require(*NEEDED)
        _check_names(policy)
        self._kind = kind_of(policy)
        if strict or policy.engine.untested == "refuse":
            self._kind.versions().require()
        self.policy = policy
        self.settings = from_environment(policy.engine, os.environ)
        self.gate = ReadWriteLock()
        self._reading = Lock()
        self.failed_readings = FailedReadings(float(self.settings.timeout.seconds))
        self._given = dict(sources)
        self._open_sources()
        with ExitStack() as refused:  # whoever is has nothing to close
            refused.callback(lambda: self.backend.close())
            self.ledger = open_ledger(policy, ledger)
            refused.callback(self.ledger.close)
            self.signer = Signer(self.ledger.path)
            self._indexes = UnitIndexes(self.ledger)
            used = self.backend.versions
            self.versions_used = {"dpsql": VERSION, used.package: used.installed}
            self.begin()
            refused.pop_all()

    def _open_sources(self) -> None:
        """Find the sources as they are now, and open them."""
        # An object from Python has no stamp. Theorem VERSION-1: where versions are taken as they come, each opening is
        # an event, equal rows or not.
        event = secrets.token_hex(16) if self.policy.data.on_change == "accept" else ""
        found = self._kind.locate(self.policy, self._given)
        located = tuple(one if one.object is None else replace(one, event=event) for one in found)
        marks = file_marks(located)
        backend = self._kind.open_backend(located, self.settings, self.policy.folder)
        try:
            for check in (_check_units, _check_links, _check_automatic, _check_references):
                check(self.policy, backend.schema)
        except BaseException:
            backend.close()
            raise
        self.located, self._marks, self.backend = located, marks, backend
        self.schema, self.public, self.twin = backend.schema, backend.public, backend.twin

    def reopen(self, sources: Mapping[str, Any] | None = None) -> None:
        """Open the sources as they are now; sources: objects in the place of earlier ones. Nobody else is inside.

        What is open stays open where no file was written since.
        """
        if not sources and not self._has_other_files() and file_marks(self.located) == self._marks:
            return
        before, given = self.backend, self._given
        self._given = {**given, **(sources or {})}
        try:
            self._open_sources()
        except BaseException:
            self._given = given
            raise
        before.close()

    def begin(self) -> None:
        """Be about the data that is open. Where it isn't the recorded version, only a refresh gets any further."""
        self.stale: LedgerError | None = None
        self._opened: dict[str, str] | None = None  # the versions that sessions are about
        self._objects: dict[str, str] = {}
        self._parts: dict[str, frozenset[str]] = {}  # the parts of each source that were read in full
        self._bad: dict[str, frozenset[str]] = {}  # those that can't be: nobody has them read once more, for nothing
        self.noted: set[str] = set()  # versions of which the ledger knows what they are made of
        self.recent = PlanCache()
        self.analyses = AnalysisCache()
        self._recall: Recall | None = None
        self._rehearsed: tuple[object, set[Hashable]] | None = None
        try:
            versions = self.ledger.recognise([one.source for one in self.guarded])
        except LedgerError as error:
            if error.code != "data-changed":
                raise
            self.stale = error
            return
        self._prove(versions)
        # Objects from Python don't change: they are hashed once. Files are looked at again for every query.
        self._objects = {n: versions[n] for one in self.guarded if one.object is not None for n in [one.name]}
        self._open_objects = self.ledger.identify([one.source for one in self._open if one.object is not None])

    def _prove(self, versions: Mapping[str, str]) -> None:
        """Read each private source in full, once for each version; then read it as plainly as that has shown sound.

        Neighbours agree on what was found (Theorem SCAN-1): it is recorded, and a source that isn't one of records, or
        that holds what no engine reads, is refused. Of a source whose columns are read one by one these are the ones
        that the policy names; others are read when a query names them (`read_named`).
        """
        for one in self.guarded:
            apart = self.backend.apart(one)
            parts = [WHOLE_SOURCE] if apart is None else sorted(apart & columns_named(self.policy, one.table))
            self._read(one, parts, versions[one.name])

    def _read(self, one: Located, parts: Sequence[str], version: str) -> None:
        """See that these parts of a source were read in full for this version, and trust all that ever were."""
        self._trust(one, self._facts(one, parts, version))

    def _facts(
        self, one: Located, parts: Sequence[str], version: str, until: Deadline | None = None
    ) -> Mapping[str, Sequence[str]]:
        """What full readings have shown of this version, of these parts at least: what is missing is read now."""
        known = scan_facts(self.ledger.promises(one.name, version))
        missing = [part for part in parts if part not in known]
        if not missing:
            return known
        found = self.backend.examine(one, missing, until)
        self._require_same(one, version)  # what was read must be what the finding is recorded for
        for text, readable in scan_findings(found):
            self.ledger.record_promise(one.name, text, version, readable)
        if bad := [part for part, facts in found.items() if facts is None]:
            self._bad[one.name] = self._bad.get(one.name, frozenset()).union(bad)
            raise self.backend.unreadable(one, bad)
        return {**known, **{part: facts for part, facts in found.items() if facts is not None}}

    def _trust(self, one: Located, known: Mapping[str, Sequence[str]]) -> None:
        self.backend.trust(one, known)
        self._parts[one.name] = frozenset(known)

    def read_named(self, steps: Sequence[Step | ResponseStep], asked: Asked) -> None:
        """Read in full the columns that these steps name and that nobody has named before, of this version.

        It is free, and comes before anything is charged: what a column's reading shows is as public as it would have
        been when the source was opened (Theorem SCAN-1), and everybody's from then on. That it can't be read, say for
        want of memory, is told by one constant text: here an analyst chooses what is read. Nothing is read for a query
        that can't be paid, nor what failed a moment ago (attack 65).
        """
        apart = {one.name: self.backend.apart(one) for one in self.guarded}
        if all(columns is None or columns <= self._parts[name] for name, columns in apart.items()):
            return
        named, until = self.backend.named(steps), asked.charged or self.deadline()
        for one in self.guarded:
            if named.get(one.name, frozenset()) <= self._parts[one.name]:
                continue
            self._require_worth(one, named[one.name] - self._parts[one.name], asked)
            # Nobody reads it twice; and whoever waits for others' readings waits no longer than for his own.
            if not self._reading.acquire(timeout=max(until.at - monotonic(), 0)):
                raise _not_read(timed_out(until.limit), asked)
            try:
                wanted = named[one.name] - self._parts[one.name]
                if wanted:
                    self._require_worth(one, wanted, asked)  # somebody's reading may have failed meanwhile
                    self._read_late(one, wanted, until, asked)
            finally:
                self._reading.release()

    def _require_worth(self, one: Located, columns: frozenset[str], asked: Asked) -> None:
        """Refuse to read, for nothing, what can't be paid afterwards, what can't be read, and what has just failed."""
        if asked.charged is None:
            self.backend.check_running()
        version = self.versions()[one.name]
        if bad := sorted(columns & self._bad.get(one.name, frozenset())):
            raise self.backend.unreadable(one, bad)
        missing = self._missing(one, version, columns)
        if not missing or asked.charged is not None:
            return
        asked.admitted()
        if self.failed_readings.refuse(version, missing, asked.analyst):
            raise _not_read(engine_failed("it failed a moment ago, and was not read again"), asked)

    def _missing(self, one: Located, version: str, columns: frozenset[str]) -> frozenset[str]:
        """Those of these columns that nobody has read in full, of this version."""
        return columns - scan_facts(self.ledger.promises(one.name, version)).keys()

    def _read_late(self, one: Located, columns: frozenset[str], until: Deadline, asked: Asked) -> None:
        version = self.versions()[one.name]
        missing = self._missing(one, version, columns)
        try:
            known = self._facts(one, sorted(columns), version, until)
        except DataError as error:
            if error.code in ("unreadable", "data-changed"):  # public facts, in our own words
                raise
            if asked.charged is None:
                self.failed_readings.add(version, missing, asked.analyst)
            raise _not_read(error, asked) from None
        try:
            self._trust(one, known)
        except DataError as error:
            raise _not_read(error, asked) from None

    def _require_same(self, one: Located, version: str) -> None:
        marks = file_marks([one])
        if self.ledger.recognise([one.source])[one.name] != version or any(
            self._marks[f] != m for f, m in marks.items()
        ):
            raise DataError(
                f"tables.{one.table.name}: {one.table.source} changed while it was read",
                code="data-changed",
                hint="wait until whatever writes it is done, then open a new session",
            )

    @property
    def unlisted(self) -> frozenset[str]:
        """Private CSV tables: of their columns, only those that the policy lists have a type, and can be used."""
        return frozenset(
            one.table.name.lower() for one in self.guarded if one.object is None and one.table.kind == "csv"
        )

    @property
    def guarded(self) -> list[Located]:
        """The sources of private tables."""
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
        if self.stale is not None:
            raise self.stale
        files = [one.source for one in self.guarded if one.object is None]
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

    def unchecked(self, versions: Mapping[str, str]) -> dict[str, list[str]]:
        """Of these tables, the promises of the policy that no check has spoken of, for these versions."""
        found = {name: self.ledger.findings(name, version).keys() for name, version in versions.items()}
        missing = {name: [p for p in promises_of(self.policy.tables[name]) if p not in found[name]] for name in found}
        return {name: promises for name, promises in missing.items() if promises}

    def _has_other_files(self) -> bool:
        """Do sources name other files by now than those that are open?"""
        files = [one for one in self.located if one.object is None]
        return any(has_other_files(self.policy, one) for one in files)

    def is_behind(self) -> bool:
        """Is there other data by now than what is open and recorded, or a promise that nobody has checked?"""
        if self.stale is not None or self._has_other_files():
            return True
        try:
            return bool(self.unchecked(self.versions()))
        except (LedgerError, DataError) as error:
            if error.code not in ("data-changed", "source-missing"):
                raise
            return True

    def require_checked(self, tables: Iterable[str]) -> None:
        """Let a query over these tables wait for the check of their promises: it would show something else after it.

        A policy of whose promises nobody has checked any is answered with their limits enforced, as it always was: once
        a steward checks, every version is checked before it is asked about. What a check found broken isn't relied on,
        and waits for nobody (Theorem PROMISE-1).
        """
        used = {name for name in tables if any(not is_scan_fact(p) for p in self.ledger.checked(name))}
        if not used:
            return
        for name, promises in self.unchecked({n: v for n, v in self.versions().items() if n in used}).items():
            said = ", ".join(dict.fromkeys(promise.partition("=")[0] for promise in promises))
            way = "`dpsql refresh --steward`"
            if any(one.object is not None for one in self.guarded):
                way = "engine = dpsql.Engine.open(…, sources=…), engine.refresh(steward=True), engine.session()"
            raise DataError(
                f"the query waits: promises of table {self.policy.tables[name].name} ({said}) aren't verified for its "
                "data as they are now; nothing was charged",
                code="unverified-promise",
                hint=f'the steward verifies them: {way}. With [data] on_change = "accept", queries do it themselves',
            )

    @property
    def unverified(self) -> tuple[str, ...]:
        """Private tables with promises that no check has spoken of, for their data as they are now."""
        return tuple(self.policy.tables[name].name for name in sorted(self.unchecked(self.versions())))

    def known(self, versions: Mapping[str, str]) -> tuple[object, ...]:
        """All that a plan may rest on besides the query: two that are equal had the same data and promises between.

        versions: those of the private tables, as they are now.
        """
        marks = file_marks(self._open)
        held = self.promises(versions).items()
        # What a full reading shows changes no plan and no answer (Theorem SCAN-1).
        promises = sorted((table, *sorted(p for p in of if not is_scan_fact(p))) for table, of in held)
        return tuple(sorted(self.identities(versions).items())), tuple(promises), tuple(sorted(marks.items()))

    def catalog(self, versions: Mapping[str, str] | None = None) -> Catalog:
        """What analyze knows besides the query; versions: of the private tables, where they are known."""
        state = self._public_state()
        if self._recall is None or not self._recall.is_of(self.public, state):
            self._recall = Recall(self.public, self._public_state)
        promises = self.promises(versions)
        return Catalog(self.policy, self.schema, promises, self._recall, self.twin.types, self.unlisted)

    def rehearsed(self) -> set[Hashable]:
        """The shapes of answers that went well in rehearsals with public tables as they are; rehearsals add to it."""
        state = (self.public, self._public_state())
        if self._rehearsed is None or self._rehearsed[0] != state:
            self._rehearsed = (state, set())
        return self._rehearsed[1]

    def _public_state(self) -> object:
        """What public tables say follows from this: the same files, not written since, and the same objects."""
        files = [one.source for one in self._open if one.object is None]
        return file_marks(self._open), self.ledger.identify(files)

    def indexing(self, data: Data) -> Indexing:
        """The indexes of heavy units that speak of these data."""
        return Indexing(self._indexes, lambda of: self._index_of(of, data), lambda table: self._bytes(table, data))

    def _index_of(self, of: Owned, data: Data) -> str:
        """What an index speaks of: these tables as they are, their types, the kind of scan, the engine that reads."""
        tables = {name: [data.versions[name], self.ledger.state_of(name)] for name in of.tables}
        return json.dumps([SCAN, self.versions_used, tables])

    def _bytes(self, table: str, data: Data) -> int:
        """How large a table's source is."""
        (one,) = (one for one in self.located if one.name == table)
        marks = [data.marks[file] for file in one.files]
        return sum(mark[2] for mark in marks if mark) if one.object is None else int(one.object.nbytes)

    def deadline(self) -> Deadline:
        """When the statements of a query that begins now must have ended."""
        limit = self.settings.timeout
        return Deadline(monotonic() + float(limit.seconds), limit.text)

    def close(self) -> None:
        """Close everything. Nothing is pending: the ledger is durable at every step."""
        self.backend.close()
        self.ledger.close()


def _not_read(error: DataError, asked: Asked) -> DataError:
    """What is said where a column couldn't be read for a query that names it first; why is the steward's to know."""
    reason = error.aside or error.message
    return unread(reason) if asked.charged is None else engine_failed(reason)


def _check_units(policy: Policy, schema: Mapping[str, tuple[tuple[str, str], ...]]) -> None:
    """A unit's value must have one spelling: 0.0 and −0.0 are equal, and yet two texts."""
    for name, table in policy.tables.items():
        if isinstance(table.unit, ColumnUnit):
            column = table.unit.column.lower()
            kind = next(Type.parse(text) for known, text in schema[name] if known.lower() == column)
            if kind.is_float or not kind.is_key:
                pin = f'[tables.{table.name}.columns] {table.unit.column} = {{ type = "BIGINT" }}'
                raise PolicyError(
                    f"tables.{table.name}.unit: {table.unit.column} is {kind.sql}, which can't tell units apart",
                    code="unit-type",
                    hint="use a column of whole numbers or text"
                    + ("" if table.source else f"; of a pandas frame: {pin}, or astype('Int64')"),
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
