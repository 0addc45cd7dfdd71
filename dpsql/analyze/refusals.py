"""Why analyze says no, in words, and what to write instead. A way out that is named has been tried on the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from math import ceil, floor

from sqlglot import exp

from dpsql.aggregates import FORMS
from dpsql.analyze.cells import Lister
from dpsql.analyze.domains import MAX_CELLS, MAX_IMPLIED, SUBQUERY, Domain
from dpsql.analyze.variables import KeyColumn, over_variables
from dpsql.core.errors import Error, PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range, Value
from dpsql.plan.nodes import Aggregate
from dpsql.sql.functions.casts import as_number_hint
from dpsql.sql.google import Bounds
from dpsql.sql.refuse import Place, ends_to_name, refuse, shown
from dpsql.sql.scalar import Scalar, scalar
from dpsql.statistics.sums import own_step

Known = Mapping[str, Scalar]
LONGEST = 200
"""Characters of an expression that a hint repeats whole, so that it can be asked."""

# ---------------------------------------------------------------- values


def no_condition(clause: str, written: exp.Expr, found: Scalar) -> SQLError:
    """WHERE or FILTER of something that is neither true nor false."""
    text = shown(written)
    compared = f"{text} > 0" if found.type.is_numeric else f"{text} IS NOT NULL"
    return refuse(
        SQLError,
        f"{clause} takes a condition, and {text} is {found.type}",
        written,
        code="type",
        hint=f"compare it: {compared}",
    )


def no_number(call: Aggregate, value: Scalar) -> SQLError:
    """An aggregate of numbers over something else."""
    text = shown(written_argument(call))
    hint = as_number_hint(value.type, text)
    if value.type.is_text:
        low, high, meaning = ends_to_name(Range())
        hint = f"write {_with(call, f'CLIP(TRY_CAST({text} AS DOUBLE), {low}, {high})')}{meaning}"
    elif value.type.is_boolean:
        hint = f"write {_with(call, f'CAST({text} AS INTEGER)')}"
    return refuse(
        SQLError,
        f"{call.function} takes a number, not {value.type.sql}",
        written_argument(call),
        code="type",
        hint=hint,
    )


def no_range(call: Aggregate, value: Scalar, known: Known, columns: Mapping[str, KeyColumn]) -> PrivacyError:
    """An aggregate over a value that one row could make as large as it likes."""
    argument, written = call.argument, written_argument(call)
    assert argument is not None
    table = columns[argument.name].table if isinstance(argument, exp.Column) else ""
    named = f"{table}.{shown(argument)}" if table else shown(written)
    low, high = value.range.low, value.range.high
    side = "" if low is None and high is None else f": it has no {'lower' if low is None else 'upper'} end"
    side = side if low is None or high is None else ": the one it has is too wide"
    here = shown(argument) == shown(written)  # else it is written in a subquery, and its parts have no names here
    found = _declared(argument, known, columns), _away_from_zero(argument, known) if here else None
    ways = [way for way in found if way is not None]
    part = _culprit(argument, known) if here else None
    logarithms = call.recipe is not None and call.recipe.above_zero
    of, place, kind = value.range, written, scalar(argument, known).type
    if logarithms:
        of = Range(None, _before_logarithm(argument, known))
    elif of.is_finite:  # these ends are too far apart
        of = Range()
    if part is not None:
        inner = scalar(part, known)
        of, place, kind, side = inner.range, part, inner.type, f": {shown(part)} has none"
    first, last, meaning = ends_to_name(of, kind)
    clipped = f"CLIP({shown(written, LONGEST)}, {first}, {last})"
    if part is not None:
        clipped = shown(_clipped(argument, part, exp.Var(this=first), exp.Var(this=last)), LONGEST)
    above = ", and low is above 0" if logarithms else ""
    ways.append(f"clip it in the query: {_with(call, clipped)}{meaning}{above}")
    return refuse(
        PrivacyError,
        f"{call.function} needs a range above 0 for {named}"
        if logarithms
        else f"{call.function} needs a range for {named}{side}",
        place,
        code="needs-range",
        hint="\nor ".join(ways),
    )


def _before_logarithm(argument: exp.Expr, known: Known) -> Value | None:
    """The upper end of a value of which the logarithm is taken."""
    inner = argument.this if isinstance(argument, exp.Ln) else None
    return None if not isinstance(inner, exp.Expr) else scalar(inner, known).range.high


def written_argument(call: Aggregate) -> exp.Expr:
    """The argument of an aggregate as the query writes it, which may name an expression of a subquery."""
    node = call.node.this if isinstance(call.node, exp.Filter) else call.node
    argument = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    while isinstance(argument, exp.Distinct | exp.Order):
        argument = argument.expressions[0] if isinstance(argument, exp.Distinct) else argument.this
    assert isinstance(argument, exp.Expr)
    return argument


def second_alone(call: Aggregate) -> exp.Expr:
    """An aggregate of pairs as if it were one of its second value alone: where messages about that one point."""
    node = call.node.this if isinstance(call.node, exp.Filter) else call.node
    alone = type(node)(this=node.expression)
    alone.meta.update(node.meta, first=shown(node.this, LONGEST))
    return alone


def _with(call: Aggregate, argument: str) -> str:
    """The call with another argument in place of the one that a message is about."""
    node = call.node.this if isinstance(call.node, exp.Filter) else call.node
    if (first := node.meta.get("first")) is not None:
        return f"{call.function}({first}, {argument})"
    more = node.args.get("expression") or node.args.get("quantile")  # of a pair, or the share of a quantile
    more = more if call.second is not None or call.at else None
    return f"{call.function}({argument}{f', {shown(more, LONGEST)}' if isinstance(more, exp.Expr) else ''})"


def _declared(argument: exp.Expr, known: Known, columns: Mapping[str, KeyColumn]) -> str | None:
    """Ranges for the columns that have none, where that gives the whole expression one."""
    lacking = [n for n in dict.fromkeys(c.name for c in argument.find_all(exp.Column)) if _could_have(known[n])]
    tables = {columns[n].table for n in lacking}
    if len(tables) != 1 or any(columns[n].public is not None or not columns[n].table for n in lacking):
        return None  # computed columns have no place in the policy
    table = tables.pop()
    if table == SUBQUERY:
        return None  # nor have values that are answered first
    for low, high in ((0, 500), (1, 500)):
        examples = {n: _example(known[n], low, high) for n in lacking}
        given = {n: replace(known[n], range=known[n].range.intersect(r)) for n, r in examples.items()}
        if lacking and _finite(argument, {**known, **given}):
            ends = {n: ends_to_name(known[n].range)[:2] for n in lacking}
            lines = " and ".join(f"{n} = {{ min = {first}, max = {last} }}" for n, (first, last) in ends.items())
            above = ", with low above 0" if low > 0 and "min = low" in lines else ""
            return (
                f"give {' and '.join(lacking)} a min and a max in the policy: [tables.{table}.columns] {lines}{above}"
            )
    return None


def _could_have(column: Scalar) -> bool:
    kind = column.type
    return (kind.is_numeric or kind.is_date or kind.is_timestamp) and not column.range.is_finite


def _example(column: Scalar, low: int, high: int) -> Range:
    if column.type.is_date:
        return Range(date(2000, 1, 1), date(2029, 12, 31))
    if column.type.is_timestamp:
        return Range(datetime(2000, 1, 1), datetime(2029, 12, 31))
    return Range.of(low, high)


def _away_from_zero(argument: exp.Expr, known: Known) -> str | None:
    """A divisor that can't be 0, where that gives the whole expression a range."""
    for division in argument.find_all(exp.Div, exp.IntDiv):
        divisor = scalar(division.expression, known).range
        if not divisor.contains(Fraction(0)):
            continue
        changed = argument.copy()
        for one in changed.find_all(exp.Div, exp.IntDiv):
            if one == division:
                bounded = exp.Greatest(
                    this=division.expression.copy(), expressions=[exp.Literal.number(1)], ignore_nulls=True
                )
                one.set("expression", bounded)
        if _finite(changed, known):
            return f"keep the divisor, which can be 0, away from it: {shown(changed, 200)}"
    return None


def _culprit(argument: exp.Expr, known: Known) -> exp.Expr | None:
    """The smallest part without a range that, once clipped, gives the whole expression one; None if that is no part."""
    for part in reversed([n for n in argument.walk() if n is not argument and not isinstance(n, exp.Paren)][:100]):
        try:
            value = scalar(part, known)
        except Error:
            continue
        lacks = value.type.is_numeric and not value.range.is_finite
        if lacks and _finite(_clipped(argument, part, exp.Literal.number(0), exp.Literal.number(500)), known):
            return part
    return None


def _clipped(argument: exp.Expr, part: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    """The argument with a part of it between these ends, which are numbers or words."""
    clip = exp.Anonymous(this="CLIP", expressions=[part.copy(), low, high])
    return argument.transform(lambda n: clip.copy() if n == part else n)


def _finite(expression: exp.Expr, known: Known) -> bool:
    try:
        return scalar(expression, known).range.is_finite
    except Error:
        return False


def check_clip(bounds: Bounds, value: Scalar) -> None:
    """Bounds per unit and group must leave a sum something that its type can hold."""
    step = own_step(value.type)
    ends = (0, 1) if step is None else (ceil(bounds.low / step), floor(bounds.high / step))
    if ends[0] <= ends[1] and ends != (0, 0):
        return
    error = SQLError(
        f"no {value.type.sql} but 0 lies within these bounds",
        code="contribution-bounds",
        hint=f"make them wider: from 0 to {float(step or 1):g} at least",
    )
    error.offsets = bounds.place
    raise error


def not_distinct(call: Aggregate) -> PrivacyError:
    """Anything but a count of distinct values."""
    text = shown(written_argument(call), 40)
    shares = ", ".join(f"{float(share):g}" for share in call.at if FORMS[call.function].takes_shares)
    further = f", [{shares}]" if call.listed else f", {shares}" if shares else ""
    return refuse(
        PrivacyError,
        f"{call.function}(DISTINCT {text}{further}): distinct values can only be counted",
        call.node,
        code="distinct",
        hint=f"leave DISTINCT out: {call.function}({text}{further})\n"
        f"or keep the values that enough rows have: SELECT {call.function}(x{further}) FROM "
        f"(SELECT {text} AS x FROM … GROUP BY 1 HAVING COUNT(*) > 50)",
    )


# ---------------------------------------------------------------- keys


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Why the values of a key aren't public, and how they could be."""

    place: Place
    why: str
    way: str
    shared: bool = True  # could a group hold more than one unit? Others are never selected

    @property
    def better(self) -> str | None:
        """A better way to write the keys than to have them selected."""
        return f"{self.why}; better: {self.way}" if self.shared else None


def no_delta(keys: Unlisted) -> PrivacyError:
    """Keys that only private selection could find, in a query that may not select."""
    select = 'or let keys be selected privately: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6'
    return refuse(
        PrivacyError,
        f"{keys.why}; selecting keys privately takes δ > 0" if keys.shared else keys.why,
        keys.place,
        code="private-keys",
        hint=f"{keys.way}\n{select}" if keys.shared else keys.way,
    )


def not_listed(keys: Unlisted, name: str) -> PrivacyError:
    """An aggregate of the counts of all values, where these aren't public."""
    message = f"{keys.why}, and {name} needs a noisy count of each of them"
    return refuse(PrivacyError, message, keys.place, code="private-keys", hint=keys.way.replace("group by", "take"))


def not_public(keys: Unlisted) -> PrivacyError:
    """group_selection_strategy = PUBLIC_GROUPS where keys could only be selected privately."""
    return refuse(
        PrivacyError,
        f"{keys.why}, so PUBLIC_GROUPS can't be the group_selection_strategy",
        keys.place,
        code="private-keys",
        hint=keys.way
        + ("\nor leave group_selection_strategy out: keys are then selected privately" if keys.shared else ""),
    )


def unlisted(
    keys: Sequence[exp.Expr],
    found: Sequence[Domain | None],
    cells: int | None,
    columns: Mapping[str, KeyColumn],
    lister: Lister,
    unit: str | None,
) -> Unlisted:
    """Of the keys of a release, of which some have no public values, or all together too many."""
    missing = [key for key, domain in zip(keys, found, strict=True) if domain is None]
    if cells is not None:
        why = f"the keys have {cells:,} combinations, and at most {MAX_CELLS:,} are listed"
        return Unlisted(keys, why, "group by fewer keys, or by coarser ones: x // 100, DATE_TRUNC('month', x)")
    key = missing[0]
    leaves = dict.fromkeys(c.name for c in key.find_all(exp.Column))
    lacking = [leaf for leaf in leaves if lister.domain(columns[leaf].made or exp.null()) is None]
    if not lacking:
        why = f"{shown(key)} can have more than {MAX_IMPLIED:,} values"
        return Unlisted(key, why, "group by its parts, or by something coarser")
    name = lacking[0]
    if name == unit and isinstance(key, exp.Column):
        why = f"{name} is the privacy unit: each group would be one person's"
        return Unlisted(key, why, "group by something that many people share", shared=False)
    why, way = _unlisted_column(name, columns[name], _RangedKey(key, columns, lister))
    if len(leaves) == 1 and columns[name].scalar.range.is_finite and not isinstance(key, exp.Column):
        why = f"{shown(key)} can have more than {MAX_IMPLIED:,} values"
    return Unlisted(key, why, way)


@dataclass(frozen=True, slots=True)
class _RangedKey:
    """A key without public values, of which some range of a column might make some."""

    key: exp.Expr
    columns: Mapping[str, KeyColumn]
    lister: Lister

    def is_public_with_range(self, name: str) -> bool:
        """Would the key have public values if the policy gave this column a range?"""
        made, variable = over_variables(self.key, self.columns), self.columns[name].made
        if made is None or not isinstance(variable, exp.Column):
            return False
        example = _example(self.columns[name].scalar, 0, 100)
        return self.lister.with_range(variable.name, example).domain(made) is not None


def _range_needed(name: str, column: KeyColumn, ranged: _RangedKey) -> str:
    """Which end of a column's range the policy lacks, and what would be public then."""
    said, known = column.policy, column.scalar
    ends = (None, None) if said is None else (said.min, said.max)
    low, high = ("…" if end is None else str(end) for end in ends)
    lacks = "a min and a max" if ends == (None, None) else "a min" if ends[0] is None else "a max"
    line = f"[tables.{column.table}.columns] {name} = {{ min = {low}, max = {high} }}"
    way = f"give {name} {lacks} in the policy: {line}"
    if not ranged.is_public_with_range(name):
        return f"{way}, and group by {_coarser(name, known)}"
    return way if isinstance(ranged.key, exp.Column) else f"{way}; then the values of {shown(ranged.key)} are public"


def _unlisted_column(name: str, column: KeyColumn, ranged: _RangedKey) -> tuple[str, str]:
    """Why a column has no public values, and what to write in the policy or in the query."""
    known, table = column.scalar, f"[tables.{column.table}.columns]"
    low, high, kind = known.range.low, known.range.high, known.type
    why = f"the values of {name} are not public"
    if not column.table and (kind.is_text or low is None or high is None):  # no policy speaks of what a query computes
        return why, "group by a column of a table instead, and list its values in the policy"
    listed = f'list them in the policy: {table} {name} = {{ values = ["…", "…"] }} or {{ references = "table.column" }}'
    if kind.is_text:
        return why, listed
    if not (kind.is_numeric or kind.is_date or kind.is_timestamp):
        return f"{name} is {kind}, whose values can't be listed", "group by another column"
    if low is None or high is None:
        return why, _range_needed(name, column, ranged)
    if kind.is_integer or kind.is_date:
        count = floor(known.range.span) + 1
        why = f"{name} can have {count:,} values, and at most {MAX_IMPLIED:,} are listed from a range"
        return why, f"group by something coarser: {_coarser(name, known)}"
    return f"{name} is {kind}, whose values aren't listed", f"group by something coarser: {_coarser(name, known)}"


def _coarser(name: str, known: Scalar) -> str:
    if known.type.is_date or known.type.is_timestamp:
        return f"DATE_TRUNC('{'day' if _days(known.range.low, known.range.high) else 'month'}', {name})"
    step = 10 if known.type.is_integer else 1
    while known.range.is_finite and known.range.span / step >= MAX_IMPLIED - 1:
        step *= 10
    if known.type.is_integer:
        return f"{name} // {step}"
    return f"CAST(FLOOR({name}) AS INTEGER)" if step == 1 else f"FLOOR({name} / {step}) * {step}"


def _days(low: Value | None, high: Value | None) -> bool:
    """Are the days between two timestamps few enough to list?"""
    return isinstance(low, datetime) and isinstance(high, datetime) and (high - low).days < MAX_IMPLIED - 1
