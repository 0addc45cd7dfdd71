"""From statements that were analyzed to a Quote: which stages there are, and what each of them may spend.

A query's ε is divided before anything is measured: a share for each automatic range that isn't known yet, one for
counts of units, which choose limits that nobody named and tell what limits and ranges cut, and the rest for the release
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked
from dpsql.core.cost import Cost, rounded
from dpsql.core.errors import Error, PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Plan, Release
from dpsql.quote.bounds import Stored, analyze_known, range_stage, with_released
from dpsql.quote.calibrate import calibrate, calibrate_rows
from dpsql.quote.cuts import Wanted, watched
from dpsql.quote.limits import Most, limits_stage, most_noise, scale_of, stored_tables, tables_of
from dpsql.quote.merge import Together, merge, share, with_shared_lists
from dpsql.quote.model import AnyStep, Ask, Known, Part, Quote, Result, Stage
from dpsql.quote.totals import choose, wanted
from dpsql.statistics.bounds import Automatic

MOST = Fraction(1, 2)  # of a query, for all its ranges together


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement, as far as it is known before its price."""

    checked: Checked
    limits: Limits  # fixed public ones in the place of those that are chosen
    result: Result

    @property
    def plan(self) -> Plan:
        return self.checked.plan


def quote_of(
    text: str,
    statements: Sequence[Statement],
    ask: Ask,
    catalog: Catalog,
    stored: Stored = lambda _: (),
    *,
    known_limits: bool = False,
) -> Quote:
    """The stages of a query, or of a batch, and their prices, which are no more than `ask` together.

    stored: finds counts of units for free. known_limits: stored ones serve however noisy they are.
    """
    try:
        return _quote(text, statements, ask, catalog, stored, known_limits)
    except PrivacyError:
        if all(a.range is None for s in statements for a in s.checked.automatic):
            raise
    # Theorem AUTO-1: a released range with which the query would be refused gives way to the seed range.
    return _quote(text, [_seeded(s, catalog) for s in statements], ask, catalog, stored, known_limits)


def _quote(
    text: str,
    statements: Sequence[Statement],
    ask: Ask,
    catalog: Catalog,
    stored: Stored,
    known_limits: bool,
) -> Quote:
    parts = tuple(_part(s) for s in statements)
    if len(statements) > 1:
        shared = with_shared_lists([s.checked for s in statements])
        statements = [replace(s, checked=one) for s, one in zip(statements, shared, strict=True)]
    together = merge(text, [s.checked for s in statements])
    automatic = tuple(dict.fromkeys(a for s in statements for a in s.checked.automatic))
    pending = [a for a in automatic if a.range is None]
    choice = _choice(text, statements, catalog, ask)
    if choice is not None and not pending:
        choice = choice.looked_up(stored, any_noise=known_limits)
    asked = ask if automatic or choice is not None else None
    some = len(pending) < len(automatic) or (choice is not None and not choice.missing)
    share_of_limits = None if choice is None else catalog.policy.privacy.limits_share
    first, less = _first(together, automatic, share_of_limits, ask) if some else (None, None)
    *asks, rest = shares(ask, [a.share for a in pending]) if pending else [ask]
    ranges = tuple(range_stage(a, one, catalog) for a, one in zip(pending, asks, strict=True))
    stages: list[Stage] = list(ranges)
    if choice is not None and choice.missing:
        mine, rest = shares(rest, [catalog.policy.privacy.limits_share])
        choice = choice.measured(mine, ranges, automatic)
        assert choice.stage is not None
        stages.append(choice.stage)
    if together.rows:
        rows, rest = _rows(together, rest)
        stages.append(replace(rows, enough=less, asked=asked))
    if together.checked.releases or not together.rows:
        if choice is not None and any(choice.wanted) and not choice.open:
            together = merge(text, choice.settled(automatic, choice.tables))
        main = replace(_calibrated(together, rest), automatic=automatic, asked=asked)
        if pending or (choice is not None and choice.open):
            main = _unsettled(main, text, statements, ranges, choice, rest, first, catalog)
        else:
            main = replace(main, enough=_enough(together, first))
        stages.append(main)
    tables = {} if choice is None else choice.tables
    return Quote(together.checked.plan.text, tuple(stages), parts, ask.epsilon, counts=tables)


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """How limits are chosen, and what is known of what they cut: the counts of units that tell it, and their noise."""

    text: str
    statements: tuple[Statement, ...]
    wanted: tuple[tuple[Wanted, ...], ...]  # of each statement, what chooses its limits
    every: Sequence[Wanted]  # these, and what tells what is cut
    catalog: Catalog
    first: Ask  # what whoever asks first, when nothing is stored, has for the counts
    rest: Ask  # and for the release: limits are chosen for that, so that they are the same when he asks again
    tables: Mapping[Release, Noisy]  # stored counts
    most: Most | None = None  # how much noise stored counts may have
    stage: Stage | None = None  # what isn't stored is measured first

    def measured(self, ask: Ask, ranges: tuple[Stage, ...], automatic: tuple[Automatic, ...]) -> _Choice:
        """The choice with the stage that measures the counts, for this share of the query."""
        pending = [a.key for a in automatic if a.range is None]

        def stage_with(missing: Sequence[Wanted], known: Sequence[Automatic]) -> Stage:
            return limits_stage(self.text, missing, ask, self.catalog, self.public, known, self.most)

        def settle(known: Known) -> Stage:
            found = _known(automatic, dict(zip(pending, ranges, strict=True)), known)
            return stage_with(self._found_since(found), found)

        ready = [a for a in automatic if a.range is not None]
        stage = stage_with(self.missing, ready)
        if pending:  # how many values are clipped, so how the share is divided, hangs on the ranges; its price doesn't
            stage = replace(stage, after=ranges, settle=settle, most=_whole(ask, stage.own, Fraction(0)))
        return replace(self, stage=stage)

    def looked_up(self, stored: Stored, *, any_noise: bool) -> _Choice:
        """The choice with what is stored of its counts."""
        known = [a for s in self.statements for a in s.checked.automatic]
        most = None if any_noise else self.most
        return replace(self, tables=stored_tables(self._all_counts(known), stored, most))

    def bought(self, automatic: Sequence[Automatic]) -> Fraction:
        """The scale of noise of all counts where none is stored."""
        return scale_of(self._all_counts(automatic))

    def _all_counts(self, automatic: Sequence[Automatic]) -> Stage:
        """The stage of all counts, as whoever asks first has it."""
        ready = [a for a in dict.fromkeys(automatic) if a.range is not None]
        return limits_stage(self.text, self.every, self.first, self.catalog, self.public, ready)

    def _found_since(self, released: Sequence[Automatic]) -> list[Wanted]:
        """All counts, with ranges that were found since, outside of which values are counted."""
        checked = [self._one(i, released, None) for i in range(len(self.statements))]
        pending = [any(a.range is None for a in s.checked.automatic) for s in self.statements]
        return _every(self.wanted, checked, pending)

    @property
    def missing(self) -> list[Wanted]:
        return [one for one in self.every if one.histogram not in self.tables]

    @property
    def open(self) -> bool:
        """Are limits chosen by counts that are still to be measured?"""
        return any(one.histogram not in self.tables for found in self.wanted for one in found)

    @property
    def public(self) -> frozenset[str]:
        return frozenset().union(*(s.plan.public for s in self.statements))

    def settled(self, automatic: Sequence[Automatic], tables: Mapping[Release, Noisy]) -> list[Checked]:
        """All statements with the limits that were chosen; where these would be refused, with fixed public ones."""
        with suppress(Error):
            found = [self._one(i, automatic, tables) for i in range(len(self.statements))]
            _calibrated(
                merge(self.text, found), self.rest
            )  # Theorem LIMITS-1: no refusal rests on a released value, together neither
            return found
        return [self._one(i, automatic, None) for i in range(len(self.statements))]

    def _one(self, index: int, automatic: Sequence[Automatic], tables: Mapping[Release, Noisy] | None) -> Checked:
        """A statement with chosen limits; without counts, or where it would be refused, with the fixed ones."""
        statement = self.statements[index]
        used = [a for a in automatic if a.key in {b.key for b in statement.checked.automatic}]
        if tables is not None:
            with suppress(Error, ArithmeticError):  # estimates are floats, and ranges may be near the ends of those
                limits = choose(statement.checked, statement.limits, self.wanted[index], tables, self.rest)
                checked = analyze_known(statement.plan, limits, self.catalog, used)
                calibrate(checked, self.rest)  # Theorem LIMITS-1: no refusal rests on a released value
                return checked
        return analyze_known(statement.plan, statement.limits, self.catalog, used)


def _every(
    wanted: Sequence[Sequence[Wanted]], statements: Sequence[Checked], open_ranges: Sequence[bool]
) -> list[Wanted]:
    """All counts of units: those that choose a limit, and those that tell what is cut (Theorem CUT-1)."""
    found = [w for one in wanted for w in one]
    for checked, pending in zip(statements, open_ranges, strict=True):
        for index, one in enumerate(checked.releases):
            found += watched(one, index, open_ranges=pending)
    return found


def _choice(text: str, statements: Sequence[Statement], catalog: Catalog, ask: Ask) -> _Choice | None:
    """The counts of units that a query needs; None where nobody has to choose a limit, and nothing can be cut.

    None, too, where so little can't be shared, and no limit has to be chosen: then what is cut isn't known.
    """
    share = catalog.policy.privacy.limits_share
    if not share:
        return None
    found = tuple(tuple(wanted(s.checked, s.limits, catalog, ask)) for s in statements)
    automatic = tuple(dict.fromkeys(a for s in statements for a in s.checked.automatic))
    try:
        first, rest = shares(_without(ask, automatic), [share])
        pending = [any(a.range is None for a in s.checked.automatic) for s in statements]
        every = _every(found, [s.checked for s in statements], pending)
        choice = _Choice(text.strip(), tuple(statements), found, every, catalog, first, rest, {})
        if not choice.missing:
            return None
        releases = [one for s in statements for one in s.checked.releases]
        histograms = len({one.histogram for one in every if one.histogram.keys})
        return replace(choice, most=most_noise(releases, share, histograms, choice.bought(automatic)))
    except PrivacyError:
        if any(found):
            raise
        return None


def _without(ask: Ask, automatic: Sequence[Automatic]) -> Ask:
    """What is left of an ask when all of these ranges are paid for."""
    return shares(ask, [a.share for a in automatic])[-1] if automatic else ask


def _known(
    automatic: Sequence[Automatic], stages: Mapping[tuple[str, str], Stage], known: Known
) -> tuple[Automatic, ...]:
    """The automatic bounds, with the ranges that were just released."""
    return tuple(with_released(a, known[stages[a.key]]) if a.range is None else a for a in automatic)


def _first(
    together: Together, automatic: Sequence[Automatic], limits: Fraction | None, ask: Ask
) -> tuple[Ask | None, tuple[AnyStep, ...] | None]:
    """What whoever paid for all ranges and limits had left for the release, and his steps of rows that leave singly.

    What was stored for him is good enough. None where so little can't be shared: then nobody had as little.
    """
    with suppress(PrivacyError):
        left = shares(ask, [a.share for a in automatic])[-1] if automatic else ask
        left = left if limits is None else shares(left, [limits])[-1]
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
                "so small an ε can't be shared with automatic bounds, randomised rows or counts of what is cut",
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


def require_chosen(quote: Quote) -> Quote:
    """Refuse what can't be planned before the limits are chosen: its noise hangs on them."""
    if quote.main.open:
        raise PrivacyError(
            "an accuracy needs limits that are known, and nobody named one that this query needs",
            code="automatic",
            hint="ask for it once with an epsilon: the limits that are chosen stay; or name them: max_rows=20",
        )
    return quote


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


def _whole(ask: Ask, own: Cost, delta: Fraction) -> Cost:
    """The most that an ask can cost, whatever is measured for it (Theorems AUTO-1 and LIMITS-1)."""
    if ask.conversion is not None:
        return Cost(ask.epsilon, own.delta, ask.conversion.rho(ask.epsilon), own.parts)
    return Cost(ask.epsilon, delta)


def _unsettled(
    main: Stage,
    text: str,
    statements: Sequence[Statement],
    ranges: tuple[Stage, ...],
    choice: _Choice | None,
    ask: Ask,
    first: Ask | None,
    catalog: Catalog,
) -> Stage:
    """A stage whose ranges or limits are still to be released: the noise that it has now is for seeds of them.

    What is charged must not depend on them: the most that this ask can cost (Theorems AUTO-1 and LIMITS-1). Where only
    ranges are open, the mechanism is settled now; where limits are, which mechanism is best hangs on them.
    """
    own, measured = main.own, None if choice is None or not choice.open else choice.stage
    fixed = ask if measured is not None else replace(ask, mechanism=main.split.name)
    most = _whole(
        ask, own, ask.delta if own.delta or (measured is not None and ask.mechanism == "auto") else Fraction(0)
    )
    less = first if first is None or measured is not None else replace(first, mechanism=main.split.name)
    pending = [a.key for a in main.automatic if a.range is None]

    def settle(known: Known) -> Stage:
        found = _known(main.automatic, dict(zip(pending, ranges, strict=True)), known)
        keys = {a.key: a for a in found}
        if choice is not None and measured is not None:
            again = choice.settled(found, {**choice.tables, **tables_of(known[measured])})
        else:
            again = [
                analyze_known(s.plan, s.limits, catalog, [keys[a.key] for a in s.checked.automatic])
                if s.checked.automatic
                else s.checked
                for s in statements
            ]
        used = {a.key: a for one in again for a in one.automatic}
        together = merge(text, again)
        try:
            settled = replace(_calibrated(together, fixed), enough=_enough(together, less))
        except PrivacyError:  # Theorem AUTO-1: no released range refuses what its seed range admits
            given_way = [keys[a.key].seeded if a.range is None else a for a in main.automatic]
            return replace(main, automatic=tuple(given_way))
        return replace(settled, automatic=tuple(used[a.key] for a in main.automatic))

    after = ranges if measured is None else (*ranges, measured)
    return replace(main, after=after, settle=settle, most=most, open=measured is not None)
