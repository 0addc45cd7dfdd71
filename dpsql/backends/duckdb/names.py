"""Names, texts and paths as DuckDB writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def quoted(text: str) -> str:
    """A name in quotes."""
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in quotes."""
    return "'" + text.replace("'", "''") + "'"


def paths(files: Sequence[Path]) -> str:
    """A list of files."""
    return f"[{', '.join(literal(str(file)) for file in files)}]"
