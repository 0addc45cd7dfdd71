"""Does the Spark that answers compute what DuckDB computes? Asked when it is reached, on rows that pass a shuffle.

Constants are folded by the server's driver, and rows of a query by its interpreter; so probes are rows, sent to it and
dealt out anew before anything is computed of them. A look-alike behind an address is found by its answers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from sqlglot import exp

from dpsql.backends.base import engine_failed
from dpsql.backends.spark.probes import NEAR, PROBE_ROWS, PROBES, SHORT, TYPES
from dpsql.backends.spark.queries import Table, Text, write
from dpsql.backends.spark.server import Connection
from dpsql.backends.spark.sources import as_arrow, columns_of, uploaded
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.sql.bind import bind
from dpsql.sql.functions.base import Scalar
from dpsql.sql.parse import parse
from dpsql.sql.scalar import scalar

PROBE, PLACE = "probe", "place"
ROWS = 210  # lengths of columns meet in many ways
EACH = 40  # expressions of a statement, which has to be compiled
ULPS = 4  # of a double, where the last digits are an engine's own
_KINDS = {PLACE: "BIGINT", **TYPES}

Local = Callable[[exp.Query, Mapping[str, Any], float], Any]
"""The local engine: a query over Arrow tables, and how many seconds it may take."""


@dataclass(frozen=True, slots=True)
class Probe:
    """An expression as people write it, the functions that it is about, and its total form."""

    about: str
    text: str
    form: exp.Expr
    type: Type


def probes(asked: Mapping[str, Sequence[str]] | None = None) -> Iterator[Probe]:
    """Every probe, or these, as a query would compute it."""
    columns = {name: Scalar(exp.column(name, quoted=True), Type.parse(kind), Range()) for name, kind in TYPES.items()}
    for about, texts in (PROBES if asked is None else asked).items():
        for text in texts:
            bound = bind(parse(f"SELECT {text} AS x FROM {PROBE}"), {PROBE: tuple(TYPES)}).root
            (shown,) = bound.selects
            for column in shown.find_all(exp.Column):
                column.set("table", None)
            found = scalar(shown.this, columns)
            yield Probe(about, text, found.sql, found.type)


def rows() -> Any:
    """The rows that probes are computed of."""
    kinds = {"i": pa.int64(), "n": pa.int32(), "k": pa.int16(), "f": pa.float32(), "m": pa.decimal128(18, 3)}
    kinds |= {"q": pa.decimal128(38, 10), "tz": pa.timestamp("us", tz="UTC"), "at": pa.timestamp("us")}
    made = {name: pa.array([of[r % len(of)] for r in range(ROWS)], kinds.get(name)) for name, of in PROBE_ROWS.items()}
    return pa.table({PLACE: pa.array(range(ROWS), pa.int64()), **made})


def written(listed: Sequence[Probe], view: str = PROBE) -> Text:
    """Probes as one statement of Spark's."""
    return write(_query(listed), {PROBE: Table(view, columns_of(list(_KINDS.items())))})


def _query(listed: Sequence[Probe]) -> exp.Select:
    made = [exp.alias_(probe.form.copy(), f"x{i}", quoted=True) for i, probe in enumerate(listed)]
    return exp.select(exp.column(PLACE, quoted=True), *made, copy=False).from_(PROBE)


def differences(connection: Connection, local: Local) -> list[tuple[Probe, str]]:
    """The probes of which both engines don't say the same, each with a row as an example."""
    table, found = rows(), []
    every = list(probes())
    uploads = uploaded(connection, table, _KINDS, dealt_out=True)
    try:
        for start in range(0, len(every), EACH):
            listed = every[start : start + EACH]
            found += _compared(listed, _asked(connection, listed, uploads.view), local, table)
    finally:
        connection.drop(uploads.view)
    return found


def _asked(connection: Connection, listed: Sequence[Probe], view: str) -> Any:
    text = written(listed, view)
    return connection.arrow(text.sql, text.parameters).sort_by(PLACE)


def _compared(listed: Sequence[Probe], theirs: Any, local: Local, table: Any) -> list[tuple[Probe, str]]:
    found = []
    ours = local(_query(listed), {PROBE: table}, 60).sort_by(PLACE)
    for i, probe in enumerate(listed):
        pairs = zip(*(_plain(one.column(f"x{i}"), probe.type) for one in (ours, theirs)), strict=True)
        near = probe.about in NEAR
        for r, (a, b) in enumerate(pairs):
            if not _same(a, b, near=near):
                found.append((probe, f"row {r}: {a!r} and {b!r}"))
                break
    return found


def short_answers(connection: Connection, local: Local) -> str | None:
    """What a server says to one expression of each family, as a text; None where DuckDB says anything else, or where
    what must fail doesn't."""
    listed, table = list(probes(SHORT)), rows()
    uploads = uploaded(connection, table, _KINDS, dealt_out=True)
    try:
        theirs = _asked(connection, listed, uploads.view)
    except DataError:  # something is unknown there: what, is said by whoever asks all of it
        if connection.failed:
            raise
        return None
    finally:
        connection.drop(uploads.view)
    if _compared(listed, theirs, local, table) or unfailing(connection):
        return None
    return repr([_plain(theirs.column(f"x{i}"), probe.type) for i, probe in enumerate(listed)])


def differing_orders(connection: Connection, local: Local) -> list[str]:
    """The types by whose order FIRST and LAST take another row on Spark than on DuckDB, of all rows and of some."""
    table = rows()
    uploads = uploaded(connection, table, _KINDS, dealt_out=True)
    columns: dict[str, exp.Expr] = {}
    for name, kind in TYPES.items():
        for end, desc in ((exp.First, True), (exp.Last, True), (exp.First, False)):
            if desc and kind in ("HUGEINT", "UBIGINT", "DECIMAL(38,10)"):
                continue
            keys = [exp.Ordered(this=exp.column(name, quoted=True), desc=desc, nulls_first=end is exp.First)]
            keys.append(exp.Ordered(this=exp.column(PLACE, quoted=True), desc=False, nulls_first=False))
            taken = end(this=exp.Order(this=exp.column(PLACE, quoted=True), expressions=keys))
            there = exp.Not(this=exp.Is(this=exp.column(name, quoted=True), expression=exp.Null()))
            few = exp.Filter(this=taken.copy(), expression=exp.Where(this=there))
            columns |= {f"{name} {len(columns)}": taken, f"{name} {len(columns) + 1}": few}
    query = exp.select(*(exp.alias_(e, name, quoted=True) for name, e in columns.items()), copy=False).from_(PROBE)
    text = write(query, {PROBE: Table(uploads.view, columns_of(list(_KINDS.items())))})
    try:
        theirs = connection.arrow(text.sql, text.parameters)
    finally:
        connection.drop(uploads.view)
    ours = local(query, {PROBE: table}, 60)
    differ = [name for i, name in enumerate(columns) if ours.column(i).to_pylist() != theirs.column(i).to_pylist()]
    return sorted({f"an order of {TYPES[name.split()[0]]}" for name in differ})


def unfailing(connection: Connection) -> list[str]:
    """What gives a number where it must fail: sums, casts and divisions, past the end of integers or by nothing."""
    largest = pa.table({"v": pa.array([2**63 - 1] * 4, pa.int64())})
    view = connection.view(largest, {"v": "`v`"}, dealt_out=True)
    found = []
    for text in ("SUM(v)", "MAX(v + 1)", "MAX(CAST(v AS INT))", "MAX(v div (v - v))"):
        with suppress(DataError):
            connection.arrow(f"SELECT {text} AS x FROM {view}", {})
            found.append(text)
    connection.drop(view)
    if connection.failed:  # then it is no answer that each of them failed
        raise engine_failed()
    return found


def conform(connection: Connection, local: Local) -> None:
    """Refuse a Spark that computes anything else than DuckDB, or that adds up integers past their type in silence."""
    different = sorted({probe.about for probe, _ in differences(connection, local)})
    different += differing_orders(connection, local)
    different += [f"{text}, which must fail" for text in unfailing(connection)]
    if different:
        raise DataError(
            f"the Spark that answers is refused: it computes otherwise than DuckDB in {'; '.join(different)}",
            code="spark-differs",
            hint="use Apache Spark 4.3 itself, not an engine that speaks its protocol; docs/scale.md says more",
        )


def _plain(column: Any, type_: Type) -> list[Any]:
    """Values that can be compared: moments as numbers, floats as they are in memory but for NaN's many spellings."""
    if type_.is_date:
        return list(column.cast(pa.date32()).cast(pa.int32()).to_pylist())
    if type_.is_timestamp:
        return list(column.cast(pa.timestamp("us", tz="UTC" if type_.has_zone else None)).cast(pa.int64()).to_pylist())
    return list(as_arrow(column, type_).to_pylist())


def _same(a: Any, b: Any, *, near: bool) -> bool:
    if not isinstance(a, float) or not isinstance(b, float):
        return bool(a == b)
    if a != a or b != b:
        return a != a and b != b
    return _bits(a) == _bits(b) or (near and abs(_bits(a) - _bits(b)) <= ULPS)


def _bits(x: float) -> int:
    """Its place in the order of doubles."""
    bits: int = struct.unpack("<q", struct.pack("<d", x))[0]
    return bits if bits >= 0 else -(bits & (2**63 - 1)) - 1
