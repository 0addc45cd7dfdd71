"""Aggregates and windows of statements in Spark's words.

A FILTER becomes a CASE inside of the aggregate, which Spark has in windows, too. Sums are of integers and decimals
alone: adding up floats depends on the order of rows, and with it on which task was tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpsql.backends.spark.expressions import Expressions
from dpsql.backends.spark.first import first_or_last
from dpsql.backends.spark.values import MAX_ROWS, MOST, Value, lacks, spark_type, value, width
from dpsql.core.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, decimal

Over = Callable[[str], str]
LIMB = 22  # bits
SHORT = 5_000  # characters of an argument that is written more than once


def aggregate(write: Expressions, node: exp.Expr, *, grouped: bool, over: Over = lambda call: call) -> Value | None:
    """An aggregate; None of what is none. grouped: there is a row in each group. over: what makes a window of it."""
    where, call = None, node
    if isinstance(node, exp.Filter):
        where, call = write(node.expression.this).text, node.this
    if not isinstance(call, exp.Count | exp.CountIf | exp.Sum | exp.Max | exp.Min | exp.LogicalAnd | exp.LogicalOr):
        return first_or_last(call, where, write, over) if isinstance(call, exp.First | exp.Last) else None
    if isinstance(call, exp.CountIf):
        test = write(call.this).text
        return Value(over(f"COUNT({_kept('1', _both(where, test))})"), BIGINT, 0, MAX_ROWS, 1)
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Star):
        counted = "COUNT(*)" if where is None else f"COUNT({_kept('1', where)})"
        return Value(over(counted), BIGINT, 1 if grouped and where is None else 0, MAX_ROWS, 1)
    inner, word = call.this, ""
    if isinstance(inner, exp.Distinct):
        (inner,), word = inner.expressions, "DISTINCT "
    x = write(inner)
    argument = x.text if where is None else _kept(x.text, where)
    if isinstance(call, exp.Count):
        return Value(over(f"COUNT({word}{argument})"), BIGINT, 0, MAX_ROWS, 1)
    if isinstance(call, exp.Sum):
        return _sum(x, argument, word, over)
    if isinstance(call, exp.LogicalAnd | exp.LogicalOr):
        name = "BOOL_AND" if isinstance(call, exp.LogicalAnd) else "BOOL_OR"
        return value(over(f"{name}({argument})"), BOOLEAN)
    name = "MAX" if isinstance(call, exp.Max) else "MIN"
    return Value(over(f"{name}({argument})"), x.type, x.low, x.high)


def _sum(x: Value, argument: str, word: str, over: Over) -> Value:
    """Theorem GRID-1: fewer than 2^40 rows, each of at most `share`, in 64 bits where these hold that."""
    if x.type.is_decimal:
        to = decimal(38, x.type.scale or 0)
        return Value(f"CAST({over(f'SUM({word}CAST({argument} AS {spark_type(to)}))')} AS {spark_type(to)})", to)
    share = x.share
    if not x.type.is_integer or share is None:
        raise lacks(f"a sum of {x.type.sql}")
    most = share * MAX_ROWS
    if most > MOST:
        raise lacks("a sum of more than 38 digits", "give the column a narrower range")
    kind = BIGINT if most < 2**63 else HUGEINT
    low = 0 if x.low is not None and x.low >= 0 else -most
    high = 0 if x.high is not None and x.high <= 0 else most
    if kind == HUGEINT and not word and width(x.type) <= width(BIGINT) and len(argument) <= SHORT:
        return Value(_in_limbs(share, argument, over), kind, low, high, share)
    narrower = width(kind) < width(x.type)  # by its bounds: a cast that raises would tell of a row
    summed = over(f"SUM({word}{'TRY_CAST' if narrower else 'CAST'}({argument} AS {spark_type(kind)}))")
    return Value(summed if kind == BIGINT else f"CAST({summed} AS DECIMAL(38,0))", kind, low, high, share)


def _in_limbs(share: int, argument: str, over: Over) -> str:
    """Σx as 2^22·Σ⌊x/2^22⌋ + Σ(x mod 2^22), or in three such parts: sums in 64 bits, which Spark adds up faster.

    Theorem FORM-1: of fewer than 2^40 rows, so that parts of 22 bits add up to less than 2^62; and so does the first
    part, which has no more than its share of each row, and 1 for what was rounded.
    """
    x, mask, parts = f"CAST({argument} AS BIGINT)", 2**LIMB - 1, []
    shifts = [LIMB, 0] if share < 2**43 else [2 * LIMB, LIMB, 0]
    for shift in shifts:
        part = f"SHIFTRIGHT({x}, {shift})" if shift else x
        summed = over(f"SUM({part if shift == shifts[0] else f'({part} & {mask})'})")
        whole = f"CAST({summed} AS DECIMAL(38,0))"
        parts.append(f"CAST(({whole} * {2**shift}) AS DECIMAL(38,0))" if shift else whole)
    return f"CAST(({' + '.join(parts)}) AS DECIMAL(38,0))"


def _kept(text: str, where: str) -> str:
    return f"CASE WHEN {where} THEN {text} END"


def _both(where: str | None, test: str) -> str:
    return test if where is None else f"({where} AND {test})"


# ---------------------------------------------------------------- windows

_RANKS: dict[type[exp.Expr], str] = {exp.RowNumber: "ROW_NUMBER", exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK"}
_SHARES: dict[type[exp.Expr], str] = {exp.PercentRank: "PERCENT_RANK", exp.CumeDist: "CUME_DIST"}
_SHIFTED: dict[type[exp.Expr], str] = {exp.Lag: "LAG", exp.Lead: "LEAD"}
_ENDS: dict[type[exp.Expr], str] = {exp.FirstValue: "FIRST_VALUE", exp.LastValue: "LAST_VALUE"}


def window(write: Expressions, node: exp.Window) -> Value:
    """A window function. The order of NULLs is written, since engines differ in it."""
    parts = ", ".join(write(p).text for p in node.args.get("partition_by") or ())
    order = node.args.get("order")
    ordered = ", ".join(_ordered(write, o) for o in order.expressions) if order is not None else ""
    clauses = [f"PARTITION BY {parts}" if parts else "", f"ORDER BY {ordered}" if ordered else "", _frame(node)]
    call = node.this
    nulls = " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else ""
    call = call.this if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) else call

    def over(text: str) -> str:
        return f"{text}{nulls} OVER ({' '.join(c for c in clauses if c)})"

    if type(call) in _RANKS:  # Theorem TOTAL-1, On Spark: its own are INT, in which it would multiply them
        return Value(f"CAST({over(f'{_RANKS[type(call)]}()')} AS BIGINT)", BIGINT, 1, MAX_ROWS)
    if type(call) in _SHARES:
        return Value(over(f"{_SHARES[type(call)]}()"), DOUBLE)
    if type(call) in _ENDS:
        x = write(call.this)
        return Value(over(f"{_ENDS[type(call)]}({x.text})"), x.type, x.low, x.high)
    if type(call) in _SHIFTED:
        return _shifted(write, call, over)
    if call.find(exp.Distinct) is not None:
        raise lacks("DISTINCT in a window", "count values in a subquery: GROUP BY the unit")
    found = aggregate(write, call, grouped=True, over=over) if not nulls else None
    if found is None:
        raise lacks(f"{call.key.upper()} as a window")
    return replace(found, each=None)  # each row has a sum of several rows


def _shifted(write: Expressions, call: exp.Expr, over: Over) -> Value:
    x, arguments = write(call.this), []
    if (offset := call.args.get("offset")) is not None:
        arguments.append(write(offset).text)
    low, high = x.low, x.high
    if (default := call.args.get("default")) is not None:
        other = write(default)
        arguments.append(other.text)
        known = None not in (low, high, other.low, other.high)
        low, high = (min(low or 0, other.low or 0), max(high or 0, other.high or 0)) if known else (None, None)
    return Value(over(f"{_SHIFTED[type(call)]}({', '.join([x.text, *arguments])})"), x.type, low, high)


def _ordered(write: Expressions, node: exp.Expr) -> str:
    inner = node.this if isinstance(node, exp.Ordered) else node
    way = "DESC" if node.args.get("desc") else "ASC"
    nulls = "FIRST" if isinstance(node, exp.Ordered) and node.args.get("nulls_first") else "LAST"
    return f"{write(inner).text} {way} NULLS {nulls}"


def _frame(node: exp.Window) -> str:
    spec = node.args.get("spec")
    if spec is None:
        return ""

    def end(which: str) -> str:
        edge, side = spec.args.get(which), spec.args.get(f"{which}_side")
        text = edge if isinstance(edge, str) else str(edge.this) if edge is not None else "CURRENT ROW"
        return f"{text} {side or ''}".strip()

    return f"{str(spec.args.get('kind')).upper()} BETWEEN {end('start')} AND {end('end')}"
