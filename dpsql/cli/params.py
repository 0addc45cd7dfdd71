"""--param name=value: what a value on the command line means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?[eE][-+]?[0-9]{1,3}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[-+][0-9]{2}:[0-9]{2})?"
)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_PIECE = re.compile(r"\s*('(?:[^']|'')*'|[^,']*?)\s*(?:,|$)")


if TYPE_CHECKING:
    AnyType = click.ParamType[Any]
else:
    AnyType = click.ParamType  # before click 8.4 it takes no type


class Params(AnyType):
    """name=value; in the environment one to a line."""

    name = "name=value"
    envvar_list_splitter = "\n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


def given_texts(given: Sequence[str]) -> dict[str, str]:
    """The values that were given by name, as their texts: whoever declared them knows their types."""
    found: dict[str, str] = {}
    for text in (one for one in given if one.strip()):
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param {text}: write --param name=value")
        if name in found:
            raise click.UsageError(f"--param {name} is given twice")
        found[name] = value
    return found


def read_params(given: Sequence[str]) -> Any:
    """The parameters that were given, by name, or by place where their names are 1, 2, 3 …; None for none."""
    found: dict[str, Any] = {}
    for text in (one for one in given if one.strip()):
        name, equals, value = text.partition("=")
        if not equals or not (name.isidentifier() or name.isdigit()):
            raise click.UsageError(f"--param {text}: write --param name=value, or --param 1=value for ? and $1")
        if name in found:
            raise click.UsageError(f"--param {name} is given twice")
        found[name] = _value(value, name)
    if found and all(name.isdigit() for name in found):
        places = sorted(found, key=int)
        if places != [str(i) for i in range(1, len(found) + 1)]:
            raise click.UsageError("--param 1=…, --param 2=… and so on: none may be left out")
        return [found[place] for place in places]
    return found or None


def _value(text: str, name: str) -> Any:
    """A number, date, moment, true, false, null or a [list] of them; all else, and what is in quotes, is text."""
    if text.startswith("[") and text.endswith("]"):
        return [_one(piece) for piece in _pieces(text[1:-1], name)]
    return _one(text)


def _pieces(text: str, name: str) -> list[str]:
    pieces, place = [], 0
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None or found.end() == place:
            raise click.UsageError(f"--param {name}: write a list as [a, b], and texts with commas in single quotes")
        pieces.append(found[1])
        place = found.end()
    return pieces


def _one(text: str) -> Any:
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        return text[1:-1].replace("''", "'")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text) and len(text) < 100:
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        return text
    return text
