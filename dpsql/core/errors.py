"""Every way dpsql says no.

    Error
    ├── SQLError       the text can't be parsed, names something unknown, or uses what isn't supported   exit 3
    ├── PrivacyError   the query is understood and can't be answered privately                           exit 3
    ├── BudgetError    the account can't pay for it                                                      exit 4
    ├── PolicyError    the policy file, or a job's, is wrong                                             exit 5
    ├── LedgerError    the ledger can't be used                                                          exit 5
    ├── DataError      a source can't be read, or the engine failed on it; a receipt doesn't hold        exit 6
    ├── ServerError    a server doesn't know who asks, has too much to do, or failed                     exit 5
    └── ExtraError     a library of an optional extra isn't installed (also an ImportError)              exit 2

No message holds anything computed from a private row. EngineError is none of them: it says why an engine refused a
query over public or noisy values, and whoever asked puts it into words.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import ClassVar

from dpsql.core.frozen import dataclass

LONGEST_LINE = 200  # characters of a line that an error quotes


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line of the SQL text: 1-based line and column, and how many characters."""

    line: int
    column: int
    length: int = 1

    @classmethod
    def of(cls, text: str, start: int, end: int) -> Span:
        """The span of text[start:end], up to the bracket that closes it, cut at the end of its first line."""
        end = _closed(text, start, end)
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1) + 1
        newline = text.find("\n", start)
        stop = min(end, newline if newline >= 0 else len(text))
        return cls(line, column, max(1, stop - start))


_PIECES = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()\[\]{}]""")


def _closed(text: str, start: int, end: int) -> int:
    """Where the brackets that text[start:end] opens are closed; end, if it opens none. A call's () belongs to it."""
    end += 2 if text.startswith("()", end) else 0
    depth = 0
    for piece in _PIECES.finditer(text, start):
        if piece.start() >= end and depth <= 0:
            break
        depth += piece[0] in "([{"
        depth -= piece[0] in ")]}"
        if piece.start() >= end and depth == 0:
            return piece.end()
    return end


class Error(Exception):
    """Base of all refusals. Prints like a compiler: the message, the line with a caret, and what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, code: str, hint: str | None = None, span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.span = span
        self.aside = ""  # for the steward's log alone: never shown, and sent to nobody
        self.source: str | None = None
        self.offsets: tuple[int, int] | None = None  # where in the text, until the session knows the text

    def locate(self, text: str) -> Error:
        """Attach the SQL text, which turns offsets into a span."""
        self.source = text
        if self.span is None and self.offsets is not None:
            self.span = Span.of(text, *self.offsets)
        return self

    def __str__(self) -> str:
        lines = [f"error: {_plain(self.message)}"]
        if self.span is not None and self.source is not None:
            source_lines = self.source.split("\n")
            if self.span.line <= len(source_lines):
                number = f"{self.span.line:>4}"
                text, mark = quoted_line(source_lines[self.span.line - 1].rstrip("\r"), self.span)
                lines.append(f"{number} | {text}")
                lines.append(f"{' ' * len(number)} | {mark}")
        if self.hint:
            first, *rest = _plain(self.hint).splitlines()
            lines.append(f"help: {first}")
            lines.extend(f"      {line}" for line in rest)
        return "\n".join(lines)

    def _render_traceback_(self, *_: object) -> list[str]:
        """What a notebook shows in place of a traceback: a refusal is about the query, and not about Python."""
        return [str(self), *getattr(self, "__notes__", ())]


def quoted_line(text: str, span: Span) -> tuple[str, str]:
    """A line with what the span marks, and the carets to write under it: at most LONGEST_LINE characters of it."""
    start, stop = 0, len(text)
    first, last = span.column - 1, span.column - 1 + span.length
    if len(text) > LONGEST_LINE:
        room = LONGEST_LINE - 2  # an ellipsis on either side
        start = max(0, min(first - (room - min(span.length, room)) // 2, len(text) - room))
        stop = start + room
    before, after = ("…" if start else ""), ("…" if stop < len(text) else "")
    lead = "".join(c if c == "\t" else " " * _width(c) for c in before + text[start:first])
    width = sum(_width(c) for c in text[first : min(last, stop)]) + max(0, last - max(len(text), first))
    carets = min(max(1, width), LONGEST_LINE)
    return _plain(f"{before}{text[start:stop]}{after}"), f"{lead}{'^' * carets}"


def text_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    """How many columns of a terminal a character takes."""
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in ("W", "F") else 1


def _plain(text: str) -> str:
    """Without control characters and broken ones: a text from a query must not steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" or _width(c) == 0 else "\ufffd" for c in text)


class SQLError(Error):
    """The text can't be parsed, names something unknown, or uses what isn't supported."""

    exit_code = 3


class PrivacyError(Error):
    """The query is understood and can't be answered privately."""

    exit_code = 3


class BudgetError(Error):
    """The account can't pay for it; fits is the largest ε of such a query that it could, where that is known."""

    exit_code = 4
    fits: Fraction | None = None


class PolicyError(Error):
    """The policy is wrong; the message starts with the key path."""

    exit_code = 5


class LedgerError(Error):
    """The ledger can't be used as it is."""

    exit_code = 5


class DataError(Error):
    """A source can't be read, or the engine failed on it (the message is then constant)."""

    exit_code = 6


class ServerError(Error):
    """A server doesn't know who asks, has too much to do, or failed; of a failure only an incident's id is told."""

    exit_code = 5
    incident: str | None = None


class ExtraError(Error, ImportError):
    """A library that only this needs isn't installed; the hint says what to install."""

    exit_code = 2


class EngineError(Exception):
    """An engine refused a query; the message is its own, and never about private rows that an analyst asked about."""


def nearest(word: str, known: list[str] | tuple[str, ...], *, cutoff: float = 0.6) -> str | None:
    """The known word closest to a misspelt one, for suggestions; None if nothing is close."""
    from difflib import get_close_matches

    lowered = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(word.lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[matches[0]] if matches else None


def removed(what: str, instead: str) -> PrivacyError:
    """The error for something that earlier versions had."""
    return PrivacyError(f"{what} is gone", code="removed", hint=instead)
