"""Automatic bounds: a query that needs the range of a column with bounds = "auto" pays for it, once.

The range is a release of its own: a noisy histogram of the whole column over powers of two, each unit with a mass of 1,
whatever the query's limits (Theorem AUTO-1). It stays in the ledger, and every later query over the same data version
takes it from there. Which ranges a query needs, whether they are known and what they cost follows from the SQL, the
policy and the ledger alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked, analyze, used_columns
from dpsql.core.errors import Error
from dpsql.core.types import Type
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.plan.build import build
from dpsql.plan.nodes import Plan, Scan, parts_of
from dpsql.policy.model import Policy
from dpsql.quote.calibrate import calibrate
from dpsql.quote.derived import value_histogram, wide_values
from dpsql.quote.model import Ask, Part, Released, Stage, Step
from dpsql.sql.bind import bind
from dpsql.sql.parse import parse
from dpsql.statistics.bounds import OCTAVES_UP, Automatic, AutomaticValue, Seed, covered, covered_value
from dpsql.statistics.strategy import Linear

NOISIEST = Fraction(1, 10**12)  # less than any query's share: whatever was released has no more noise
COLUMNS = (("bucket", "INTEGER"), ("units", "BIGINT"))

Stored = Callable[[Step], Sequence[tuple[str, Noisy]]]
"""The stored releases of what a step measures that have no more noise, each with the id of its spend."""


# ---------------------------------------------------------------- which ranges a query needs


def with_automatic(checked: Checked, limits: Limits, catalog: Catalog, stored: Stored) -> Checked:
    """What was analyzed for seed ranges, with the released ranges where there are any.

    What can't be answered for seed ranges was refused: no refusal rests on a released value.
    """
    plan = checked.plan
    found = [a for a in _columns(plan, catalog) if _needs(a, checked, limits, catalog)]
    needed = [_known(a, catalog, stored) for a in (*found, *wide_values(checked, catalog))]
    if all(one.range is None for one in needed):  # then all ranges are the seeds that it was analyzed with
        return replace(checked, automatic=tuple(needed))
    return analyze_known(plan, limits, catalog, needed)


def analyze_known(
    plan: Plan, limits: Limits | Sequence[Limits], catalog: Catalog, ranges: Sequence[Automatic]
) -> Checked:
    """analyze with these ranges. One that would refuse what its seed range admits gives way to that (AUTO-1)."""
    used = list(ranges)
    with suppress(Error):
        return replace(analyze(plan, limits, with_ranges(catalog, used)), automatic=tuple(used))
    for place, one in enumerate(ranges):
        try:
            analyze(plan, limits, with_ranges(catalog, used[: place + 1]))
        except Error:
            used[place] = one.seeded
    return replace(analyze(plan, limits, with_ranges(catalog, used)), automatic=tuple(used))


def _columns(plan: Plan, catalog: Catalog) -> list[Automatic]:
    """The columns with automatic bounds that a query names, of the tables that it reads."""
    named: dict[str, set[str]] = {}
    for release in plan.releases:
        used = set(used_columns(release))
        for scan in (p for p in parts_of(release.input) if isinstance(p, Scan)):
            named.setdefault(scan.table, set()).update(c.lower() for name, c in scan.columns if name in used)
    found = []
    for name in sorted(named):
        table = catalog.policy.tables[name]
        for column, text in catalog.schema[name]:
            said = table.column(column)
            if said is not None and said.share is not None and column.lower() in named[name]:
                found.append(Automatic(table.name, said.name, said.share, Seed.of(Type.parse(text))))
    return found


def _needs(column: Automatic, checked: Checked, limits: Limits, catalog: Catalog) -> bool:
    """Does anything that is summed or chosen have another range, or none, when nothing is known of this column?"""
    key = ("needs", column.key, checked.plan.releases, limits)
    return catalog.memo.kept(key, lambda: _differs(column, checked, limits, catalog))


def _differs(column: Automatic, checked: Checked, limits: Limits, catalog: Catalog) -> bool:
    try:
        without = analyze(checked.plan, limits, replace(catalog, ranges={column.key: None}))
    except Error:
        return True
    return _ranges(without) != _ranges(checked)


def _ranges(checked: Checked) -> list[object]:
    arguments = [a for r in checked.releases for a in r.arguments if not a.recipe.counted and a.clip is None]
    # What is added up within a unit is on a grid that hangs on its range, and part of the relation.
    relations: list[object] = [r.relation for r in checked.releases]
    return relations + [(v.range.low, v.range.high) for a in arguments for v in a.values]


def with_ranges(catalog: Catalog, ranges: Sequence[Automatic]) -> Catalog:
    """The catalog with the ranges that are known."""
    return replace(catalog, ranges={a.key: a.range for a in ranges if a.range is not None})


# ---------------------------------------------------------------- the release of a range


def range_stage(column: Automatic, ask: Ask, catalog: Catalog) -> Stage:
    """The histogram of the whole column (Theorem AUTO-1) or of a value (AUTO-2); each unit has a mass of 1."""
    checked = value_histogram(column, catalog) if isinstance(column, AutomaticValue) else _histogram(column, catalog)
    stage = calibrate(checked, ask)
    return replace(
        stage, kind="range", accepts=lambda noisy: _is_found(column, noisy), shown=Part(checked.plan, COLUMNS)
    )


def _histogram(column: Automatic, catalog: Catalog) -> Checked:
    """The histogram of a column: asked for once to look for it, and once to price it."""
    value = f"CAST({_quoted(column.column)} AS DOUBLE)"
    octaves, bucket = column.seed.sql(value, OCTAVES_UP)
    sql = (
        f"SELECT {bucket} AS bucket, COUNT(*) AS units FROM "
        f"(SELECT {octaves} AS {OCTAVES_UP} FROM {_quoted(column.table)} WHERE ISFINITE({value})) GROUP BY 1"
    )
    return catalog.memo.kept(("range", sql), lambda: _analyzed_range(column, sql, catalog))


def _analyzed_range(column: Automatic, sql: str, catalog: Catalog) -> Checked:
    named = f"automatic bounds of {column.table}.{column.column}"
    tree = replace(parse(sql), text=named, shown=named)
    plan = build(bind(tree, catalog.columns, catalog.unlisted), catalog.policy)
    opened = replace(catalog.with_policy(_open(catalog.policy, column)), ranges={column.key: None})
    return analyze(plan, Limits(max_rows=1), opened)


def _open(policy: Policy, column: Automatic) -> Policy:
    """A policy in which the column may be a key: of its buckets, nothing but their noisy counts leaves."""
    name, lower = column.table.lower(), column.column.lower()
    table = policy.tables[name]
    columns = {**table.columns, lower: replace(table.columns[lower], private=False)}
    tables = {**policy.tables, name: replace(table, columns=MappingProxyType(columns))}
    return replace(policy, tables=MappingProxyType(tables))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _known(column: Automatic, catalog: Catalog, stored: Stored) -> Automatic:
    """The column with its range, if a release for the present data version found one; the least noisy counts.

    Somebody's own query can be of the same rows and buckets, and count something else or with other noise.
    """
    (step,) = range_stage(column, Ask(NOISIEST, Fraction(0), "laplace"), catalog).releases
    histograms = [(id, noisy) for id, noisy in stored(step) if _is_found(column, noisy)]
    if not histograms:
        return column
    id, noisy = min(histograms, key=lambda one: scale_of_count(one[1]))
    return with_range(column, noisy, id)


def _is_found(column: Automatic, noisy: Noisy) -> bool:
    """Does a stored histogram show a range? One that doesn't is nothing that another query could rest on."""
    return is_laplace(noisy) and with_range(column, noisy, "").found


def with_range(column: Automatic, noisy: Noisy, receipt: str) -> Automatic:
    """The column with the range that its noisy histogram shows, or else with the fallback."""
    counts = noisy.estimate(counted(noisy))
    buckets = noisy.cells.column(0).to_pylist()
    listed = {b: Fraction(int(n), counts.denominator) for b, n in zip(buckets, counts.numerators, strict=True)}
    told = {b: n for b, n in listed.items() if b is not None}
    scale, seed = scale_of_count(noisy), column.seed
    found = covered_value(told, scale, seed) if isinstance(column, AutomaticValue) else covered(told, scale)
    if found is None:
        return replace(column, range=column.seed.fallback, found=False, receipt=receipt)
    return replace(column, range=column.seed.ends(*found), receipt=receipt)


def counted(noisy: Noisy) -> Linear:
    """The one count of a histogram, as its columns tell it."""
    (call,) = noisy.step.calls
    (need,) = RECIPES[call.function].needs(call)
    return noisy.step.estimates[need]


def is_laplace(noisy: Noisy) -> bool:
    """Has each count one Laplace noise of its own? `covered` knows the tail of no other."""
    terms = counted(noisy).terms
    return len(terms) == 1 and isinstance(noisy.step.measurements[terms[0][0][0]].noise, DiscreteLaplace)


def scale_of_count(noisy: Noisy) -> Fraction:
    """Of the noise of a count, in units."""
    ((place, weight),) = counted(noisy).terms
    noise = noisy.step.measurements[place[0]].noise
    assert isinstance(noise, DiscreteLaplace)
    return noise.scale * abs(weight)


def with_released(column: Automatic, released: Released) -> Automatic:
    """The column with the range that a stage of its own has just released."""
    (noisy,) = released.noisy
    assert isinstance(noisy, Noisy)
    return with_range(column, noisy, released.receipt.id)
