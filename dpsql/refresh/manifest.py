"""What a version of a table is made of: files, columns, and keyed digests of their rows. What differs is told by names.

A manifest lies in the ledger, under its key; it shows no row and no number of rows. What it decides, whether a file
that was written anew holds the rows that it held, is decided for the steward alone (Theorem VERSION-1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dpsql.accounting.fingerprint import Look, names
from dpsql.backends.located import Located
from dpsql.core.errors import DataError, EngineError
from dpsql.core.frozen import dataclass
from dpsql.engine import Shared

SHOWN = 12
"""Names in one line; of more, the number is told."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of a source: the digest of its bytes, and of its rows by column; "" is for whole rows."""

    contents: str
    rows: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one version is made of. Digests of two engines don't compare."""

    engine: str
    columns: tuple[tuple[str, str], ...]
    files: Mapping[str, Piece]

    @classmethod
    def read(cls, text: str | None) -> Manifest | None:
        """As it was written; None where there is none."""
        if text is None:
            return None
        engine, columns, files = json.loads(text)
        pieces = {name: Piece(contents, rows) for name, (contents, rows) in files.items()}
        return cls(engine, tuple((name, kind) for name, kind in columns), pieces)

    def write(self) -> str:
        """As the ledger keeps it."""
        return json.dumps([self.engine, self.columns, {n: [p.contents, p.rows] for n, p in self.files.items()}])


def manifest_of(engine: Shared, one: Located, look: Look, before: Manifest | None) -> Manifest | None:
    """What the source is made of now; before: an earlier manifest, which spares files with the same bytes a reading.

    None where its rows can't be read, which whoever opens it is told.
    """
    versions = engine.backend.versions
    said = f"{versions.engine} {versions.installed}"
    key = engine.ledger.keyed("dpsql.rows", one.name)[:16]
    try:
        columns = engine.backend.columns(one)
        known = before.files if before is not None and (before.engine, before.columns) == (said, columns) else {}
        pieces = {}
        for name, file, contents in _files(engine, one, look):
            piece = known.get(name)
            if piece is None or piece.contents != contents:
                # Files that are only listed are too large to compare: only what wasn't written holds the same rows.
                found = {"": contents} if one.listing is not None else engine.backend.digests(one, file, key)
                # Keyed once more: sums of hashes could be compared by whoever adds a row.
                rows = {c: engine.ledger.keyed("dpsql.rows", f"{c}\n{text}").hex()[:32] for c, text in found.items()}
                piece = Piece(contents, rows)
            pieces[name] = piece
    except (EngineError, DataError):
        return None
    return Manifest(said, columns, pieces)


def _files(engine: Shared, one: Located, look: Look) -> Iterator[tuple[str, Path | None, str]]:
    """Each file of a source by the name that people know it by, and the digest of its bytes."""
    if one.object is not None or one.stays_open:
        yield (
            "the object" if one.object is not None else one.table.table or one.files[0].name,
            None,
            look.files[""].hex(),
        )
        return
    if not one.files:  # this machine doesn't see them
        yield from ((name.rpartition("/")[2], None, digest.hex()) for name, digest in look.files.items())
        return
    source = (engine.policy.folder / (one.table.source or "")).resolve()
    fixed = [part for part in source.parent.parts if not any(c in part for c in "*?[")]
    ordered = sorted(one.files)
    for file, label in zip(ordered, names(ordered), strict=True):
        # From the folder that the source names on; a folder like year=2024 above it counts as contents, too.
        keyed = (place for place, part in enumerate(file.parent.parts) if "=" in part)
        start = min(len(fixed), next(keyed, len(fixed)), len(file.parts) - 1)
        known = label if one.listing is None else str(file)
        yield "/".join(file.parts[start:]), file, look.files[known].hex()


def same_rows(before: Manifest | None, now: Manifest | None) -> bool:
    """Are these the same columns, and in files of the same names the same rows?"""
    if before is None or now is None or (before.engine, before.columns) != (now.engine, now.columns):
        return False
    old, new = ({name: piece.rows for name, piece in made.files.items()} for made in (before, now))
    if len(old) == len(new) == 1 and "/" not in "".join([*old, *new]):  # how one file is called is no part of its rows
        return list(old.values()) == list(new.values())
    return old == new


def differences(before: Manifest | None, now: Manifest | None) -> Iterator[str]:
    """What is other than before, by names and not by rows."""
    if before is None:
        yield "what differs can't be told: nobody noted what the version before was made of"
        return
    if now is None:
        yield "what differs can't be told: its rows can't be read"
        return
    old, new = dict(before.columns), dict(now.columns)
    yield from _named("column", "added", [c for c in new if c not in old])
    yield from _named("column", "removed", [c for c in old if c not in new])
    for name in (c for c in new if c in old and old[c] != new[c]):
        yield f"column {name}: {old[name]} before, {new[name]} now"
    yield from _named("file", "added", [f for f in now.files if f not in before.files])
    yield from _named("file", "removed", [f for f in before.files if f not in now.files])
    yield from _rewritten(before, now)


def _rewritten(before: Manifest, now: Manifest) -> Iterator[str]:
    """Files that hold other bytes than before: the same rows all the same, or which columns are others."""
    both = [f for f in now.files if f in before.files and now.files[f].contents != before.files[f].contents]
    comparable = before.engine == now.engine
    same = [f for f in both if comparable and now.files[f].rows == before.files[f].rows]
    yield from _named("file", "written anew with the same rows", same)
    for file in (f for f in both if f not in same):
        what = f"{file} holds other rows"
        old, new = before.files[file].rows, now.files[file].rows
        differ = [c for c in new if c and c in old and new[c] != old[c]]
        if not comparable:
            yield f"{file} holds other bytes; rows can't be compared: {before.engine} read them before"
        elif len(old) == 1 or len(new) == 1:  # no column was looked at
            yield f"{file} was written anew; whether it holds other rows wasn't looked at"
        elif differ:
            yield f"{what}: column{'s' if len(differ) > 1 else ''} {_listed(differ)}"
        else:
            yield f"{what}: each column has the values that it had, in other combinations"


def _named(kind: str, what: str, found: Sequence[str]) -> Iterator[str]:
    if found:
        yield f"{kind}{'s' if len(found) > 1 else ''} {what}: {_listed(found)}"


def _listed(found: Sequence[str]) -> str:
    return ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
