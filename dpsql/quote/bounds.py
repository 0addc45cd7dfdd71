"""Automatic bounds: a query that needs the range of a column with bounds = "auto" pays for it, once.

The range is a release of its own: a noisy histogram of the whole column over powers of two, each unit with a mass of 1,
whatever the query's limits (Theorem AUTO-1). It stays in the ledger, and every later query over the same data version
takes it from there. Which ranges a query needs, whether they are known and what they cost follows from the SQL, the
policy and the ledger alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

from dpsql.aggregates import COUNTED, RECIPES
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked, analyze
from dpsql.core.cost import Cost, rounded
from dpsql.core.errors import Error, PrivacyError
from dpsql.core.types import Type
from dpsql.engine import Engine
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.plan.build import build
from dpsql.plan.nodes import Plan, Scan, parts_of
from dpsql.policy.model import Policy
from dpsql.quote.calibrate import calibrate
from dpsql.quote.model import Ask, Before, Quote
from dpsql.release import Noisy
from dpsql.sql.bind import bind
from dpsql.sql.parse import parse
from dpsql.statistics.bounds import Automatic, Seed, covered
from dpsql.statistics.strategy import Linear
from dpsql.store.archive import unpack_release
from dpsql.store.reuse import answers, release_key

MOST = Fraction(1, 2)  # of a query, for all its ranges together
NOISIEST = Fraction(1, 10**12)  # less than any query's share: whatever was released has no more noise

Result = tuple[tuple[str, str], ...]


# ---------------------------------------------------------------- which ranges a query needs


def analyze_automatic(plan: Plan, limits: Limits, engine: Engine) -> Checked:
    """analyze, with the released ranges where there are any, and seed ranges where there will be.

    What can't be answered for seed ranges is refused: no refusal rests on a released value.
    """
    catalog = engine.catalog()
    checked = analyze(plan, limits, catalog)
    needed = [_known(a, engine) for a in _columns(plan, engine) if _needs(a, checked, limits, catalog)]
    return _analyze_known(plan, limits, catalog, needed) if needed else checked


def _analyze_known(plan: Plan, limits: Limits, catalog: Catalog, ranges: Sequence[Automatic]) -> Checked:
    """analyze with these ranges. One that would refuse what its seed range admits gives way to that (AUTO-1)."""
    used = list(ranges)
    with suppress(Error):
        return replace(analyze(plan, limits, with_ranges(catalog, used)), automatic=tuple(used))
    for place, one in enumerate(ranges):
        try:
            analyze(plan, limits, with_ranges(catalog, used[: place + 1]))
        except Error:
            used[place] = replace(one, range=(one.seed.low, one.seed.high), found=True)
    return replace(analyze(plan, limits, with_ranges(catalog, used)), automatic=tuple(used))


def _columns(plan: Plan, engine: Engine) -> list[Automatic]:
    """The columns with automatic bounds of the tables that a query reads."""
    scans = {p.table for r in plan.releases for p in parts_of(r.input) if isinstance(p, Scan)}
    found = []
    for name in sorted(scans):
        table, types = engine.policy.tables[name], dict(engine.schema[name])
        for column, text in types.items():
            said = table.column(column)
            if said is not None and said.share is not None:
                found.append(Automatic(table.name, said.name, said.share, Seed.of(Type.parse(text))))
    return found


def _needs(column: Automatic, checked: Checked, limits: Limits, catalog: Catalog) -> bool:
    """Does anything that is summed or chosen have another range, or none, when nothing is known of this column?"""
    try:
        without = analyze(checked.plan, limits, replace(catalog, ranges={column.key: None}))
    except Error:
        return True
    return _ranges(without) != _ranges(checked)


def _ranges(checked: Checked) -> list[object]:
    arguments = [a for r in checked.releases for a in r.arguments if a.call.function not in COUNTED and a.clip is None]
    # What is added up within a unit is on a grid that hangs on its range, and part of the relation.
    relations: list[object] = [r.relation for r in checked.releases]
    return relations + [(v.range.low, v.range.high) for a in arguments for v in a.values]


def with_ranges(catalog: Catalog, ranges: Sequence[Automatic]) -> Catalog:
    """The catalog with the ranges that are known."""
    return replace(catalog, ranges={a.key: a.range for a in ranges if a.range is not None})


# ---------------------------------------------------------------- what they cost


def quote_automatic(checked: Checked, ask: Ask, result: Result, limits: Limits, engine: Engine) -> Quote:
    """calibrate; where ranges are still to be released, their shares come off first. Nothing else is changed later."""
    pending = [a for a in checked.automatic if a.range is None]
    if not pending:
        quote = replace(calibrate(checked, ask, result), automatic=checked.automatic)
        if not checked.automatic:
            return quote
        lesser = parts(ask, [a.share for a in checked.automatic])[-1]
        return replace(quote, lesser=calibrate(checked, lesser, result))
    *asks, rest = parts(ask, [a.share for a in pending])
    quotes = tuple(_range_quote(a, one, engine) for a, one in zip(pending, asks, strict=True))
    quote = calibrate(checked, rest, result)
    own = quote.own
    # What is charged must not depend on the ranges: the most that this ask can cost, with the mechanism settled now.
    delta = Fraction(0) if not own.delta else ask.delta
    most = Cost(rest.epsilon, delta)
    if ask.conversion is not None:
        most = Cost(rest.epsilon, own.delta, ask.conversion.rho(rest.epsilon), own.parts)
    before = Before(quotes, most, replace(rest, mechanism=quote.split.name), limits)
    return replace(quote, epsilon=ask.epsilon, automatic=checked.automatic, before=before)


def parts(ask: Ask, shares: Sequence[Fraction]) -> list[Ask]:
    """An ask for each share and one for the rest, which together are no more than the whole."""
    whole = sum(shares, Fraction(0))
    shares = [s * min(Fraction(1), MOST / whole) for s in shares]
    conversion = ask.conversion
    if conversion is None:
        found = [ask.epsilon * s for s in shares]
        rest = ask.epsilon - sum(found, Fraction(0))
    else:
        rho = conversion.rho(ask.epsilon)
        found = [conversion.affords(rounded(rho * s, up=False)) for s in shares]
        rest = Fraction(0)
        if all(found):
            rest = conversion.affords(rho - sum((conversion.rho(e) for e in found), Fraction(0)))
        if not rest:
            raise PrivacyError(
                "so small an ε can't be shared with automatic bounds or an estimate of what is cut",
                code="automatic",
                hint="ask once with a larger epsilon: what is found stays, and later queries need not pay for it",
            )
    return [
        *(replace(ask, epsilon=e, delta=Fraction(0), mechanism="laplace") for e in found),
        replace(ask, epsilon=rest),
    ]


def require_known(checked: Checked, what: str) -> None:
    """Refuse what can't be planned before the ranges are known."""
    for one in checked.automatic:
        if one.range is None:
            raise PrivacyError(
                f"{what} needs the range of {one.table}.{one.column}, which is automatic and not known yet",
                code="automatic",
                hint=f"ask for it first, as a query of its own with an epsilon: SELECT AVG({one.column}) FROM "
                f"{one.table}; its range stays",
            )


# ---------------------------------------------------------------- the release of a range


def _range_quote(column: Automatic, ask: Ask, engine: Engine) -> Quote:
    """The histogram of the whole column: no WHERE, no join, and each unit has a mass of 1 (Theorem AUTO-1)."""
    value = f"CAST({_quoted(column.column)} AS DOUBLE)"
    sql = (
        f"SELECT {column.seed.sql(value)} AS bucket, COUNT(*) AS units FROM {_quoted(column.table)} "
        f"WHERE ISFINITE({value}) GROUP BY 1"
    )
    tree = replace(parse(sql), text=f"automatic bounds of {column.table}.{column.column}")
    plan = build(bind(tree, engine.columns, engine.unlisted), engine.policy)
    catalog = replace(engine.catalog(), policy=_open(engine.policy, column), ranges={column.key: None})
    return calibrate(analyze(plan, Limits(max_rows=1), catalog), ask, engine.twin.describe(tree))


def _open(policy: Policy, column: Automatic) -> Policy:
    """The same policy, in which the column may be a key: of its buckets, nothing but their noisy counts leaves."""
    name, lower = column.key
    table = policy.tables[name]
    columns = {**table.columns, lower: replace(table.columns[lower], private=False)}
    tables = {**policy.tables, name: replace(table, columns=MappingProxyType(columns))}
    return replace(policy, tables=MappingProxyType(tables))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _known(column: Automatic, engine: Engine) -> Automatic:
    """The column with its range, if a release for the present data version found one; the least noisy counts.

    Somebody's own query can be of the same rows and buckets, and count something else or with other noise.
    """
    (step,) = _range_quote(column, Ask(NOISIEST, Fraction(0), "laplace"), engine).steps
    key = release_key(step, engine.identities(), {})
    stored = [(id, answers(step, unpack_release(kept), {})) for id, kept in engine.ledger.stored(key)] if key else []
    histograms = [(id, noisy) for id, noisy in stored if noisy is not None and _is_laplace(noisy)]
    for id, noisy in sorted(histograms, key=lambda one: _scale(one[1])):
        known = with_range(column, noisy, id)
        if known.found:
            return known
    return column


def with_range(column: Automatic, noisy: Noisy, receipt: str) -> Automatic:
    """The column with the range that its noisy histogram shows, or else with the fallback."""
    counts = noisy.estimate(_counted(noisy))
    buckets = noisy.cells.column(0).to_pylist()
    listed = {b: Fraction(int(n), counts.denominator) for b, n in zip(buckets, counts.numerators, strict=True)}
    found = covered({b: n for b, n in listed.items() if b is not None}, _scale(noisy))
    if found is None:
        return replace(column, range=column.seed.fallback, found=False, receipt=receipt)
    return replace(column, range=column.seed.ends(*found), receipt=receipt)


def _counted(noisy: Noisy) -> Linear:
    (call,) = noisy.step.calls
    (need,) = RECIPES[call.function].needs(call)
    return noisy.step.estimates[need]


def _is_laplace(noisy: Noisy) -> bool:
    """Has each count one Laplace noise of its own? `covered` knows the tail of no other."""
    terms = _counted(noisy).terms
    return len(terms) == 1 and isinstance(noisy.step.measurements[terms[0][0][0]].noise, DiscreteLaplace)


def _scale(noisy: Noisy) -> Fraction:
    """Of the noise of a count, in units."""
    ((place, weight),) = _counted(noisy).terms
    noise = noisy.step.measurements[place[0]].noise
    assert isinstance(noise, DiscreteLaplace)
    return noise.scale * abs(weight)


def settled(quote: Quote, histograms: Sequence[tuple[Noisy, str]], engine: Engine) -> Quote:
    """The query with the ranges that were just released; its price was set aside before, and it costs no more."""
    before = quote.before
    assert before is not None
    left = iter(histograms)
    known = tuple(a if a.range is not None else with_range(a, *next(left)) for a in quote.automatic)
    checked = _analyze_known(quote.plan, before.limits, engine.catalog(), known)
    again = replace(calibrate(checked, before.ask, quote.result), automatic=checked.automatic)
    if not _within(again.own, before.rest):
        raise AssertionError("the query costs more than was set aside for it")
    return again


def _within(price: Cost, most: Cost) -> bool:
    rho = (price.rho or 0) <= (most.rho or 0)
    return price.epsilon <= most.epsilon and price.delta <= most.delta and rho and price.parts <= most.parts
