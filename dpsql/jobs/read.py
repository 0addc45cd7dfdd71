"""release.toml, or a folder of .sql files: read into a frozen Job, with every mistake at its key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpsql.answer.files import ENDINGS
from dpsql.core.errors import Error, PolicyError
from dpsql.jobs.job import KINDS, ONCE_PER, Job, Kind, Parameter, Query, value_of
from dpsql.options import Request
from dpsql.policy.reader import Section, show

HEAD = "release.toml"
"""The file of a folder that says what holds for all of its queries."""
ASKS = tuple(f.name for f in fields(Request) if f.name not in ("params", "fresh"))
QUERY = ("sql", "file", "output", "intervals", "receipt", *ASKS)
FRONT = ("output", "intervals", "receipt", "params", *ASKS)
JOB = ("name", "policy", "analyst", "folder", "once_per", "intervals", "receipt", "params", "queries", *ASKS)
FORMATS = ("csv", "json", "parquet", "arrow")
_PAIR = re.compile(r"--\s*([a-z_]+(?:\.\w+)*\s*=.*)")


def read_job(path: str | Path) -> Job:
    """The job of a .toml file, or of a folder of .sql files; one PolicyError says all that is wrong with it."""
    file = Path(path).absolute()
    folder = file if file.is_dir() else file.parent
    head = file / HEAD if file.is_dir() else file
    said: dict[str, Any] = {} if file.is_dir() and not head.exists() else _toml(head, _text(head))
    files = sorted(f for f in folder.glob("*.sql") if f.is_file()) if file.is_dir() else []
    if file.is_dir() and not files and not said:
        raise PolicyError(f"{path} has no .sql file", code="job", hint=f"put queries there, or write a {HEAD}")
    mistakes: list[PolicyError] = []
    top = Section("", said, mistakes, JOB)
    name = top.text("name") or (file.name if file.is_dir() else file.stem)
    declared = dict(_parameters(top.section("params")))
    listed = top.section("queries")
    entries = {n: listed.section(n, QUERY) for n in listed.entries}
    taken = {str(e.entries["file"]) for e in entries.values() if "file" in e.entries}
    for one in files:
        if one.name not in taken:
            entries[one.stem] = Section(one.name, {"file": one.name}, mistakes, QUERY)
    common = {key: top.flag(key, default) for key, default in (("intervals", False), ("receipt", True))}
    queries = [_query(n, e, folder, common, declared) for n, e in entries.items()]
    if not queries and not mistakes:
        top.missing("queries", hint='name one: [queries.visits] sql = "SELECT …", output = "visits.csv"')
    total = _asked(top)
    _check_total(top, total, queries)
    place, policy = top.text("folder"), top.text("policy")
    job = Job(
        name,
        folder / place if place else folder,
        tuple(queries),
        declared,
        total or None,
        folder / policy if policy else None,
        top.text("analyst"),
        top.choice("once_per", ONCE_PER),
    )
    if mistakes:
        raise _all(str(path), mistakes)
    return job


def _query(name: str, said: Section, folder: Path, common: Mapping[str, bool], declared: dict[str, Parameter]) -> Query:
    sql = said.text("sql")
    if (sql is None) == ("file" not in said.entries):
        said.wrong("sql", "there must be either sql or file", hint='write sql = "SELECT …", or file = "visits.sql"')
    if sql is None and (file := said.text("file")) is not None:
        sql = _text(folder / file)
        _add_front(file, sql, said, declared)
    outputs = said.names("output")
    if outputs is None:
        said.missing("output", hint=f'the file that the answer becomes: output = "{name}.parquet"')
    for one in outputs or ():
        if ENDINGS.get(Path(one).suffix.lower()) not in FORMATS:
            said.wrong("output", f"{show(one)} has no format", hint=f"its name ends in .{', .'.join(FORMATS)}")
    flags = {key: said.flag(key, default) for key, default in common.items()}
    return Query(name, sql or "", outputs or (), _asked(said), **flags)


def _add_front(file: str, sql: str, said: Section, declared: dict[str, Parameter]) -> None:
    """Add what the comments at the beginning of a file say to what is said of its query."""
    front = Section(file, front_matter(file, sql), said.mistakes, FRONT)
    for key, value in front.entries.items():
        if key == "params":
            for name, one in _parameters(front.section("params")):
                if declared.setdefault(name, one) != one:
                    front.wrong(f"params.{name}", "is declared otherwise elsewhere", hint="declare it once")
        elif key in said.entries:
            front.wrong(key, "is said twice", hint="say it in the file or in the job")
        else:
            said.entries[key] = value


def front_matter(file: str, sql: str) -> dict[str, Any]:
    """What the leading comments like `-- epsilon = 0.5` say, each a line of TOML; other comments say nothing."""
    pairs = []
    for line in sql.splitlines():
        if line.strip() and not line.lstrip().startswith("--"):
            break
        if found := _PAIR.fullmatch(line.strip()):
            pairs.append(found[1])
    return _toml(Path(file), "\n".join(pairs))


def _parameters(said: Section) -> Iterator[tuple[str, Parameter]]:
    """The declared parameters: name = "date", or name = { type = "date", default = 2026-11-16 }."""
    for name, value in said.entries.items():
        inner = Section(said.at(name), value if isinstance(value, Mapping) else {"type": value}, said.mistakes)
        if not name.isidentifier():
            said.wrong(name, "is no name for a parameter", hint="letters, digits and _")
        if "type" not in inner.entries:
            inner.missing("type", hint=f"one of {', '.join(KINDS)}")
        kind: Kind = inner.choice("type", KINDS)
        default = inner.entries.get("default")
        for key in inner.entries.keys() - {"type", "default"}:
            inner.wrong(key, "unknown key", hint="known keys: type, default", code="unknown-key")
        try:
            yield name, Parameter(name, kind, None if default is None else value_of(kind, default, name))
        except PolicyError as mistake:
            said.mistakes.append(mistake)


def _asked(said: Section) -> dict[str, Any]:
    """What `Request` has fields for, as keywords. Numbers are exactly what was written."""
    found = {key: said.entries[key] for key in ASKS if key in said.entries}
    for key, value in found.items():
        if isinstance(value, bool | list | Mapping):
            said.wrong(key, f"must be a number or a text, not {show(value)}", hint=f"write {key} = …")
        elif isinstance(value, Decimal):
            found[key] = float(value) if key == "confidence" else Fraction(value)
    return found


def _check_total(top: Section, total: Mapping[str, Any], queries: list[Query]) -> None:
    """With a total, all queries are one batch, and none has a price or options of its own."""
    if not total:
        return
    if "epsilon" not in total:
        hint = "name the total: epsilon = 1; or say it of each query"
        top.wrong(next(iter(total)), "stands for all queries, and there is no ε for all of them", hint=hint)
    if "accuracy" in total or "confidence" in total:
        top.wrong("accuracy", "is for one query", hint="say it of each query, and leave the total out")
    for query in queries:
        for key in query.options:
            hint = "leave it out here, or give every query an ε of its own and leave the total out"
            top.note(f"{query.name}.{key}", "the job has one total for all queries", hint=hint)


# ---------------------------------------------------------------- files


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise PolicyError(
            f"{file} can't be read: {error.strerror}", code="job", hint="name a job that is there"
        ) from None
    except UnicodeDecodeError:
        raise PolicyError(f"{file} is not UTF-8 text", code="job", hint="save it as UTF-8") from None


def _toml(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        hint = 'texts need quotes: output = "visits.csv"'
        raise PolicyError(f"{file.name}: not valid TOML: {error}", code="job", hint=hint) from None


def _all(path: str, mistakes: list[PolicyError]) -> Error:
    hints = [f"{m.message.split(': ')[0]}: {m.hint}" for m in mistakes if m.hint] if len(mistakes) > 1 else []
    hint = "\n".join(hints) or mistakes[0].hint
    return PolicyError("\n".join(f"{path}: {m.message}" for m in mistakes), code=mistakes[0].code, hint=hint)
