"""From statements that were analyzed to a Quote: which stages there are, and what each of them may spend.

A query's ε is divided before anything is measured: a share for each automatic range that isn't known yet, a share for
an estimate of what is cut where that was asked for, and the rest for the release itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked
from dpsql.core.cost import Cost, rounded
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Plan
from dpsql.quote.bounds import analyze_known, range_stage, with_released
from dpsql.quote.calibrate import calibrate, calibrate_rows
from dpsql.quote.cut_estimate import SHARE, cuts_something, estimate_stage
from dpsql.quote.merge import Together, merge, share
from dpsql.quote.model import AnyStep, Ask, Known, Part, Quote, Result, Stage
from dpsql.statistics.bounds import Automatic

MOST = Fraction(1, 2)  # of a query, for all its ranges together


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement, as far as it is known before its price."""

    checked: Checked
    limits: Limits
    result: Result

    @property
    def plan(self) -> Plan:
        return self.checked.plan


def quote_of(
    text: str, statements: Sequence[Statement], ask: Ask, catalog: Catalog, *, estimate: bool = False
) -> Quote:
    """The stages of a query, or of a batch, and their prices, which are no more than `ask` together.

    estimate: a share of ε is for what limits and ranges cut.
    """
    try:
        return _quote(text, statements, ask, catalog, estimate)
    except PrivacyError:
        if all(a.range is None for s in statements for a in s.checked.automatic):
            raise
    # Theorem AUTO-1: a released range with which the query would be refused gives way to the seed range.
    return _quote(text, [_seeded(s, catalog) for s in statements], ask, catalog, estimate)


def _quote(text: str, statements: Sequence[Statement], ask: Ask, catalog: Catalog, estimate: bool) -> Quote:
    parts = tuple(_part(s) for s in statements)
    together = merge(text, [s.checked for s in statements])
    rest, aside = ask, None
    if estimate and cuts_something(together.checked):
        aside, rest = shares(rest, [SHARE])
    automatic = tuple(dict.fromkeys(a for s in statements for a in s.checked.automatic))
    pending = [a for a in automatic if a.range is None]
    asked = rest if automatic else None
    first, less = _first(together, automatic, rest) if len(pending) < len(automatic) else (None, None)
    *asks, rest = shares(rest, [a.share for a in pending]) if pending else [rest]
    ranges = tuple(range_stage(a, one, catalog) for a, one in zip(pending, asks, strict=True))
    stages: list[Stage] = list(ranges)
    if together.rows:
        rows, rest = _rows(together, rest)
        stages.append(replace(rows, enough=less, asked=asked))
    if together.checked.releases or not together.rows:
        main = replace(_calibrated(together, rest), automatic=automatic, asked=asked)
        if pending:
            main = _unsettled(main, text, statements, ranges, rest, first, catalog)
        else:
            main = replace(main, enough=_enough(together, first))
        stages.append(main)
        if aside is not None:
            stages.append(_estimated(main, aside, together.checked.plan, catalog))
    return Quote(together.checked.plan.text, tuple(stages), parts, ask.epsilon)


def _first(
    together: Together, automatic: Sequence[Automatic], ask: Ask
) -> tuple[Ask | None, tuple[AnyStep, ...] | None]:
    """What whoever paid for all the ranges had left for the release, and his steps of rows that leave one by one.

    What was stored for him is good enough. None where so little can't be shared: then nobody had as little.
    """
    with suppress(PrivacyError):
        left = shares(ask, [a.share for a in automatic])[-1]
        if not together.rows:
            return left, None
        rows, left = _rows(together, left)
        return left, rows.steps
    return None, None


def _enough(together: Together, first: Ask | None) -> tuple[AnyStep, ...] | None:
    """The steps of a release with so little to spend; None where nobody has as little."""
    with suppress(PrivacyError):
        return None if first is None else _calibrated(together, first).steps
    return None


def _seeded(statement: Statement, catalog: Catalog) -> Statement:
    """A statement with the seed ranges of its columns in place of those that were released."""
    ranges = [a if a.range is None else a.seeded for a in statement.checked.automatic]
    if not ranges:
        return statement
    return replace(statement, checked=analyze_known(statement.plan, statement.limits, catalog, ranges))


def shares(ask: Ask, of: Sequence[Fraction], most: Fraction = MOST) -> list[Ask]:
    """An ask for each share and one for the rest, which together are no more than the whole; shares: at most `most`."""
    whole = sum(of, Fraction(0))
    of = [s * min(Fraction(1), most / whole) for s in of]
    conversion = ask.conversion
    if conversion is None:
        found = [ask.epsilon * s for s in of]
        rest = ask.epsilon - sum(found, Fraction(0))
    else:
        rho = conversion.rho(ask.epsilon)
        found = [conversion.affords(rounded(rho * s, up=False)) for s in of]
        rest = Fraction(0)
        if all(found):
            rest = conversion.affords(rho - sum((conversion.rho(e) for e in found), Fraction(0)))
        if not rest:
            raise PrivacyError(
                "so small an ε can't be shared with automatic bounds, randomised rows or an estimate of what is cut",
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


def _part(statement: Statement) -> Part:
    """Refuses whatever DuckDB reads differently, before it is paid for."""
    plan, result = statement.plan, statement.result
    if len(plan.post.selects) != len(result):
        raise SQLError(
            f"DuckDB sees {len(result)} columns in this query, and dpsql {len(plan.post.selects)}",
            code="column-count",
            hint="name the columns one by one",
        )
    return Part(plan, result)


def _rows(together: Together, ask: Ask) -> tuple[Stage, Ask]:
    """The stage of rows that leave one by one, with an equal share for each column and each aggregate; and the rest."""
    checked = together.checked
    if not checked.releases:
        return replace(calibrate_rows(checked, ask), views=together.rows), ask
    columns = sum(len(one.columns) for one in checked.responses)
    aggregates = sum(max(1, len(one.arguments)) for one in checked.releases)
    mine, rest = shares(ask, [Fraction(columns, columns + aggregates)], Fraction(1))
    return replace(calibrate_rows(checked, mine), views=together.rows), rest


def _calibrated(together: Together, ask: Ask) -> Stage:
    stage = replace(calibrate(together.checked, ask), views=together.views)
    return share(stage) if together.several else stage


def _unsettled(
    main: Stage,
    text: str,
    statements: Sequence[Statement],
    ranges: tuple[Stage, ...],
    ask: Ask,
    first: Ask | None,
    catalog: Catalog,
) -> Stage:
    """A stage whose ranges are still to be released: the noise that it has now is for seed ranges (Theorem AUTO-1)."""
    own = main.own
    # What is charged must not depend on the ranges: the most that this ask can cost, with the mechanism settled now.
    most = Cost(ask.epsilon, Fraction(0) if not own.delta else ask.delta)
    if ask.conversion is not None:
        most = Cost(ask.epsilon, own.delta, ask.conversion.rho(ask.epsilon), own.parts)
    fixed = replace(ask, mechanism=main.split.name)
    less = None if first is None else replace(first, mechanism=main.split.name)
    pending = [a.key for a in main.automatic if a.range is None]

    def settle(known: Known) -> Stage:
        stages = dict(zip(pending, ranges, strict=True))
        found: dict[tuple[str, str], Automatic] = {
            a.key: with_released(a, known[stages[a.key]]) if a.range is None else a for a in main.automatic
        }
        again = [
            analyze_known(s.plan, s.limits, catalog, [found[a.key] for a in s.checked.automatic])
            if s.checked.automatic
            else s.checked
            for s in statements
        ]
        used = {a.key: a for one in again for a in one.automatic}
        together = merge(text, again)
        try:
            settled = replace(_calibrated(together, fixed), enough=_enough(together, less))
        except PrivacyError:  # Theorem AUTO-1: no released range refuses what its seed range admits
            given_way = [found[a.key].seeded if a.range is None else a for a in main.automatic]
            return replace(main, automatic=tuple(given_way))
        return replace(settled, automatic=tuple(used[a.key] for a in main.automatic))

    return replace(main, after=ranges, settle=settle, most=most)


def _estimated(main: Stage, ask: Ask, plan: Plan, catalog: Catalog) -> Stage:
    """The estimate of what a stage cuts, which is settled when that is."""
    stage = estimate_stage(main, ask, plan, catalog)
    if main.settle is None:
        return stage

    def settle(known: Known) -> Stage:
        return estimate_stage(known[main].stage, ask, plan, catalog)

    return replace(stage, after=(main,), settle=settle, most=stage.own)
