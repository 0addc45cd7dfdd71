"""What Spark has of dpsql's functions: docs/spark-functions.md, made of the probes and of the spellings themselves."""

from __future__ import annotations

from dpsql.backends.spark.conform import Probe, probes, written
from dpsql.backends.spark.probes import NEAR
from dpsql.backends.spark.queries import SPELLINGS
from dpsql.sql.functions.primitives import PRIMITIVES

_HEAD = """# What there is on Spark

Made by `python -m dpsql.backends.spark.reference > docs/spark-functions.md`: not to be edited.

With `[backend] kind = "spark"` ([scale.md](scale.md)) a function is either computed as DuckDB computes it, or refused before anything is paid for. Every expression below was computed by both engines over the same rows (NULL, NaN, infinities, −0.0, the ends of every type, Unicode, the first and the last day of the calendar), which pass a shuffle on their way; they are computed again whenever a Spark server is reached, and a server that answers otherwise is refused.

Refused besides these: casts from text to other types than DOUBLE and BOOLEAN, casts to text of FLOAT and DOUBLE, casts of FLOAT and DOUBLE to DECIMAL and of DOUBLE to FLOAT, integers of more than 38 digits, moments beyond the year 9999 as text, options of regular expressions and repeated groups in them (Java would need stack for each repetition), SUBSTRING from a place that is computed of a BIGINT, FIRST, LAST, ARG_MAX and ARG_MIN by a HUGEINT, UBIGINT or DECIMAL of 38 digits in descending order, FIRST, LAST, ARG_MAX and ARG_MIN of a FLOAT, casts of DECIMAL of more than 7 digits to FLOAT. Two differences are known, which SIGNBIT shows: constants 0.0 and -0.0 in the branches of one CASE are the same to Spark, and NaN has no sign there.

| functions | computed | for instance | as Spark is asked |
|---|---|---|---|
"""  # noqa: E501


def reference() -> str:
    """docs/spark-functions.md."""
    first: dict[str, Probe] = {}
    for probe in probes():
        first.setdefault(probe.about, probe)
    lines = []
    for about, probe in first.items():
        how = "like DuckDB, but for the last digits" if about in NEAR else "like DuckDB"
        lines.append(f"| {_cell(about)} | {how} | `{_cell(probe.text)}` | `{_cell(_spelt(probe))}` |")
    lacking = ", ".join(f"`{name}`" for name in PRIMITIVES if name not in SPELLINGS)
    needed = "Functions that need one of these ([primitives](../dpsql/sql/functions/primitives.py))"
    return _HEAD + "\n".join(lines) + f"\n\n## Refused\n\n{needed}: {lacking}.\n"


def _spelt(probe: Probe) -> str:
    """One expression of Spark's SQL, without quotes and parameters."""
    text = written([probe])
    said = text.sql.split(" AS `place`, ", 1)[1].rsplit(" AS `x0`", 1)[0]
    for name, value in sorted(text.parameters.items(), reverse=True):
        said = said.replace(f":{name}", f"'{value}'" if len(value) < 100 else f"'{value[:5]}…'")
    return said.replace("`probe`.", "").replace("`", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    from dpsql.backends.choose import read_constants

    read_constants()
    print(reference(), end="")
