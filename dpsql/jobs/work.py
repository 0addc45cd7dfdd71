"""A job with its parameters settled: pieces of work, each paid for, recorded and finished as one.

What is remembered of finished work: the very bytes of its files, beside the ledger that paid for them.

A record is written whole before the first file gets its name. So a run that ends in between is finished by the next one
with the same bytes, and work that is finished is never paid for again, also where the data are others by now. All of a
record has left dpsql already (Theorem FREE-1).
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpsql.answer.files import ENDINGS, beside
from dpsql.answer.receipts import receipt_path
from dpsql.core.errors import DataError, Error, PolicyError
from dpsql.core.frozen import dataclass
from dpsql.core.parameters import Parameters
from dpsql.jobs.job import Job, Query, named, typed
from dpsql.sql.placeholders import placed
from dpsql.sql.statements import statements


@dataclass(frozen=True, slots=True)
class File:
    """A file that an answer becomes. name: as the job writes it, with values in it."""

    name: str
    path: Path
    format: str
    intervals: bool
    receipt: bool


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One query with $name for parameters, and its files."""

    name: str
    sql: str
    shown: str
    """The text as the job has it, with {name}: of the same length, for errors to point into."""
    used: frozenset[str]
    files: tuple[File, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What is paid for at once: one query, or all of them under one total."""

    queries: tuple[Asked, ...]
    options: Mapping[str, Any]
    values: Mapping[str, Any]
    """Of the parameters that these queries use."""
    batch: bool
    job: str

    @property
    def name(self) -> str:
        """The names of its queries."""
        return ", ".join(one.name for one in self.queries)

    @property
    def files(self) -> tuple[File, ...]:
        return tuple(file for one in self.queries for file in one.files)

    @property
    def sql(self) -> str:
        """All of it as one text; the end of a query may be a comment."""
        return "\n;\n".join(one.sql for one in self.queries)

    @property
    def asks(self) -> dict[str, Any]:
        """The keywords of `Session.query` and `Session.batch`."""
        return {**self.options, **({"params": dict(self.values)} if self.values else {})}

    def digest(self, versions: Mapping[str, str] | None = None) -> str:
        """What tells this piece of work from all others: all that it asks for, and for which versions of the data.

        versions: None where it is the same whatever the data are.
        """
        bound = Parameters.of(dict(self.values)).named
        told = {
            "job": self.job,
            "queries": [
                [one.name, one.sql, [[f.name, f.format, f.intervals, f.receipt] for f in one.files]]
                for one in self.queries
            ],
            "batch": self.batch,
            "options": {name: str(value) for name, value in self.options.items()},
            "params": [[name, repr(value)] for name, value in bound],
            "versions": None if versions is None else dict(versions),
        }
        return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def blame(self, error: Error) -> Error:
        """The error with the name of the query that it is about, and its place in that query's own text."""
        one, first = self.queries[0], 1
        if error.span is not None:
            for query in self.queries:
                lines = query.sql.count("\n") + 1
                if error.span.line < first + lines or query is self.queries[-1]:
                    one = query
                    break
                first += lines + 1  # the semicolon's
            error.span = replace(error.span, line=error.span.line - first + 1)
            error.source = one.shown
        where = one.name if error.span is not None else self.name
        error.message = f"{where}: {error.message}"
        return error


def works_of(job: Job, given: Mapping[str, Any], folder: Path | None = None) -> list[Work]:
    """The pieces of work of a job, with these values for its parameters. folder: in the place of the job's own."""
    values = typed(job.parameters, given)
    asked = [_asked(query, values, job.folder if folder is None else folder) for query in job.queries]
    _check_files(asked)
    if unused := values.keys() - {name for one in asked for name in one.used} - _in_names(job):
        hint = f"write {{{min(unused)}}} in a query or in an output's name, or leave it out"
        raise PolicyError(f"no query uses the parameter {min(unused)}", code="job-parameter", hint=hint)
    if job.total is not None:
        return [_work(job, asked, job.total, values, batch=True)]
    return [_work(job, [one], q.options, values, batch=False) for one, q in zip(asked, job.queries, strict=True)]


def _work(job: Job, asked: Sequence[Asked], options: Mapping[str, Any], values: Mapping[str, Any], batch: bool) -> Work:
    used = {name for one in asked for name in one.used}
    bound = {name: value for name, value in values.items() if name in used}
    return Work(tuple(asked), options, bound, batch, job.name)


def _asked(query: Query, values: Mapping[str, Any], folder: Path) -> Asked:
    files = []
    for template in query.outputs:
        name = named(template, values, f"{query.name}.output")
        path = (folder / name).resolve()
        files.append(File(name, path, ENDINGS[path.suffix.lower()], query.intervals, query.receipt))
    try:
        sql, used = placed(query.sql, values)
        if len(statements(sql)) != 1:
            hint = "give each statement a query of its own; with one epsilon for all of them they are one batch"
            raise PolicyError("a query of a job is one statement", code="job", hint=hint)
    except Error as error:
        error.locate(query.sql)
        error.message = f"{query.name}: {error.message}"
        raise
    return Asked(query.name, sql, query.sql, used, tuple(files))


def _check_files(asked: Sequence[Asked]) -> None:
    """No two outputs may be one file, receipts included."""
    seen: dict[Path, str] = {}
    for one in asked:
        for file in one.files:
            for path in (file.path, *([receipt_path(file.path)] if file.receipt else [])):
                if path in seen:
                    hint = "give each output a name of its own"
                    raise PolicyError(f"{seen[path]} and {one.name} both write {path}", code="job", hint=hint)
                seen[path] = one.name


def _in_names(job: Job) -> set[str]:
    """The parameters that names of outputs use."""
    return {n for n in job.parameters for q in job.queries for one in q.outputs if f"{{{n}}}" in one}


FORMAT = 1


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one file, and of its receipt where it has one."""

    file: bytes
    receipt: bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """Finished work: the releases that it rests on, and the content of each of its files."""

    releases: tuple[str, ...]
    contents: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class Records:
    """The records beside one ledger; folder is None for a ledger in memory, which remembers none."""

    folder: Path | None

    @classmethod
    def beside(cls, ledger: Path | None) -> Records:
        """Those of the ledger in this file."""
        return cls(None if ledger is None else ledger.with_name(f"{ledger.name}.runs"))

    def find(self, digest: str, knows: Callable[[str], bool]) -> Record | None:
        """The record of finished work; None where there is none, or where the ledger doesn't know its releases.

        knows: whether the ledger has a release of this id. Records may outlive a ledger.
        """
        if self.folder is None:
            return None
        try:
            record = _read((self.folder / f"{digest}.json").read_bytes())
        except OSError:
            return None
        return record if record is not None and all(map(knows, record.releases)) else None

    def keep(self, digest: str, record: Record, *, replace: bool = False) -> Record:
        """Put a record on the disk, whole; the one that counts: an earlier one, unless it is to be replaced."""
        if self.folder is None:
            return record
        path = self.folder / f"{digest}.json"
        try:
            self.folder.mkdir(exist_ok=True)
            handle, temporary = beside(path)
            try:
                with handle:
                    handle.write(_written(record))
                    handle.flush()
                    os.fsync(handle.fileno())
                if not replace and _linked(temporary, path):
                    return record
                if not replace and (earlier := self.find(digest, record.releases.__contains__)) is not None:
                    return earlier
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(
                f"{path} can't be written: {error.strerror}",
                code="output",
                hint="what was paid for is stored in the ledger: run the job again once there is room",
            ) from None
        return record


def _linked(temporary: Path, path: Path) -> bool:
    """Give a file a second name, if nobody has that yet. False also where the disk knows no such thing."""
    try:
        path.hardlink_to(temporary)
    except OSError:
        return False
    return True


def _written(record: Record) -> bytes:
    files = [
        {"file": _text(one.file), "receipt": None if one.receipt is None else _text(one.receipt)}
        for one in record.contents
    ]
    return json.dumps({"dpsql": FORMAT, "releases": list(record.releases), "files": files}).encode()


def _read(data: bytes) -> Record | None:
    """The record; None where it isn't one: then its work is done once more, from what the ledger stores."""
    try:
        found = json.loads(data)
        files: Sequence[dict[str, str | None]] = found["files"]
        contents = tuple(Content(_bytes(one["file"]) or b"", _bytes(one["receipt"])) for one in files)
        return Record(tuple(map(str, found["releases"])), contents) if found["dpsql"] == FORMAT else None
    except (ValueError, KeyError, TypeError):
        return None


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
