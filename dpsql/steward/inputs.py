"""From what a steward names (files, globs, folders, databases) to tables with columns: no row is read."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from dpsql.backends.base import Contents
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass
from dpsql.policy.model import SourceKind, source_kind

Open = Callable[[str, tuple[Path, ...]], tuple[Contents, ...]]

_KINDS = "name parquet, CSV (.csv, .tsv, also .gz) or DuckDB files, a glob in quotes, or a folder of them"
_NUMBERED = re.compile(r"[0-9a-f]{8,}|\d+", re.IGNORECASE)
_PART_NAMES = {"", "part", "data", "chunk", "file", "split", "shard", "export"}
_YEAR = re.compile(r"[12]\d{3}")
_VALUE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|\d{4}-\d\d?-\d\d?.*|\d\d?[/.]\d\d?[/.]\d+.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Input:
    """One table to be: its name, its source as a policy writes it, the files behind it, and its columns."""

    name: str
    source: str
    files: tuple[Path, ...]
    table: str | None  # in a database
    columns: tuple[tuple[str, str], ...]
    separator: str | None = None  # of the fields of a CSV file, where its ending doesn't say it
    folders: frozenset[str] = frozenset()  # columns that names of folders make (year=2024): the policy types them

    @property
    def kind(self) -> SourceKind | None:
        """How the source is read."""
        return source_kind(self.source)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All tables, under different names, and what was passed over."""

    tables: tuple[Input, ...]
    notes: tuple[str, ...]


def find(data: Sequence[str], folder: Path, open_source: Open) -> Inputs:
    """The tables behind these arguments; folder: where the policy will lie, which its sources are relative to."""
    search = _Search(folder.absolute(), open_source)
    single: list[Path] = []
    for argument in data:
        path = Path(argument)
        if path.is_dir():
            single += search.folder(path.absolute())
        elif path.is_file() and source_kind(path.name) is not None:
            single.append(path.absolute())
        elif glob.has_magic(argument):
            search.pattern(path.absolute(), argument)
        else:
            what = f"{argument} is of no known kind" if path.is_file() else f"there is no file {argument}"
            raise DataError(what, code="no-file", hint=_KINDS)
    search.files(list(dict.fromkeys(single)))
    if not search.found:
        what = f": {'; '.join(search.notes)}" if search.notes else ""
        raise DataError(
            f"there is no table in {', '.join(data)}{what}",
            code="no-file",
            hint=_KINDS,
        )
    return Inputs(tuple(_renamed(search.found)), tuple(search.notes))


class _Search:
    """Tables as they are found."""

    def __init__(self, base: Path, open_source: Open) -> None:
        self.base = base
        self.open = open_source
        self.found: list[Input] = []
        self.notes: list[str] = []

    def folder(self, path: Path) -> list[Path]:
        """The data files in a folder and below; folders like year=2024 are one table with what is in them."""
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
        if any(entry.is_dir() and "=" in entry.name for entry in entries):
            for ending in sorted({f.suffix for f in path.rglob("*") if source_kind(f.name) == "parquet"}):
                self.pattern(path / "**" / f"*{ending}", f"{path.name}/**/*{ending}")
            return []
        files = [entry for entry in entries if entry.is_file() and source_kind(entry.name) is not None]
        return files + [file for entry in entries if entry.is_dir() for file in self.folder(entry)]

    def pattern(self, path: Path, written: str) -> None:
        """All files of a glob are one table."""
        root = Path(path.anchor)
        files = tuple(sorted(p for p in root.glob(str(path.relative_to(root))) if p.is_file()))
        kinds = {source_kind(file.name) for file in files}
        if not files or None in kinds or len(kinds) > 1 or kinds == {"duckdb"}:
            raise DataError(
                f"{written}: " + ("there is no such file" if not files else "its files aren't parquet or CSV alone"),
                code="no-file",
                hint="a glob is one table: let it match files of one kind, like 'visits/*.parquet'",
            )
        parts = [part for part in path.parts[1:] if not glob.has_magic(part)]
        stem = _word(_NUMBERED.sub("", path.name.split("*")[0]))
        self._add(stem if stem not in _PART_NAMES else parts[-1] if parts else "data", self._source(path), files)

    def files(self, files: Sequence[Path]) -> None:
        """Each file is a table, or several that are numbered and have the same columns are one."""
        groups: dict[tuple[Path, str], list[Path]] = {}
        for file in files:
            groups.setdefault(_skeleton(file), []).append(file)
        for alike in groups.values():
            text = _glob_of(alike)
            if text is not None and len({self._columns(file) for file in alike}) == 1:
                self.pattern(text, text.name)
                continue
            for file in alike:
                self._try(file, explicit=len(files) == 1)

    def _columns(self, file: Path) -> object:
        return self.open(file.name, (file,))

    def _try(self, file: Path, *, explicit: bool) -> None:
        """A file that can't be read is passed over where others can."""
        try:
            self._add(_stem(file.name), self._source(file, literal=True), (file,))
        except DataError as error:
            if explicit or (source_kind(file.name) != "duckdb" and file.stat().st_size):
                raise
            self.notes.append(f"{file.name} is passed over: {error.message}")

    def _add(self, name: str, source: str, files: tuple[Path, ...]) -> None:
        for one in self.open(source, files):
            if one.table is not None and one.table.count(".") != 1:
                self.notes.append(f"{one.table} of {source} is passed over: there is a dot in its name")
                continue
            if source_kind(source) == "csv":
                _check_header(source, [column for column, _ in one.columns])
            usable = tuple((column, type_) for column, type_ in one.columns if column and "\0" not in column)
            if len(usable) < len(one.columns):
                self.notes.append(f"a column of {source} has no name, and can't be used")
            made = self._partitions(files, usable) if source_kind(source) == "parquet" else ()
            table = name if one.table is None else one.table.partition(".")[2]
            keys = frozenset(column for column, _ in made)
            columns = (*usable, *made)
            self.found.append(Input(_word(table) or "data", source, files, one.table, columns, one.separator, keys))

    def _partitions(self, files: tuple[Path, ...], own: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """The columns that the names of all files' folders make, typed by these names."""
        taken = {column.lower() for column, _ in own}
        spelled: dict[str, str] = {}
        values: dict[str, list[str]] = {}
        for file in files:
            near = file.relative_to(self.base) if file.is_relative_to(self.base) else file
            for part in (part for part in near.parent.parts if "=" in part):
                name, _, value = part.partition("=")
                spelled.setdefault(name.lower(), name)
                values.setdefault(name.lower(), []).append(unquote(value))
        everywhere = [key for key, found in values.items() if len(found) == len(files) and key and key not in taken]
        return tuple((spelled[key], _type_of(values[key])) for key in everywhere)

    def _source(self, path: Path, *, literal: bool = False) -> str:
        """A path as the policy writes it: relative where it lies beside the policy or below."""
        near = path.relative_to(self.base) if path.is_relative_to(self.base) else path
        text = near.as_posix()
        return glob.escape(text) if literal and glob.has_magic(text) else text


def _type_of(values: Sequence[str]) -> str:
    """The type of what stands in folders' names: nothing else tells it."""
    known = [value for value in values if value != "__HIVE_DEFAULT_PARTITION__"]
    for type_, pattern in (("INTEGER", r"0|[1-9]\d{0,8}"), ("DATE", r"[12]\d{3}-[01]\d-[0-3]\d")):
        if known and all(re.fullmatch(pattern, value, re.ASCII) for value in known):
            return type_
    return "VARCHAR"


def _check_header(source: str, names: Sequence[str]) -> None:
    """A first line that is somebody's row must not become the policy's text."""
    if any(_VALUE.fullmatch(name.strip()) and not _YEAR.fullmatch(name.strip()) for name in names):
        raise DataError(
            f"{source}: its first line holds values, not the names of columns",
            code="no-header",
            hint="add a first line with a name for each column",
        )


def _stem(name: str) -> str:
    return re.sub(r"\.(csv|tsv)\.(gz|zst|bz2)$|\.[^.]*$", "", name, flags=re.IGNORECASE)


def _skeleton(file: Path) -> tuple[Path, str]:
    """What numbered parts of one table have in common."""
    return file.parent, _NUMBERED.sub("#", file.name)


def _glob_of(files: Sequence[Path]) -> Path | None:
    """A pattern that matches just these of their folder; None where there is one file, or no such pattern."""
    names = [file.name for file in files]
    start = _common(names)
    end = _common([name[len(start) :][::-1] for name in names])[::-1]
    pattern = f"{glob.escape(start)}*{glob.escape(end)}"
    if len(files) == 1 or source_kind(names[0]) == "duckdb" or glob.has_magic(str(files[0].parent)):
        return None
    same = {file.name for file in files[0].parent.glob(pattern)} == set(names)
    return files[0].parent / pattern if same else None


def _common(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    first, last = min(texts), max(texts)
    return next((first[:i] for i in range(len(first)) if not last.startswith(first[: i + 1])), first)


def _word(text: str) -> str:
    """A name that needs no quotes in SQL."""
    word = re.sub(r"\W+", "_", text).strip("_").lower()
    return f"t_{word}" if word[:1].isdigit() or word.startswith("dpsql_") else word


def _renamed(found: Sequence[Input]) -> Iterator[Input]:
    taken: set[str] = set()
    for one in found:
        name = next(n for n in (one.name, *(f"{one.name}_{i}" for i in range(2, len(found) + 2))) if n not in taken)
        taken.add(name)
        yield replace(one, name=name)
