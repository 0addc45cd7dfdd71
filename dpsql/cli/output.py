"""Where an answer goes: chosen, checked and opened before the query is paid for; whole or not at all.

Also the sign of life while a command works for longer: for people at a terminal alone. How long a query takes is
outside of the guarantee, so nothing of it is ever written to a file or a pipe.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import get_terminal_size
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO

import click

from dpsql.answer.files import ENDINGS, beside
from dpsql.cli.stop import careful
from dpsql.core.doing import done_now
from dpsql.core.errors import DataError, text_width
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from dpsql.answer.model import Answer


CHARTS = ("png", "svg", "html")
FORMATS = ("table", "csv", "json", "parquet", "arrow", *CHARTS)
CONFIDENCE = 0.95
_SINGLE = ("parquet", "arrow", *CHARTS)
_BINARY = ("parquet", "arrow", "png")
_RECEIPT = ".receipt.json"
_CODES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Draft:
    """An open file that has yet to be written; temporary: what it is called until it is whole (None: a device)."""

    path: Path
    temporary: Path | None
    handle: BinaryIO

    def fill(self, content: bytes) -> None:
        """Put the whole content on the disk."""
        self.handle.write(content)
        self.handle.flush()
        if self.temporary is not None:
            os.fsync(self.handle.fileno())

    def name(self) -> None:
        """Give it its name, in place of what had it before."""
        if self.temporary is not None:
            self.temporary.replace(self.path)


@dataclass(frozen=True, slots=True)
class Target:
    """An open place for one answer in one format; draft is None for standard output."""

    format: str
    draft: Draft | None = None
    receipt: Draft | None = None
    """Where its signed receipt goes, if one is asked for."""
    ends: float | None = None
    """The confidence at which programs get low and high columns, if they are asked for."""
    plot: bool = False
    """Is a chart to be drawn on standard output? Behind the table of a terminal, else in place of CSV."""
    wide: bool = False
    """May a table be wider than the terminal?"""

    @property
    def draws(self) -> bool:
        """Is there to be a chart?"""
        return self.plot or self.format in CHARTS

    def takes(self, answers: int) -> None:
        """Refuse now, before anything is paid, what this format can't hold."""
        if answers > 1 and self.format in _SINGLE:
            raise click.UsageError(f"{self.format} holds one answer, and there are {answers}: use csv or json")

    def write(self, *answers: Answer) -> None:
        """Write the whole answer. If the file can't take it, standard output gets it: it has been paid for."""
        from dpsql.answer.render import encode_all

        if self.draft is None:
            terminal = sys.stdout.isatty()
            if self.plot or (self.format == "table" and terminal):
                show("\n".join(self._for_people(answer, terminal) for answer in answers), wide=self.wide)
            else:
                _stdout(self._content(answers), answers[0])
            return
        content = self._content(answers)
        try:
            self._put(content, answers[0])
        except OSError as error:
            _stdout(encode_all(answers, "csv", self.ends), answers[0])
            raise _not_written(str(self.draft.path), str(error.strerror)) from None
        if self.plot:
            click.echo("\n".join(chart(answer) for answer in answers), nl=False)

    def _content(self, answers: Sequence[Answer]) -> bytes:
        """The bytes of the file. An answer without a chart has been paid for, and is shown as CSV."""
        from dpsql.answer.render import encode_all

        if self.format not in CHARTS:
            return encode_all(answers, self.format, self.ends)
        from dpsql.answer.plot import NoChart

        try:
            return encode_all(answers, self.format)
        except NoChart as error:
            _stdout(encode_all(answers, "csv", self.ends), answers[0])
            raise _not_written("the chart", str(error)) from None

    def _for_people(self, answer: Answer, terminal: bool) -> str:
        """The table as it fits the terminal, and the chart if there is to be one."""
        from dpsql.answer.text_table import text_table

        if not terminal:
            return chart(answer)
        width = None if self.wide else get_terminal_size().columns
        table = text_table(answer, width=width, colour=not os.environ.get("NO_COLOR"))
        return f"{table}\n{chart(answer)}" if self.plot else table

    def _put(self, content: bytes, answer: Answer) -> None:
        """Fill the file and its receipt, then name them. In between an older receipt doesn't fit, and says so."""
        assert self.draft is not None
        self.draft.fill(content)
        if self.receipt is not None:
            from dpsql.answer.receipts import signed_receipt

            assert answer.signer is not None, "whoever asks for a receipt has a ledger"
            name = self.receipt.path.name.removesuffix(_RECEIPT)
            self.receipt.fill(signed_receipt(answer.about, name, content, answer.signer))
        self.draft.name()
        if self.receipt is not None:
            self.receipt.name()


@contextmanager
def choose(
    output: str | None,
    format_: str | None,
    *,
    receipt: bool = False,
    intervals: bool = False,
    plot: bool = False,
    wide: bool = False,
) -> Iterator[Target]:
    """Settle format and place, and open the place; a file that was not written leaves no trace."""
    ends = CONFIDENCE if intervals else None
    if plot:
        check("text")
    if output is None or output == "-":
        if receipt:
            raise click.UsageError("--receipt signs a file: add -o FILE")
        chosen = format_ or ("table" if sys.stdout.isatty() else "csv")
        if chosen in _BINARY and sys.stdout.isatty():
            raise click.UsageError(f"--format {chosen} is not for a terminal: add -o FILE, or redirect the output")
        if plot and format_ not in (None, "table"):
            raise click.UsageError(f"--plot draws on standard output, where --format {format_} goes: add -o FILE")
        check(chosen)
        yield Target(chosen, ends=ends, plot=plot, wide=wide)
        return
    path = Path(output)
    chosen = _format(path, format_)
    check(chosen)
    if path.is_dir():
        raise click.UsageError(f"-o {output}: is a folder")
    if path.exists() and not path.is_file():  # a pipe or a device: there is nothing to rename
        if receipt:
            raise click.UsageError(f"--receipt signs a file, and -o {output} is none")
        with _closed(_device(path, output)) as handle:
            yield Target(chosen, Draft(path, None, handle), ends=ends, plot=plot)
        return
    with ExitStack() as stack:
        draft = stack.enter_context(_drafted(path.resolve(), output))
        second = path.with_name(path.name + _RECEIPT)
        signed = stack.enter_context(_drafted(second, str(second))) if receipt else None
        yield Target(chosen, draft, signed, ends, plot)


@contextmanager
def _drafted(path: Path, output: str) -> Iterator[Draft]:
    """A file in the making; gone at the end, unless it was named."""
    careful()
    handle, temporary = _beside(path, output)
    try:
        with _closed(handle):
            yield Draft(path, temporary, handle)
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
    ending = ENDINGS.get(path.suffix.lower())
    if format_ is None and ending is None:
        raise click.UsageError(f"-o {path}: the name must end in {', '.join(ENDINGS)}, or add --format")
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
        return beside(path)
    except OSError as error:
        raise click.UsageError(f"-o {output}: {error.strerror}") from None


def check(format_: str) -> None:
    """Refuse now, before anything is paid, a chart that couldn't be drawn; "text" is one in the terminal."""
    if format_ in (*CHARTS, "text"):
        from dpsql.answer import plot

        plot.check(format_)


def chart(answer: Answer) -> str:
    """The chart as lines, or why there is none: the answer has been paid for."""
    from dpsql.answer.plot import NoChart, charts_of, text_charts

    try:
        found = charts_of(answer)
    except NoChart as error:
        return f"no chart: {error}\n"
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return text_charts(found, get_terminal_size().columns, colour=colour)


def fitted(line: str) -> str:
    """A line of a list, cut where the terminal ends; a pipe gets it whole."""
    room = get_terminal_size().columns
    if not sys.stdout.isatty() or text_width(line) <= room:
        return line
    return f"{line[: room - 1]}…"


def remark(text: str) -> None:
    """Say something beside an answer, on standard error: in lines that fit a terminal, as one to a pipe."""
    room = get_terminal_size().columns
    if sys.stderr.isatty():
        from dpsql.answer.text_table import wrapped

        text = wrapped(text, room)
    click.echo(text, err=True)


def show(text: str, *, wide: bool = False) -> None:
    """Show a text to a person, in a pager if it is longer than the terminal (or wider, where that is allowed)."""
    size = get_terminal_size()
    long = text.count("\n") > size.lines - 3  # what is said behind it
    broad = wide and any(text_width(_CODES.sub("", line)) > size.columns for line in text.splitlines())
    if (long or broad) and sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        os.environ.setdefault("LESS", "-FRSX" if wide else "-FRX")
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)


def _not_written(what: str, why: str) -> DataError:
    return DataError(
        f"{what} can't be written: {why}",
        code="output",
        hint="the answer, which was paid for, is on standard output instead, as CSV",
    )


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


PATIENCE = 1.0  # seconds before anything is shown
EVERY = 0.25  # seconds from one sign to the next
SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CLEAR = "\r\x1b[K"
_SHOWN: list[Event] = []  # the one that is shown


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[], None]]:
    """Show, after a second, what is being done and for how long; yields what ends that, and ends with the block.

    A block inside of another one shows nothing of its own.
    """
    if quiet or _SHOWN or not sys.stderr.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield lambda: None
        return
    done = Event()
    _SHOWN.append(done)
    thread = Thread(target=_signs, args=(done,), daemon=True)

    def end() -> None:
        if not done.is_set():
            done.set()
            thread.join()
            _SHOWN.clear()

    thread.start()
    try:
        yield end
    finally:
        end()


def _signs(done: Event) -> None:
    begun, shown = monotonic(), 0
    if done.wait(PATIENCE):
        return
    while True:
        sys.stderr.write(f"{CLEAR}{SIGNS[shown % len(SIGNS)]} {done_now() or 'working'}, {monotonic() - begun:.0f} s")
        sys.stderr.flush()
        shown += 1
        if done.wait(EVERY):
            break
    sys.stderr.write(CLEAR)
    sys.stderr.flush()
