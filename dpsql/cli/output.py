"""Where an answer goes: chosen, checked and opened before the query is paid for; whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import TYPE_CHECKING, BinaryIO

import click

from dpsql.cli.stop import careful
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from dpsql.answer.model import Answer

FORMATS = ("table", "csv", "json", "parquet", "arrow")
_BINARY = ("parquet", "arrow")
_ENDINGS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".arrow": "arrow"}


@dataclass(frozen=True, slots=True)
class Target:
    """An open place for one answer in one format; path and temporary are None for standard output."""

    format: str
    path: Path | None = None
    temporary: Path | None = None
    handle: BinaryIO | None = None

    def takes(self, answers: int) -> None:
        """Refuse now, before anything is paid, what this format can't hold."""
        if answers > 1 and self.format in _BINARY:
            raise click.UsageError(f"{self.format} holds one answer, and there are {answers}: use csv or json")

    def write(self, *answers: Answer) -> None:
        """Write the whole answer. If the file can't take it, standard output gets it: it has been paid for."""
        from dpsql.answer.render import encode_all, terminal_table

        if self.handle is None:
            if self.format == "table" and sys.stdout.isatty():
                click.echo("\n".join(map(terminal_table, answers)), nl=False)
            else:
                _stdout(encode_all(answers, self.format), answers[0])
            return
        try:
            self.handle.write(encode_all(answers, self.format))
            self.handle.flush()
            if self.temporary is not None and self.path is not None:
                os.fsync(self.handle.fileno())
                self.temporary.replace(self.path)
        except OSError as error:
            _stdout(encode_all(answers, "csv"), answers[0])
            raise DataError(
                f"{self.path} can't be written: {error.strerror}",
                code="output",
                hint="the answer, which was paid for, is on standard output instead, as CSV",
            ) from None


@contextmanager
def choose(output: str | None, format_: str | None) -> Iterator[Target]:
    """Settle format and place, and open the place; a file that was not written leaves no trace."""
    if output is None or output == "-":
        chosen = format_ or ("table" if sys.stdout.isatty() else "csv")
        if chosen in _BINARY and sys.stdout.isatty():
            raise click.UsageError(f"--format {chosen} is not for a terminal: add -o FILE, or redirect the output")
        yield Target(chosen)
        return
    path = Path(output)
    chosen = _format(path, format_)
    if path.is_dir():
        raise click.UsageError(f"-o {output}: is a folder")
    if path.exists() and not path.is_file():  # a pipe or a device: there is nothing to rename
        with _closed(_device(path, output)) as handle:
            yield Target(chosen, path, None, handle)
        return
    path = path.resolve()
    careful()
    handle, temporary = _beside(path, output)
    try:
        with _closed(handle):
            yield Target(chosen, path, temporary, handle)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _closed(handle: BinaryIO) -> Iterator[BinaryIO]:
    """Close a file in the end. Whatever was to be written was flushed, or its failure has been told."""
    try:
        yield handle
    finally:
        with suppress(OSError):  # a full disk fails once more
            handle.close()


def _format(path: Path, format_: str | None) -> str:
    ending = _ENDINGS.get(path.suffix.lower())
    if format_ is None and ending is None:
        raise click.UsageError(f"-o {path}: the name must end in {', '.join(_ENDINGS)}, or add --format")
    if format_ is not None and ending is not None and format_ != ending:
        raise click.UsageError(f"-o {path}: the name says {ending} and --format says {format_}")
    return format_ or ending or ""


def _device(path: Path, output: str) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise click.UsageError(f"-o {output}: {error.strerror}") from None


def _beside(path: Path, output: str) -> tuple[BinaryIO, Path]:
    """A temporary file in the same folder, with the permissions that the file would have."""
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
        number, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise click.UsageError(f"-o {output}: {error.strerror}") from None
    mask = os.umask(0)
    os.umask(mask)
    Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
    return os.fdopen(number, "wb"), Path(name)


def _stdout(data: bytes, answer: Answer) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(
            f"standard output can't be written: {error.strerror}",
            code="output",
            hint=f"the query stays charged, and its answer is kept: dpsql budget --replay {answer.receipt.id[:8]}",
        ) from None
