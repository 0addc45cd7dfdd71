"""What takes long just now, for whoever watches at a terminal: names and numbers of columns, and nothing of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_TEXTS: list[str] = []


@contextmanager
def doing(text: str) -> Iterator[None]:
    """Let watchers see this text until the block ends."""
    _TEXTS.append(text)
    try:
        yield
    finally:
        _TEXTS.remove(text)


def done_now() -> str:
    """What is being done, from the outside in; nothing where nobody says."""
    return ", ".join(list(_TEXTS))
