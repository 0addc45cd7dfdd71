"""Values for the parameters of a query: Python's values as frozen constants, before anybody looks at the SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import UTC, date, datetime, time
from decimal import Decimal
from math import isfinite
from numbers import Integral
from typing import Any, Literal

from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass

Kind = Literal["text", "number", "boolean", "null", "date", "timestamp", "timestamptz", "time"]
Values = Sequence[Any] | Mapping[str, Any]

EXACT_DIGITS = 15  # a decimal literal of so many digits becomes the nearest double wherever it is compared with one
_MAX_DIGITS = 400  # of a number


@dataclass(frozen=True, slots=True)
class Constant:
    """One value: its kind, and its text without quotes."""

    kind: Kind
    text: str


Bound = Constant | tuple[Constant, ...]
"""What stands for a parameter: a constant, or a list of them."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Values by place, or by name: one of them is empty."""

    placed: tuple[Bound, ...] = ()
    named: tuple[tuple[str, Bound], ...] = ()
    by_name: bool = False

    @classmethod
    def of(cls, values: Values | Parameters) -> Parameters:
        """The parameters that a list, a tuple or a mapping holds; they are read now, and later changes don't matter."""
        if isinstance(values, Parameters):
            return values
        if isinstance(values, Mapping):
            if not all(isinstance(name, str) for name in values):
                raise _refused("parameters are named by texts", 'params={"name": value} is for $name')
            return cls(named=tuple((str(n), _bound(v, f"${n}")) for n, v in values.items()), by_name=True)
        if not isinstance(values, Sequence) or isinstance(values, str | bytes | bytearray):
            raise _refused(
                f"params is a list or a mapping, not {type(values).__name__}",
                'write params=[5, "Bern"] for ? and $1, or params={"city": "Bern"} for $city',
            )
        return cls(placed=tuple(_bound(v, f"{i}") for i, v in enumerate(values, 1)))

    @property
    def length(self) -> int:
        """How many characters its values have together, quotes and commas included."""
        every = (*self.placed, *(value for _, value in self.named))
        return sum(len(c.text) + 3 for value in every for c in (value if isinstance(value, tuple) else (value,)))


def _bound(value: Any, name: str) -> Bound:
    value = _python(value, name)
    if isinstance(value, list | tuple | Set):
        if not value:
            raise _refused(f"parameter {name} is an empty list", "nothing is IN an empty list: leave the query out")
        return tuple(_constant(item, name) for item in value)
    return _constant(value, name)


def _python(value: Any, name: str) -> Any:
    """A scalar or an array of numpy's as Python's own; a moment that would become a number is refused."""
    if type(value).__module__ != "numpy" or not hasattr(value, "dtype"):
        return value
    plain = value.tolist()
    every = plain if isinstance(plain, list) else [plain]
    if value.dtype.kind in "mM" and not all(isinstance(item, date) for item in every):
        raise _refused(
            f"parameter {name} is {value.dtype}, which has no literal for it",
            "use None for NaT, and microseconds: x.astype('datetime64[us]')",
        )
    return plain


def _constant(value: Any, name: str) -> Constant:
    """A value as a constant. Numbers are as they would be written into the query by hand."""
    value = _python(value, name)
    match value:
        case None:
            return Constant("null", "NULL")
        case bool():
            return Constant("boolean", "TRUE" if value else "FALSE")
        case str():
            return Constant("text", _text(str.__str__(value), name))
        case Integral():
            whole = int(value)
            if whole.bit_length() > 1000:
                raise _refused(f"parameter {name} is larger than any integer", "use a number below 2¹²⁷")
            return Constant("number", str(whole))
        case float():
            return Constant("number", _float(float(value), name))
        case Decimal():
            if (
                not value.is_finite()
                or abs(value.adjusted()) > _MAX_DIGITS
                or len(value.as_tuple().digits) > _MAX_DIGITS
            ):
                raise _refused(f"parameter {name} isn't a number that can be used", "use a finite number, or None")
            return Constant("number", format(value, "f"))
        case datetime():
            return _moment(value, name)
        case date():
            return Constant("date", date(value.year, value.month, value.day).isoformat())
        case time() if value.tzinfo is None:
            return Constant("time", value.isoformat())
        case _:
            raise _refused(
                f"parameter {name} is {type(value).__name__}, which has no literal",
                "use str, int, float, Decimal, bool, date, datetime, time, None, or a list of them for IN",
            )


def _text(value: str, name: str) -> str:
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise _refused(f"parameter {name} isn't text: there are bytes in it that aren't UTF-8", "decode it first")
    return value


def _float(value: float, name: str) -> str:
    if not isfinite(value):
        raise _refused(f"parameter {name} is {value}, which has no literal", "use a finite number, or None for NULL")
    text = repr(value)
    digits = len(text.lstrip("-").replace(".", "").strip("0"))
    return text if "e" in text or digits <= EXACT_DIGITS else f"{text}e0"  # a DOUBLE, all of its digits


def _moment(value: datetime, name: str) -> Constant:
    if value != value or getattr(value, "nanosecond", False):  # pandas: NaT, and moments that datetime can't hold
        raise _refused(f"parameter {name} is {value}, which datetime can't hold", "use None, or round it")
    plain = datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.tzinfo
    )
    if plain.tzinfo is None:
        return Constant("timestamp", plain.isoformat(sep=" "))
    return Constant("timestamptz", plain.astimezone(UTC).isoformat(sep=" "))


def _refused(message: str, hint: str) -> SQLError:
    return SQLError(message, code="parameter", hint=hint)
