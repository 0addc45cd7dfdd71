"""DuckDB's words for what total forms are made of. Our primitives have DuckDB's names: all are written as they are.

A primitive that isn't listed here is refused: whoever adds one decides here how DuckDB writes it.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.backends.dialect import AS_IS, Dialect
from dpsql.backends.duckdb.intervals import kept_apart
from dpsql.sql.functions.primitives import PRIMITIVES

NUMBERS = (
    "abs", "sign", "round", "trunc", "floor", "ceil", "even", "round_even", "sqrt", "cbrt", "exp", "ln", "log2",
    "log10", "log", "pow", "pi", "degrees", "radians", "sin", "cos", "tan", "cot", "asin", "acos", "atan", "atan2",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "gcd", "bit_count", "xor", "signbit", "isnan", "isinf",
    "isfinite", "least", "greatest",
)  # fmt: skip
TEXTS = (
    "lower", "upper", "reverse", "strip_accents", "trim", "ltrim", "rtrim", "length", "strlen", "bit_length",
    "length_grapheme", "left", "right", "substring", "left_grapheme", "right_grapheme", "substring_grapheme", "replace",
    "translate", "lpad", "rpad", "concat", "concat_ws", "split_part", "starts_with", "suffix", "contains", "strpos",
    "ascii", "unicode", "regexp_matches", "regexp_full_match", "regexp_extract", "regexp_replace",
)  # fmt: skip
MOMENTS = (
    "year", "quarter", "month", "day", "dayofyear", "dayofweek", "isodow", "hour", "minute", "second", "millisecond",
    "microsecond", "nanosecond", "decade", "century", "millennium", "era", "week", "isoyear", "yearweek", "epoch",
    "epoch_ms", "epoch_us", "epoch_ns", "to_timestamp", "julian", "dayname", "monthname", "last_day", "date_trunc",
    "date_diff", "date_sub", "time_bucket", "timezone", "try_strptime", "strftime",
)  # fmt: skip

DUCKDB = Dialect("DuckDB", "duckdb", dict.fromkeys((*NUMBERS, *TEXTS, *MOMENTS), AS_IS))


def lacks_primitives() -> bool:
    """Is there a primitive that can't be written? Then statements are refused where they are written."""
    return not DUCKDB.spellings.keys() >= PRIMITIVES.keys()


def text_of(query: exp.Query, *, pretty: bool = False) -> str:
    """A statement's text. The tree is used up."""
    return DUCKDB.text(kept_apart(query), pretty=pretty)
