"""The file of the baseline: a line for each case, with a digest of what it was, for each time that it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

FILE = Path(__file__).with_name("baseline.txt")


def digest_of(text: str) -> str:
    """A short digest."""
    return blake2b(text.encode(), digest_size=6).hexdigest()


def line_of(name: str, texts: Mapping[str, str]) -> str:
    return f"{' '.join(map(digest_of, texts.values()))} {name}"


def read() -> dict[str, tuple[str, ...]]:
    """The digests of each case, by its name."""
    found = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        *digests, name = line.split(" ", 3)
        found[name] = tuple(digests)
    return found


def write(lines: Sequence[str]) -> None:
    """Put these lines in the places of those of the same cases; others follow."""
    kept = (
        {line.split(" ", 3)[3]: line for line in FILE.read_text(encoding="utf-8").splitlines()} if FILE.exists() else {}
    )
    kept |= {line.split(" ", 3)[3]: line for line in lines}
    FILE.write_text("\n".join(kept.values()) + "\n", encoding="utf-8")
