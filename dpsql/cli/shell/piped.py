"""Statements from a pipe or a file: answered one by one; the first error ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from dpsql.cli.shell.reading import is_command, is_whole, leaves
from dpsql.core.errors import Error

if TYPE_CHECKING:
    from dpsql.cli.shell.loop import Shell


def read(shell: Shell, source: Iterable[bytes]) -> None:
    """Do what each statement and command says.

    Nobody can be asked here, so a query must name its ε. What follows an error isn't asked any more: it may rest on
    what failed, and would be paid for.
    """
    for line, text in pieces(source):
        try:
            if not shell.do(text):
                return
        except Error:
            click.echo(f"in the statement of line {line}; what follows was not asked", err=True)
            raise


def pieces(source: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Each statement or command with the number of its first line; the last one needs no semicolon."""
    kept, first = "", 1
    for number, line in enumerate(source, 1):
        text = _decoded(line, number)
        if not kept.strip():
            kept, first = "", number
        kept += text
        if not kept.strip():
            continue
        if is_command(kept) or leaves(kept) or (";" in text and is_whole(kept)):
            yield first, kept.strip()
            kept = ""
    if kept.strip():
        yield first, kept.strip()


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"line {number} is not UTF-8 text") from None
