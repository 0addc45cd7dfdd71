"""Automatic ranges of values that a query computes, where SQL and policy derive ranges that are far too wide for them.

A total of one unit's rows, a product, or a difference of dates has a range by arithmetic, and mostly fills a small part
of it. Where nobody named a range, a first stage of the query looks for it as it does for a column with bounds = "auto":
a noisy histogram over powers of two, each unit with a mass of 1 (Theorem AUTO-2). It is stored as any release.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

from sqlglot import exp

from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Argument, Checked, CheckedRelease, analyze, value_key
from dpsql.analyze.widths import WideValue
from dpsql.core.errors import Error, PrivacyError
from dpsql.plan.nodes import Filter, Join, Plan, Relation, Release, columns_of, counted_rows, parts_of, unit_of
from dpsql.plan.rows import fresh, plan_column, with_column
from dpsql.plan.unconditional import is_noisy
from dpsql.policy.model import Policy
from dpsql.sql.dialect import cast
from dpsql.sql.parse import parse
from dpsql.sql.trees import copied
from dpsql.statistics.bounds import OCTAVES_UP, AutomaticValue, Seed

SHARE = Fraction(1, 10)  # of a query's ε for each such range, as for a column with bounds = "auto"


def wide_values(checked: Checked, catalog: Catalog) -> list[AutomaticValue]:
    """The values whose ranges are found automatically: a function of the SQL and the policy alone (Theorem AUTO-2).

    checked: with no released range. A value of which no histogram can be made keeps the range that is derived.
    """
    found: dict[object, AutomaticValue] = {}
    for one in checked.releases:
        for wide in (w for argument in one.arguments for w in argument.wide if _needs_range(one, argument, w)):
            key = value_key(one.release.input, wide.written)
            seed = replace(Seed.of(wide.type), low=wide.low, high=wide.high, otherwise=wide.otherwise)
            if (before := found.get(key)) is not None:  # under another FILTER
                seed = _both(seed, before.seed)
            found[key] = AutomaticValue("", wide.text, SHARE, seed, rows=key[0], value=key[1], named=wide.named)
    counted = [value for value in found.values() if _counted(value, catalog) is not None]
    for value in found.values():
        if not value.named and value not in counted:
            raise _without_range(value.title)
    return counted


def _needs_range(one: CheckedRelease, argument: Argument, wide: WideValue) -> bool:
    """Does the noise hang on the range? That of a sum whose limit is chosen is the noise of one unit's total."""
    by_total = argument.recipe.one_number and argument.recipe.summed and "max_rows" in one.bounding.chosen
    return not (by_total and wide.named and not one.private_keys)


def _without_range(text: str) -> PrivacyError:
    """The refusal of a value that has no range, because nobody limits the rows that it is added up of."""
    return PrivacyError(
        f"{text} is added up of any number of rows of one unit, so that it has no range, and none can be found",
        code="needs-range",
        hint="say for how many rows one unit may count: --max-rows 20, max_rows=20, or [privacy] max_rows = 20 in the "
        "policy",
    )


def _both(one: Seed, other: Seed) -> Seed:
    """The seed of two ranges of a value."""
    assert one.otherwise is not None and other.otherwise is not None
    (low, high), (bottom, top) = one.otherwise, other.otherwise
    ends = min(low, bottom), max(high, top)
    return replace(one, low=min(one.low, other.low), high=max(one.high, other.high), otherwise=ends)


def value_histogram(value: AutomaticValue, catalog: Catalog) -> Checked:
    """The histogram of a value over the rows of its release: each unit has a mass of 1 there (Theorem AUTO-2)."""
    checked = _counted(value, catalog)
    assert checked is not None, "a value that can't be counted keeps its derived range"
    return checked


def _counted(value: AutomaticValue, catalog: Catalog) -> Checked | None:
    """The histogram, analyzed once for a query; None where it would be refused, or noisy values decide about its rows.

    Those are released after it: where conditions on them can't be left out, there are no rows yet that it could count.
    """
    if is_noisy(_relation(value.rows)):
        return None
    key = ("value", value.key, value.seed.low < 0)
    return catalog.memo.kept(key, lambda: _analyzed_or_none(value, catalog))


def _analyzed_or_none(value: AutomaticValue, catalog: Catalog) -> Checked | None:
    with suppress(Error):
        return _analyzed(value, catalog)
    return None


def _analyzed(value: AutomaticValue, catalog: Catalog) -> Checked:
    """The rows that have a finite value, counted by its bucket. No limit of the query is part of it, nor its FILTERs.

    The buckets are of the value's type, and its range within a unit isn't derived from max_rows: so that queries with
    other limits find the same histogram.
    """
    rows, written = value.rows, value.value
    assert isinstance(written, exp.Expr)
    relation, bucket = _buckets(_relation(rows), cast(copied(written), "DOUBLE"), value.seed)
    count = counted_rows(None, exp.Count(this=exp.Star()))
    release = Release(relation, (bucket,), (count,))
    post = parse(f"SELECT k0 AS bucket, a0 AS units FROM {_TABLE} ORDER BY k0 NULLS LAST").root
    plan = Plan(f"automatic range of {value.title}", (release,), (_TABLE,), post, frozenset())
    opened = replace(catalog.with_policy(_open(catalog.policy)), ranges={})
    return analyze(plan, Limits(max_rows=1, one_vote=True), opened)


def _buckets(rows: Relation, number: exp.Expr, seed: Seed) -> tuple[Relation, exp.Expr]:
    """The rows with a finite number, and the number's bucket.

    Number and octaves have columns of their own, which the next step names. Not where rows that are their own units are
    joined: those have a name of their own only in the join itself (Theorem OWN-3).
    """
    if unit_of(rows) is None and any(isinstance(part, Join) for part in parts_of(rows)):
        octaves, bucket = (_written(step) for step in seed.sql(_NUMBER, OCTAVES_UP))
        bucket = _in_the_place(bucket, OCTAVES_UP, _in_the_place(octaves, _NUMBER, number))
        return Filter(rows, exp.Anonymous(this="ISFINITE", expressions=[number])), bucket
    name = fresh("value", columns_of(rows))
    finite = Filter(with_column(rows, name, number), exp.Anonymous(this="ISFINITE", expressions=[plan_column(name)]))
    up = fresh(OCTAVES_UP, columns_of(finite))
    octaves, bucket = (_written(step) for step in seed.sql(f'"{name}"', f'"{up}"'))
    return with_column(finite, up, octaves), bucket


def _written(step: str) -> exp.Expr:
    return parse(f"SELECT {step}").root.selects[0]


def _in_the_place(expression: exp.Expr, name: str, value: exp.Expr) -> exp.Expr:
    """The expression with a value in the place of a column."""
    return expression.transform(lambda n: copied(value) if isinstance(n, exp.Column) and n.name == name else n)


_TABLE, _NUMBER = "r0", "number"


def _relation(rows: object) -> Relation:
    assert isinstance(rows, Relation)
    return rows


def _open(policy: Policy) -> Policy:
    """A policy in which each column may be a part of a key: of buckets nothing but their noisy counts leaves."""
    tables = {}
    for name, table in policy.tables.items():
        columns = {lower: replace(column, private=False) for lower, column in table.columns.items()}
        tables[name] = replace(table, columns=MappingProxyType(columns))
    return replace(policy, tables=MappingProxyType(tables))
