"""Servers that answered all probes as DuckDB does, remembered from one process to the next, so that these open sooner.

What is remembered is no answer but a name: a hash of the server's address, version, build, Java and settings, of the
code that asks, and of what the server says to a short probe now. Another engine behind the same address says something
else, or is asked everything again. The names lie where nobody but their owner may write.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from dpsql.backends.spark.settings import PINNED
from dpsql.core.frozen import dataclass

FOLDER = Path("dpsql", "spark")
MOST = 50  # names that are kept
SHARED = stat.S_IWGRP | stat.S_IWOTH
_OF_ONE_LIFE = frozenset(
    {"spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port", "spark.app.initial.jar.urls"}
)
"""Settings that each start of a server makes anew; all others are part of a name."""
_OF_ONE_PROCESS = _OF_ONE_LIFE | {
    "spark.connect.authenticate.token", "spark.connect.grpc.binding.port", "spark.driver.extraJavaOptions",
    "spark.local.dir", "spark.sql.warehouse.dir", "spark.driver.appUIAddress",
}  # fmt: skip
"""Those of a Spark that a process starts for itself: ports, tokens and folders of its own."""


@dataclass(frozen=True, slots=True)
class Server:
    """What a Spark at this address states of itself: its release, its builds and its settings.

    builds: of Spark and of its Java, as `Connection.builds` gives them.
    """

    url: str
    version: str
    builds: tuple[str, ...]
    settings: Mapping[str, str]


def name_of(server: Server, answers: str) -> str:
    """The name under which a server is remembered that gave these answers to the short probe."""
    passing = _OF_ONE_PROCESS if server.url.startswith("local") else _OF_ONE_LIFE
    kept = {key: value for key, value in server.settings.items() if key not in passing}
    stated = [server.url, server.version, server.builds, kept]
    parts = [*stated, dict(PINNED), answers, _code(), *map(version, ("pyspark", "duckdb", "sqlglot"))]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@cache
def _code() -> str:
    """A hash of dpsql itself: it wrote the statements that were answered."""
    package = Path(__file__).parents[2]
    found = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        content = file.read_bytes()
        found.update(f"{file.relative_to(package)} {len(content)} ".encode() + content)
    return found.hexdigest()


def is_remembered(name: str) -> bool:
    """Did a server of this name answer everything? False where anything about the note is out of order."""
    folder = _folder()
    try:
        return folder is not None and _is_ours(folder, stat.S_ISDIR) and _is_ours(folder / name, stat.S_ISREG)
    except OSError:
        return False


def remember(name: str) -> None:
    """Note a server that answered everything. Never fails: what can't be noted is asked again."""
    folder = _folder()
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(folder, stat.S_ISDIR):
            os.close(os.open(folder / name, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
            for old in sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)[:-MOST]:
                old.unlink()


def _folder() -> Path | None:
    """The folder of names; None where this system has no owners, or nobody has a home."""
    if os.name != "posix":
        return None
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return home / FOLDER if home.is_absolute() else None


def _is_ours(path: Path, kind: Callable[[int], bool]) -> bool:
    """Is it what it should be, ours, and may nobody else write it? A link is neither."""
    found = path.lstat()
    return kind(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & SHARED
