"""Other accounts of the same data: ledgers that lie beside a policy or its sources and know the same files or tables.

Each keeps its own total, so what all of them released together may be more than any one of them says. Nothing is
written to them and nothing of theirs is shown but their names and how many releases they hold.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from stat import S_ISREG

from dpsql.accounting.store import APPLICATION

MOST = 10_000  # files of one folder that are looked at
PAGE = 512  # the smallest that SQLite has
_OTHERS = ("parquet", "csv", "tsv", "gz", "new")  # a ledger in the making is called .new


def others(ledger: Path, tables: Iterable[str], files: Iterable[Path]) -> list[tuple[Path, int]]:
    """Ledgers in the folders of this ledger and of these files, other than this one, that serve some of the same."""
    paths, names = {str(f.absolute()) for f in files}, {t.lower() for t in tables}
    folders = {f for f in (ledger.absolute().parent, *(Path(p).parent for p in paths)) if f.is_dir()}
    found = []
    for candidate in sorted({f for folder in folders for f in _databases(folder)}):
        if candidate.name.endswith(("-wal", "-shm")) or candidate.resolve() == ledger.resolve():
            continue
        with contextlib.suppress(sqlite3.Error, OSError, ValueError, TypeError, KeyError):
            releases = _serves(candidate, names, paths)
            if releases is not None:
                found.append((candidate, releases))
    return found


def _databases(folder: Path) -> Iterator[Path]:
    """Files that may be ledgers, whatever they are called: a database is made of whole pages."""
    for file in islice(folder.iterdir(), MOST):
        with contextlib.suppress(OSError):
            ending, found = file.name.rpartition(".")[2].lower(), file.stat()
            if S_ISREG(found.st_mode) and found.st_size and not found.st_size % PAGE and ending not in _OTHERS:
                yield file


def _serves(ledger: Path, names: set[str], paths: set[str]) -> int | None:
    """How many releases a ledger holds, if it is one and served one of these tables or files."""
    # Without a log nobody has it open, and immutable keeps SQLite from leaving an empty one, of another owner, behind.
    how = "mode=ro" if Path(f"{ledger.resolve()}-wal").exists() else "immutable=1"
    connection = sqlite3.connect(f"{ledger.resolve().as_uri()}?{how}", uri=True, timeout=1)
    try:
        if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
            return None
        # Its key is not ours: what it says is not verified, and nothing rests on it.
        bodies = connection.execute("SELECT body FROM event WHERE kind = 'source'")
        served = {json.loads(body)["table"] for (body,) in bodies}
        (releases,) = connection.execute("SELECT COUNT(*) FROM event WHERE kind = 'spend'").fetchone()
        known = {path for (path,) in connection.execute("SELECT path FROM file")}
        known |= {path.rpartition("#")[0] for path in known}  # tables of a database file
        return int(releases) if served & names or known & paths else None
    finally:
        connection.close()
