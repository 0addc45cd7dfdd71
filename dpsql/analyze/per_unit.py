"""Values of one unit's own rows: aggregates in GROUP BY unit, and windows PARTITION BY unit.

Theorem OWN-6: each is a deterministic function of the unit's rows as a multiset. Two threads make float sums and the
choice among ties depend on other rows (FACT-FLOAT-1, FACT-ORDER-1), so floats are added up in fixed point and orders
are made total.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.grid import choose_grid
from dpsql.core.ranges import Range
from dpsql.core.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, Type, decimal, whole_digits
from dpsql.sql.dialect import data_type
from dpsql.sql.functions.base import Scalar, call, wrap
from dpsql.sql.functions.casts import align, as_boolean, convert
from dpsql.sql.gridded import cast, gridded, number, present
from dpsql.sql.nodes import aggregate_form, is_aggregate
from dpsql.sql.refuse import ends_to_name, refuse, shown
from dpsql.sql.scalar import scalar, tighten
from dpsql.sql.trees import copied

Known = Mapping[str, Scalar]
Expr = exp.Expr
Wrap = Callable[[Expr], Expr]  # adds FILTER and OVER to a call

MAX_ROWS = 2**40  # a table has fewer rows
MAX_OFFSET = 1_000_000  # of LAG, LEAD and frames


def own_aggregate(node: Expr, known: Known, rows: int | None) -> Scalar:
    """An aggregate call over the rows of one unit and group; rows: how many these are taken to be at most."""
    return _Call(node, known, rows, lambda e: e).value()


@dataclass(frozen=True, slots=True)
class _Call:
    node: Expr
    known: Known
    rows: int | None
    over: Wrap

    def value(self) -> Scalar:
        call, known, where = self.node, self.known, None
        if isinstance(call, exp.Filter):
            written = call.expression.this
            where = as_boolean(scalar(written, known), written)
            known = tighten(written, known)
            call = call.this
        if not is_aggregate(call):
            raise _unsupported(call)

        def wrapped(e: Expr) -> Expr:
            filtered = e if where is None else exp.Filter(this=e, expression=exp.Where(this=where.sql.copy()))
            return self.over(filtered)

        found = self._aggregate(aggregate_form(call).name, call, known, wrapped)
        if where is not None and not isinstance(call, exp.Count):
            found = Scalar(found.sql, found.type, found.range.with_nullable(True), found.extent)
        return found

    def _aggregate(self, name: str, call: Expr, known: Known, wrapped: Wrap) -> Scalar:
        arguments, distinct, order = _arguments(call)
        match name:
            case "COUNT" if not arguments:
                return self._count(wrapped(exp.Count(this=exp.Star())))
            case "COUNT" if len(arguments) == 1:
                value = scalar(arguments[0], known)
                counted: Expr = exp.Distinct(expressions=[canonical(value)]) if distinct else value.sql.copy()
                return self._count(wrapped(exp.Count(this=counted)))
            case "COUNT_IF" if len(arguments) == 1:
                return self._count(wrapped(exp.CountIf(this=as_boolean(scalar(arguments[0], known), arguments[0]).sql)))
            case "SUM" | "AVG" if len(arguments) == 1:
                value = _number(scalar(arguments[0], known), arguments[0], name)
                total = self._sum(value, arguments[0], distinct, wrapped)
                return total if name == "SUM" else self._average(value, total, distinct, wrapped)
            case "MIN" | "MAX" | "ANY_VALUE" if len(arguments) == 1:  # any value: the least is one, whatever the order
                value = _comparable(scalar(arguments[0], known), arguments[0])
                made = exp.Max(this=canonical(value)) if name == "MAX" else exp.Min(this=canonical(value))
                return Scalar(wrapped(made), value.type, value.range.with_nullable(True), value.extent)
            case "BOOL_AND" | "BOOL_OR" if len(arguments) == 1:
                test = as_boolean(scalar(arguments[0], known), arguments[0])
                all_or_any = exp.LogicalAnd if name == "BOOL_AND" else exp.LogicalOr
                return Scalar(wrapped(all_or_any(this=copied(test.sql))), BOOLEAN, Range.of(0, 1))
            case "ARG_MAX" | "ARG_MIN" if len(arguments) == 2:
                return self._extreme(name, arguments, known, wrapped)
            case "FIRST" | "LAST" if len(arguments) == 1 and order:
                value = _comparable(scalar(arguments[0], known), arguments[0])
                ordered = [*(_ordered(o, known) for o in order), *ties([value])]
                end = exp.First if name == "FIRST" else exp.Last
                shown_value = end(this=_sorted(value.sql.copy(), ordered))
                return Scalar(wrapped(shown_value), value.type, value.range.with_nullable(True), value.extent)
            case _:
                raise _unsupported(call)

    def _count(self, sql: Expr) -> Scalar:
        top = None if self.rows is None else Fraction(self.rows)
        why = () if top is None else (f"at most {self.rows} rows of one unit",)
        return Scalar(sql, BIGINT, Range(Fraction(0), top, False, why), Range.of(0, MAX_ROWS))

    def _sum(self, value: Scalar, written: Expr, distinct: bool, wrapped: Wrap) -> Scalar:
        """Integers and decimals as they are; floats on a grid, since adding them up depends on the order."""
        range_ = self._total(value.range)
        if value.type.is_float:
            low, high = value.range.low, value.range.high
            if distinct or low is None or high is None:
                raise refuse(
                    PrivacyError,
                    f"SUM and AVG of {shown(written)} within a unit need a range: floats are added up in fixed point",
                    written,
                    code="needs-range",
                    hint=f"give it a min and a max in the policy, or clip it: {_clipped_sum(value, written)}"
                    if not distinct
                    else f"cast it: SUM(DISTINCT CAST({shown(written)} AS DECIMAL(18, 3)))",
                )
            grid = choose_grid(DOUBLE, value.range, Fraction(0))
            whole = wrapped(exp.Sum(this=gridded(convert(value, DOUBLE).sql, grid)))
            step = cast(exp.Literal.string(repr(float(grid.step))), "DOUBLE")
            return Scalar(exp.Mul(this=cast(whole, "DOUBLE"), expression=step), DOUBLE, range_)
        value = _narrow(value, written)
        limits = value.type.limits
        assert limits is not None
        kind = HUGEINT if value.type.is_integer else decimal(38, value.type.scale or 0)
        argument = value.sql.copy()
        made = exp.Sum(this=exp.Distinct(expressions=[argument]) if distinct else argument)
        reach = Range(limits[0] * MAX_ROWS, limits[1] * MAX_ROWS)
        return Scalar(wrapped(made), kind, range_, reach)

    def _total(self, one: Range) -> Range:
        if self.rows is None or not isinstance(one.low, Fraction | None) or not isinstance(one.high, Fraction | None):
            return Range(nullable=True, why=one.why)
        low = None if one.low is None else min(one.low, Fraction(0)) * self.rows
        high = None if one.high is None else max(one.high, Fraction(0)) * self.rows
        return Range(low, high, True, (*one.why, f"at most {self.rows} rows of one unit"))

    def _average(self, value: Scalar, total: Scalar, distinct: bool, wrapped: Wrap) -> Scalar:
        counted: Expr = value.sql.copy()
        if value.type.is_float:
            finite = call("isfinite", value.sql)
            counted = exp.Case(ifs=[exp.If(this=finite, true=exp.Literal.number(1))])
        if distinct:
            counted = exp.Distinct(expressions=[counted])
        values = exp.Nullif(this=wrapped(exp.Count(this=counted)), expression=exp.Literal.number(0))
        sql = exp.Div(this=wrap(cast(total.sql, "DOUBLE")), expression=values)
        return Scalar(sql, DOUBLE, value.range.with_nullable(True))

    def _extreme(self, name: str, arguments: Sequence[Expr], known: Known, wrapped: Wrap) -> Scalar:
        """ARG_MAX(x, y): x of the row with the largest y; of several such rows the smallest x."""
        value, by = (_comparable(scalar(a, known), a) for a in arguments)
        there = exp.and_(present(value.sql), present(by.sql))
        ordered = [exp.Ordered(this=canonical(by), desc=name == "ARG_MAX", nulls_first=False), *ties([value])]
        kept = exp.Case(ifs=[exp.If(this=there, true=value.sql.copy())])
        first = exp.Ordered(this=exp.Not(this=exp.Paren(this=there.copy())), desc=False, nulls_first=False)
        made = exp.First(this=_sorted(kept, [first, *ordered]))
        return Scalar(wrapped(made), value.type, value.range.with_nullable(True), value.extent)


def _arguments(call: Expr) -> tuple[list[Expr], bool, list[exp.Expr]]:
    """Arguments, DISTINCT and ORDER BY of an aggregate call; anything else is refused."""
    if isinstance(call, exp.Anonymous):
        found = list(call.expressions)
    else:
        found = [a for a in (call.args.get("this"), call.args.get("expression")) if isinstance(a, exp.Expr)]
        extra = {k for k, v in call.args.items() if v and k not in ("this", "expression", "big_int")}
        if extra - {"expressions"} or call.args.get("expressions"):
            raise _unsupported(call)
    distinct, order = False, []
    if len(found) == 1 and isinstance(found[0], exp.Distinct):
        found, distinct = list(found[0].expressions), True
    if len(found) == 1 and isinstance(found[0], exp.Order):
        order, found = list(found[0].expressions), [found[0].this]
    return [f for f in found if not isinstance(f, exp.Star)], distinct, order


_INSTEAD = {
    "LIST": "count or compare: COUNT(*), COUNT(DISTINCT x), BOOL_OR(x = 'a')",
    "STRING_AGG": "count or compare: COUNT(*), COUNT(DISTINCT x), BOOL_OR(x = 'a')",
    "MODE": "of several most frequent values it takes any one; take MIN(x) or MAX(x)",
    "FIRST": "say which row is the first: FIRST(x ORDER BY day)",
    "LAST": "say which row is the last: LAST(x ORDER BY day)",
}


def _unsupported(call: Expr) -> PrivacyError:
    name = aggregate_form(call).name if is_aggregate(call) else shown(call)
    return refuse(
        PrivacyError,
        f"{name} within a unit is not supported here",
        call,
        code="own-aggregate",
        hint=_INSTEAD.get(
            name,
            "within a unit there are COUNT, SUM, AVG, MIN, MAX, BOOL_AND, BOOL_OR, ARG_MAX, ARG_MIN; FIRST and LAST "
            "with an ORDER BY",
        ),
    )


def _number(value: Scalar, written: Expr, name: str) -> Scalar:
    if value.type.is_boolean:
        return Scalar(cast(value.sql.copy(), "INTEGER"), Type("INTEGER"), value.range, Range.of(0, 1))
    if not value.type.is_numeric:
        raise refuse(
            SQLError,
            f"{name} takes a number, not {value.type.sql}",
            written,
            code="type",
            hint=f"write {name}(TRY_CAST({shown(written)} AS DOUBLE))",
        )
    return value


def is_narrow(type_: Type) -> bool:
    """Are its numbers so small that MAX_ROWS of them have their place in 38 digits?"""
    return (type_.is_integer and type_.bits < 128) or (type_.is_decimal and (type_.width or 0) <= 26)


def _narrow(value: Scalar, written: Expr) -> Scalar:
    """A number so small that MAX_ROWS of it have their place in 38 digits; wider ones are clipped to their range."""
    if is_narrow(value.type):
        return value
    scale = value.type.scale or 0
    low, high = value.range.low, value.range.high
    if isinstance(low, Fraction) and isinstance(high, Fraction):
        digits = whole_digits(low, high)
        if digits is not None and digits + scale <= 25:
            to = decimal(digits + scale + 1, scale)
            clipped = convert(replace(value, extent=Range(low, high)), to)
            ends = [_decimal(_rounded(end, scale), to) for end in (low, high)]
            # In the value's own type: a HUGEINT beside a decimal would become one, and has no place there above 10^38.
            floor, ceiling = (
                cast(number(round(end)), "HUGEINT") if value.type.is_integer else decimal_end
                for end, decimal_end in zip((low, high), ends, strict=True)
            )
            inside = exp.Between(this=wrap(value.sql), low=floor, high=ceiling)
            narrow = exp.TryCast(this=value.sql.copy(), to=data_type(to.sql))
            cases = [
                exp.If(this=inside, true=narrow),
                exp.If(this=exp.GT(this=wrap(value.sql), expression=ceiling.copy()), true=ends[1].copy()),
                exp.If(this=exp.LT(this=wrap(value.sql), expression=floor.copy()), true=ends[0].copy()),
            ]
            return replace(clipped, sql=exp.Case(ifs=cases))
    raise refuse(
        SQLError,
        f"SUM within a unit of {value.type} could overflow, and nothing says how large {shown(written)} can be",
        written,
        code="needs-range",
        hint=f"cast it: SUM(TRY_CAST({shown(written)} AS BIGINT)); or clip it: {_clipped_sum(value, written)}",
    )


def _clipped_sum(value: Scalar, written: Expr) -> str:
    """What to write instead of the sum of a value that could be anything."""
    low, high, meaning = ends_to_name(value.range)
    return f"SUM(CLIP({shown(written)}, {low}, {high})){meaning}"


def _rounded(end: Fraction, scale: int) -> Fraction:
    return Fraction(round(end * 10**scale), 10**scale)


def _decimal(end: Fraction, to: Type) -> Expr:
    scale = to.scale or 0
    digits = str(abs(int(end * 10**scale))).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return exp.cast(exp.Literal.string(f"-{text}" if end < 0 else text), data_type(to.sql))


def _comparable(value: Scalar, written: Expr) -> Scalar:
    if not value.type.is_key:
        raise refuse(
            SQLError,
            f"{value.type.sql} can't be ordered here",
            written,
            code="type",
            hint="use a number, text, a date or a timestamp",
        )
    return value


def canonical(value: Scalar) -> Expr:
    """One of its equals: −0.0 equals 0.0, and which of them is seen would depend on a row."""
    if not value.type.is_float:
        return value.sql.copy()
    zero = exp.If(this=exp.EQ(this=wrap(value.sql), expression=exp.Literal.number(0)), true=cast_double("0"))
    strange = exp.If(this=call("isnan", value.sql), true=cast_double("nan"))
    return exp.Case(ifs=[zero, strange], default=value.sql.copy())


def cast_double(text: str) -> Expr:
    """A constant double."""
    return cast(exp.Literal.string(text), "DOUBLE")


def ties(values: Sequence[Scalar]) -> list[exp.Expr]:
    """An order of all rows that differ in these values."""
    found: list[exp.Expr] = []
    for value in values:
        # Of types without an order all that can be seen is whether they are NULL, and their text.
        sql = value.sql.copy() if value.type.is_key else cast(value.sql.copy(), "VARCHAR")
        found.append(exp.Ordered(this=sql, desc=False, nulls_first=False))
        if value.type.is_float:  # −0.0 and 0.0 are equal in an order
            sign = call("signbit", value.sql)
            found.append(exp.Ordered(this=sign, desc=False, nulls_first=False))
    return found


def _sorted(value: Expr, ordered: Sequence[Expr]) -> Expr:
    """value ORDER BY …; constants order nothing, and DuckDB refuses some of them there."""
    listed = [o for o in ordered if o.find(exp.Column)]
    return exp.Order(this=value, expressions=listed) if listed else value


def _ordered(node: Expr, known: Known) -> exp.Expr:
    written = node.this if isinstance(node, exp.Ordered) else node
    value = _comparable(scalar(written, known), written)
    flags = {"desc": node.args.get("desc"), "nulls_first": node.args.get("nulls_first")}
    return exp.Ordered(this=value.sql.copy(), **(flags if isinstance(node, exp.Ordered) else {}))


# ---------------------------------------------------------------- windows

_RANKS = {exp.RowNumber: "ROW_NUMBER", exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK"}
_RUNNING = {"COUNT", "COUNT_IF", "SUM", "AVG", "MIN", "MAX", "BOOL_AND", "BOOL_OR"}
_SHARES = (exp.PercentRank, exp.CumeDist)


def own_window(node: exp.Window, known: Known, unit: str, rows: int | None, seen: Sequence[Scalar]) -> Scalar:
    """A window over one unit's rows. seen: everything by which rows differ that anybody looks at later.

    The hidden unit is always a part of the partition: a key may be NULL for many, or promised in vain.
    """
    written_parts = node.args.get("partition_by") or []
    partition = [known[unit].sql, *(canonical(_comparable(scalar(p, known), p)) for p in written_parts)]
    written = node.args["order"].expressions if node.args.get("order") else []
    order = [_ordered(o, known) for o in written]
    spec = _frame(node)
    ignore = isinstance(node.this, exp.IgnoreNulls)
    call = node.this.this if isinstance(node.this, exp.IgnoreNulls | exp.RespectNulls) else node.this

    def over(total: bool) -> Wrap:
        listed = [*order, *ties(seen)] if total else order

        def made(e: Expr) -> Expr:
            inner = exp.IgnoreNulls(this=e) if ignore else e
            clause = exp.Order(expressions=[o.copy() for o in listed]) if listed else None
            return exp.Window(
                this=inner,
                partition_by=[p.copy() for p in partition],
                order=clause,
                spec=spec.copy() if spec else None,
                over="OVER",
            )

        return made

    top = None if rows is None else Fraction(rows)
    if (type(call) in _RANKS or isinstance(call, _SHARES)) and any(call.args.values()):
        raise refuse(
            SQLError,
            f"{shown(call)} takes no argument",
            node,
            code="arity",
            hint="write ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)",
        )
    if type(call) in _RANKS:
        return Scalar(over(isinstance(call, exp.RowNumber))(call.copy()), BIGINT, Range(Fraction(1), top, False))
    if isinstance(call, _SHARES):
        return Scalar(over(False)(call.copy()), DOUBLE, Range.of(0, 1, False))
    if isinstance(call, exp.Lag | exp.Lead):
        return _shifted(call, known, over(True))
    if isinstance(call, exp.FirstValue | exp.LastValue):
        by_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
        if not by_rows and (isinstance(call, exp.LastValue) or spec is not None):
            raise refuse(
                PrivacyError,
                "FIRST_VALUE takes no frame, or one of ROWS; LAST_VALUE one of ROWS: of rows that are equal in the "
                "order either takes any one",
                node,
                code="window-frame",
                hint="write ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING; or FIRST_VALUE, ORDER BY … DESC",
            )
        value = scalar(call.this, known)
        return Scalar(over(True)(type(call)(this=value.sql)), value.type, value.range.with_nullable(True), value.extent)
    plain = call.this if isinstance(call, exp.Filter) else call
    if is_aggregate(plain) and aggregate_form(plain).name in _RUNNING:
        by_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
        return _Call(call, known, rows, over(by_rows)).value()
    raise refuse(
        PrivacyError,
        f"{shown(call)} is not supported as a window within a unit",
        node,
        code="own-aggregate",
        hint="there are ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, COUNT, SUM, AVG, MIN and MAX",
    )


def _shifted(call: Expr, known: Known, over: Wrap) -> Scalar:
    value = scalar(call.this, known)
    offset = call.args.get("offset")
    if offset is not None and not _whole(offset):
        raise refuse(
            SQLError, "LAG and LEAD take a constant number of rows", call, code="window-offset", hint="write LAG(x, 1)"
        )
    parts, nodes = [value], [call.this]
    default = call.args.get("default")
    if default is not None:
        parts.append(scalar(default, known))
        nodes.append(default)
    aligned = align(parts, nodes)
    if default is not None and value.type.is_numeric and aligned[0].type != value.type:  # as DuckDB has it
        aligned = [value, convert(parts[1], value.type)]
    made = type(call)(this=aligned[0].sql.copy(), offset=offset.copy() if offset else None)
    if default is not None:
        made.set("offset", made.args.get("offset") or exp.Literal.number(1))
        made.set("default", aligned[1].sql.copy())
    range_ = aligned[0].range.hull(*(a.range for a in aligned[1:])).with_nullable(True)
    return Scalar(over(made), aligned[0].type, range_)


def _whole(node: object) -> bool:
    """A constant number of rows, which no engine finds too large."""
    return isinstance(node, exp.Literal) and node.is_int and int(node.this) <= MAX_OFFSET


def _frame(node: exp.Window) -> exp.Expr | None:
    """ROWS with constants, or RANGE without offsets: others do arithmetic on the order's values."""
    spec = node.args.get("spec")
    if spec is None:
        return None
    kind = str(spec.args.get("kind") or "").upper()
    ends = [spec.args.get("start"), spec.args.get("end")]
    plain = all(e is None or isinstance(e, str) or _whole(e) for e in ends)
    offsets = any(isinstance(e, exp.Literal) for e in ends)
    if kind not in ("ROWS", "RANGE") or not plain or (kind == "RANGE" and offsets) or spec.args.get("exclude"):
        raise refuse(
            SQLError,
            "this window frame is not supported over private rows",
            node,
            code="window-frame",
            hint="use ROWS BETWEEN 3 PRECEDING AND CURRENT ROW, or no frame",
        )
    assert isinstance(spec, exp.Expr)
    return spec
