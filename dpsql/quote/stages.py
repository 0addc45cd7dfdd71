"""From statements that were analyzed to a Quote: which stages there are, and what each of them may spend.

A query's ε is divided before anything is measured: a share for each automatic range that isn't known yet, one for
counts of units, which choose limits that nobody named and tell what limits and ranges cut, and the rest for the release
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from fractions import Fraction
from functools import partial

from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked
from dpsql.bounds.histograms import UnitCount, clipping_sources, counts_for_bias
from dpsql.bounds.unit_counts import Tables, UnitCounts
from dpsql.core.cost import Cost, rounded
from dpsql.core.errors import Error, PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Plan, Release
from dpsql.quote.bounds import analyze_known, range_stage, with_released
from dpsql.quote.calibrate import calibrate, calibrate_rows
from dpsql.quote.learned import Lookup, Nothing, learned_rows
from dpsql.quote.limits import (
    OF_MEANS,
    Choosing,
    Countable,
    Counting,
    choose,
    chooses_limits,
    counts_for_limits,
    is_countable,
    limits_stage,
    means_for_limits,
    part_of,
    scales_of,
    share_for_limits,
    stored_counts,
    tables_of,
    together,
)
from dpsql.quote.merge import Together, merge, share, with_shared_lists
from dpsql.quote.model import AnyStep, Ask, Known, Part, Quote, Result, Stage, Step
from dpsql.quote.older import Place, choices, least_noise, noise_beside
from dpsql.statistics.bounds import Automatic, AutomaticValue

MOST = Fraction(1, 2)  # of a query, for all its ranges together
NOTHING = Nothing()


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement, as far as it is known before its price."""

    checked: Checked
    limits: Limits  # fixed public ones in the place of those that are chosen
    result: Result
    notes: tuple[str, ...]  # what SQL and policy alone say of what its answer leaves out

    @property
    def plan(self) -> Plan:
        return self.checked.plan


def quote_of(
    text: str,
    statements: Sequence[Statement],
    ask: Ask,
    catalog: Catalog,
    stored: Lookup = NOTHING,
    *,
    known_limits: bool = False,
    again: bool = True,
) -> Quote:
    """The stages of a query, or of a batch, and their prices, which are no more than `ask` together.

    stored: finds counts of units for free. known_limits: stored ones serve however noisy they are. again: a release
    that is stored may answer with limits that were chosen before.
    """
    try:
        return _quote(text, statements, ask, catalog, stored, known_limits, again)
    except PrivacyError as error:
        refusal = error
    automatic = [a for s in statements for a in s.checked.automatic]
    if any(a.range is not None for a in automatic):
        # Theorem AUTO-1: a released range with which the query would be refused gives way to the seed range.
        try:
            return _quote(text, [_seeded(s, catalog) for s in statements], ask, catalog, stored, known_limits, again)
        except PrivacyError as error:
            refusal = error
    values = [a for a in automatic if isinstance(a, AutomaticValue)]
    if not values or not all(a.named for a in values):
        raise refusal
    # Theorem AUTO-2: what can't be answered while a share pays for ranges of values is answered with derived ones.
    return _quote(text, [_derived(s, catalog) for s in statements], ask, catalog, stored, known_limits, again)


def _quote(
    text: str,
    statements: Sequence[Statement],
    ask: Ask,
    catalog: Catalog,
    stored: Lookup,
    known_limits: bool,
    again: bool,
) -> Quote:
    parts = tuple(_part(s) for s in statements)
    if len(statements) > 1:
        shared = with_shared_lists([s.checked for s in statements])
        statements = [replace(s, checked=one) for s, one in zip(statements, shared, strict=True)]
    together = merge(text, [s.checked for s in statements])
    automatic = tuple(dict.fromkeys(a for s in statements for a in s.checked.automatic))
    pending = [a for a in automatic if a.range is None]
    choice = _choice(text, statements, catalog, ask)
    older: Stage | None = None
    if choice is not None and not pending:
        before = _older(together, choice, stored, ask) if again and choice.chooses else None
        if before is None:
            choice = choice.looked_up(stored, any_noise=known_limits)
        else:
            choice, older = before
    missing = choice is not None and older is None and choice.missing
    share = Fraction(0) if choice is None else choice.share
    asked = ask if automatic or choice is not None else None
    some = len(pending) < len(automatic) or (choice is not None and not missing)
    share_of_limits = None if choice is None else share
    first, less = _first(together, automatic, share_of_limits, ask) if some else (None, None)
    *asks, rest = shares(ask, [a.share for a in pending]) if pending else [ask]
    ranges = tuple(range_stage(a, one, catalog) for a, one in zip(pending, asks, strict=True))
    stages: list[Stage] = list(ranges)
    if choice is not None and missing:
        mine, rest = shares(rest, [share])
        choice = choice.measured(mine, ranges, automatic)
        stages += choice.stages
    if together.rows:
        rows, rest = _rows(together, rest)
        stages.append(replace(rows, enough=less, asked=asked))
    if together.checked.releases or not together.rows:
        if older is not None:
            main = replace(older, automatic=automatic, asked=asked)
        elif pending or (choice is not None and choice.open):
            main = replace(_calibrated(together, rest, catalog), automatic=automatic, asked=asked)
            main = _unsettled(main, text, statements, ranges, choice, rest, first, catalog)
        else:
            main = replace(_settled(together, choice, rest, first, catalog), automatic=automatic, asked=asked)
        stages.append(main)
    counts = {} if choice is None else choice.tables
    learned = choice is not None and choice.chooses and bool(choice.learned) and not missing
    text, counted = together.checked.plan.text, () if choice is None else choice.spends
    return Quote(text, tuple(stages), parts, ask.epsilon, counts=counts, counted=counted, learned=learned)


def _settled(together: Together, choice: _Choice | None, rest: Ask, first: Ask | None, catalog: Catalog) -> Stage:
    """The main stage where nothing is open: all stored counts together choose the limits."""
    if choice is not None and choice.chooses:
        automatic = tuple(dict.fromkeys(a for s in choice.statements for a in s.checked.automatic))
        together = merge(together.checked.plan.text, choice.settled(automatic, choice.tables))
    return replace(_calibrated(together, rest, catalog), enough=_enough(together, first, catalog))


def _older(together: Together, choice: _Choice, stored: Lookup, ask: Ask) -> tuple[_Choice, Stage] | None:
    """The main stage with limits that were chosen before, where a release that left with them answers it for nothing.

    Theorem LIMITS-1, "Repeats": of several the one with the least noise for its limits. It answers what would
    have no less noise at this ε, and the same query at no larger ε than its own.
    """
    automatic = tuple(dict.fromkeys(a for s in choice.statements for a in s.checked.automatic))
    best: tuple[float, list[Checked], Stage] | None = None
    with suppress(PrivacyError):
        first, _ = _first(together, automatic, choice.share, ask)
        rest = _rows(together, ask)[1] if together.rows else ask
        for limits, epsilon in sorted(choice.older(stored), key=lambda one: one[1], reverse=True):
            if not _may_answer(together, replace(rest, epsilon=epsilon), first or rest):
                break
            if best is not None and least_noise(replace(rest, epsilon=epsilon), rest) >= best[0]:
                break  # nor may any with less ε have less noise
            with suppress(Error, ArithmeticError):
                checked = choice.limited(limits, automatic)
                merged = merge(choice.text, checked)
                main = replace(_calibrated(merged, rest, choice.catalog), enough=_enough(merged, first, choice.catalog))
                found = stored.answering(main)
                if found is None and epsilon >= (first or rest).epsilon:
                    asked = replace(first or rest, epsilon=epsilon)
                    main = replace(main, enough=_enough(merged, asked, choice.catalog))
                    found = stored.answering(main)
                if found is not None and (best is None or noise_beside(found, main) < best[0]):
                    best = noise_beside(found, main), checked, main
    if best is None:
        return None
    _, checked, main = best
    return choice.told(checked, stored, automatic), main


def _may_answer(together: Together, had: Ask, asked: Ask) -> bool:
    """Whether a release with so much to spend may have as little noise as one of these: on one statistic at most."""
    statistics = sum(len(one.arguments) + one.private_keys for one in together.checked.releases)
    return had.pure * statistics >= asked.pure


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """How limits are chosen, and what is known of what they cut.

    means: of each statement, what tells how large values are. first: what those who ask first, when nothing is stored,
    have for counts of units; rest: and for the release. Limits are chosen for that, so that they are the same when the
    same is asked again. tables: stored counts, all that there are of the same units together; learned: which of them
    the steward learned for everybody; spends: that paid for them. stages: what isn't stored is measured first.
    """

    text: str
    statements: tuple[Statement, ...]
    means: tuple[UnitCount, ...]
    catalog: Catalog
    first: Ask
    rest: Ask
    share: Fraction = Fraction(0)  # of what is spent
    tables: Tables = field(default_factory=dict)
    learned: frozenset[Release] = frozenset()
    spends: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()

    def of(self, statement: Statement) -> _Choice:
        """The choice for one of its statements alone."""
        means = tuple(_means([statement.checked], [statement], self._countable))
        return replace(self, statements=(statement,), means=means)

    def _countable(self, histogram: Release) -> bool:
        """Can units be counted so?"""
        return is_countable(histogram, self.catalog)

    @property
    def _public(self) -> frozenset[str]:
        return frozenset().union(*(s.plan.public for s in self.statements))

    def counts(self, checked: Sequence[Checked], tables: Tables) -> list[UnitCount]:
        """All counts of units: those that choose a limit, and those that tell what is cut (Theorem CUT-1)."""
        chosen: list[UnitCount] = []
        others: list[UnitCount] = []
        for statement, one in zip(self.statements, checked, strict=True):
            pending = any(a.range is None for a in statement.checked.automatic)
            chosen += counts_for_limits(one, statement.limits, tables, self._countable)
            for index, release in enumerate(one.releases):
                others += counts_for_bias(release, index, open_ranges=pending)
        return chosen + others

    def looked_up(self, stored: Lookup, *, any_noise: bool) -> _Choice:
        """The choice with what is stored of its counts."""
        automatic = [a for s in self.statements for a in s.checked.automatic]
        known: dict[Release, tuple[UnitCounts, ...]] = {}
        learned: set[Release] = set()
        spends: list[str] = []
        checked = [s.checked for s in self.statements]
        of_means, of_counts = self._divided(self.first)
        for of_mean, ask in ((True, of_means), (False, of_counts)):  # means tell which histograms are needed
            counts = list(self.means) if of_mean else self.counts(checked, together(known))
            if counts:
                stage = self._stage(counts, ask, automatic)
                found = stored_counts(stage, stored, partial(self._whole, ask=ask, ranges=automatic), any_noise)
                known |= found.tables
                learned |= found.learned
                spends += found.spends
        paid = tuple(dict.fromkeys(spends))
        return replace(self, tables=together(known), learned=frozenset(learned), spends=paid)

    def older(self, stored: Lookup) -> Iterator[tuple[dict[Place, Limits], Fraction]]:
        """The limits of all releases that need some, as they were chosen before, and the most that one of them had."""
        places = {
            (i, place): release
            for i, statement in enumerate(self.statements)
            for place, release in enumerate(statement.checked.releases)
            if release.bounding.chosen
        }
        names = [self.statements[i].plan.tables for i, _ in places]
        kept = [(at, stored.limits(one, tables)) for (at, one), tables in zip(places.items(), names, strict=True)]
        for chosen in choices(kept):
            limits = {at: one.limits(places[at], self.statements[at[0]].limits) for at, one in chosen.items()}
            fitting = {at: one for at, one in limits.items() if one is not None}
            if len(fitting) == len(limits):
                yield fitting, max(one.epsilon for one in chosen.values())

    def limited(self, limits: Mapping[Place, Limits], automatic: Sequence[Automatic]) -> list[Checked]:
        """All statements with these limits."""
        return [
            analyze_known(
                statement.plan,
                [limits.get((i, place), statement.limits) for place in range(len(statement.plan.releases))],
                self.catalog,
                self._used(i, automatic),
            )
            for i, statement in enumerate(self.statements)
        ]

    def told(self, checked: Sequence[Checked], stored: Lookup, automatic: Sequence[Automatic]) -> _Choice:
        """The choice with what is stored of what these limits and ranges cut, however noisy it is."""
        releases = [release for one in checked for release in one.releases]
        sources = [source for release in releases for source in clipping_sources(release)]
        counts = [UnitCount(s.kind, 0, s.histogram) for s in sources if s.histogram is not None]
        if not counts:
            return self
        of_means, ask = self._divided(self.first)
        stage, whole = self._stage(counts, ask, automatic), partial(self._whole, ask=ask, ranges=automatic)
        found = stored_counts(stage, stored, whole, any_noise=True)
        spends = list(found.spends)
        if self.means:  # they told which histograms were needed
            stage, whole = self._stage(self.means, of_means, automatic), partial(whole, ask=of_means)
            spends += stored_counts(stage, stored, whole, any_noise=True).spends
        return replace(self, tables=together(found.tables), learned=found.learned, spends=tuple(dict.fromkeys(spends)))

    def _whole(self, histogram: Release, ask: Ask, ranges: Sequence[Automatic]) -> Step | None:
        """The step of the histogram of the whole table that may serve for one of some units' rows."""
        whole = learned_rows(histogram, self.catalog)
        if whole is None or whole == histogram:
            return None
        with suppress(Error):
            return self._stage([UnitCount("rows", 0, whole)], ask, ranges).releases[0]
        return None

    def measured(self, ask: Ask, ranges: tuple[Stage, ...], automatic: tuple[Automatic, ...]) -> _Choice:
        """The choice with the stages that measure what isn't stored of its counts, for this share of the query."""
        ready = [a for a in automatic if a.range is not None]
        means = [one for one in self.means if one.histogram not in self.tables]
        stages: list[Stage] = []
        if means:
            mine, ask = self._divided(ask)
            stages.append(self._stage(means, mine, ready))
            if ranges:
                stages[0] = self._settled_after(stages[0], ranges, mine, automatic, ranges, None)
        counts = self.counts([s.checked for s in self.statements], self.tables)
        # Which histogram is needed hangs on means: until they are released, what is planned and paid for is all of it.
        missing = [c for c in counts if stages or c.histogram not in self.tables]
        stage = self._stage(missing, ask, ready)
        if ranges or stages:  # what is counted hangs on ranges and means; its price doesn't
            before = (*ranges, *stages)
            stage = self._settled_after(stage, before, ask, automatic, ranges, stages[0] if stages else None)
        return replace(self, stages=(*stages, stage))

    def _divided(self, ask: Ask) -> tuple[Ask, Ask]:
        """What is spent on means and on histograms."""
        if not self.means:
            return ask, ask
        of_means, rest = shares(ask, [OF_MEANS])
        return of_means, replace(rest, mechanism="laplace")

    def _settled_after(
        self,
        stage: Stage,
        before: tuple[Stage, ...],
        ask: Ask,
        automatic: tuple[Automatic, ...],
        ranges: tuple[Stage, ...],
        means: Stage | None,
    ) -> Stage:
        """A stage of counts that is settled once the stages before it are released. Its price is that of its share."""
        pending = [a.key for a in automatic if a.range is None]
        counts_means = (
            means is None and stage.steps and stage.releases[0].checked.release in {one.histogram for one in self.means}
        )

        def settle(known: Known) -> Stage:
            # Theorem LIMITS-1: what was released makes no error. Where it leaves nothing to be counted, what was
            # priced is measured.
            with suppress(Error, ArithmeticError):
                released = _known(automatic, dict(zip(pending, ranges, strict=True)), known)
                checked = [self._seeded(i, released) for i in range(len(self.statements))]
                if counts_means:
                    counts = _means(checked, self.statements, self._countable)
                else:
                    tables = self.tables if means is None else {**self.tables, **tables_of(known[means])}
                    counts = self.counts(checked, tables)
                known_before = {} if means is not None else self.tables
                if missing := [c for c in counts if c.histogram not in known_before]:
                    return self._stage(missing, ask, released)
            return stage

        return replace(stage, after=before, settle=settle, most=_whole(ask, stage.own, Fraction(0)))

    def _stage(self, counts: Sequence[UnitCount], ask: Ask, ranges: Sequence[Automatic]) -> Stage:
        return limits_stage(self._counting(ranges), counts, ask, self.catalog)

    def _counting(self, ranges: Sequence[Automatic]) -> Counting:
        return Counting(self.text, self._public, tuple(a for a in dict.fromkeys(ranges) if a.range is not None))

    @property
    def missing(self) -> bool:
        """Is something to be counted that isn't stored?"""
        every = [*self.means, *self.counts([s.checked for s in self.statements], self.tables)]
        return any(one.histogram not in self.tables for one in every)

    @property
    def chooses(self) -> bool:
        """Is a limit chosen?"""
        return _chooses(self.statements)

    @property
    def open(self) -> bool:
        """Are limits chosen by counts that are still to be measured?"""
        return not self.tell(self.tables) or any(one.histogram not in self.tables for one in self.means)

    def tell(self, tables: Tables) -> bool:
        """Do these counts tell all limits that are chosen? Which histogram that takes hangs on means among them."""
        wanted = [c for s in self.statements for c in counts_for_limits(s.checked, s.limits, tables, self._countable)]
        return all(one.histogram in tables for one in wanted)

    def settled(self, automatic: Sequence[Automatic], tables: Tables) -> list[Checked]:
        """All statements with the limits that were chosen; where these would be refused, with fixed public ones."""
        with suppress(Error):
            chosen = [self._chosen(i, automatic, tables) for i in range(len(self.statements))]
            # Theorem LIMITS-1: no refusal rests on a released value, together neither
            _calibrated(merge(self.text, chosen), self.rest, self.catalog)
            return chosen
        return [self._seeded(i, automatic) for i in range(len(self.statements))]

    def _seeded(self, index: int, automatic: Sequence[Automatic]) -> Checked:
        """A statement with fixed limits in the place of chosen ones."""
        statement = self.statements[index]
        used = self._used(index, automatic)
        if list(statement.checked.automatic) == used:
            return statement.checked
        return analyze_known(statement.plan, statement.limits, self.catalog, used)

    def _used(self, index: int, automatic: Sequence[Automatic]) -> list[Automatic]:
        keys = {a.key for a in self.statements[index].checked.automatic}
        return [a for a in automatic if a.key in keys]

    def _chosen(self, index: int, automatic: Sequence[Automatic], tables: Tables) -> Checked:
        """A statement with the limits that released counts choose; where it would be refused, with fixed ones."""
        statement, used = self.statements[index], self._used(index, automatic)
        seeded = self._seeded(index, automatic)
        with suppress(Error, ArithmeticError):  # estimates are floats, and ranges may be near the ends of those
            limits = self._limits(statement, seeded, used, tables)
            checked = analyze_known(statement.plan, limits, self.catalog, used)
            calibrated(checked, self.rest, self.catalog)  # Theorem LIMITS-1: no refusal rests on a released value
            return checked
        return seeded

    def _limits(self, statement: Statement, seeded: Checked, used: Sequence[Automatic], tables: Tables) -> list[Limits]:
        """The limits of each release of a statement."""
        wanted = list(counts_for_limits(seeded, statement.limits, tables, self._countable))
        found = []
        for place, release in enumerate(seeded.releases):
            counts = {w.kind: tables[w.histogram] for w in wanted if w.release == place}
            scales = scales_of(release, statement.limits, tables, self._countable)
            choosing = Choosing(release, statement.limits, counts, scales, self.rest, len(seeded.releases))
            found.append(choose(choosing, partial(self._step, statement, place, used)))
        return found

    def _step(self, statement: Statement, place: int, used: Sequence[Automatic], limits: Limits) -> Step:
        """How a release would be measured with these limits."""
        each = [limits if i == place else statement.limits for i in range(len(statement.plan.releases))]
        checked = analyze_known(statement.plan, each, self.catalog, used)
        return calibrated(checked, self.rest, self.catalog).releases[place]


def _chooses(statements: Sequence[Statement]) -> bool:
    """Is any limit chosen?"""
    return any(chooses_limits(s.checked, s.limits) for s in statements)


def _means(checked: Sequence[Checked], statements: Sequence[Statement], countable: Countable) -> list[UnitCount]:
    """What tells how large values are, where units may be bounded by size."""
    return [m for one, s in zip(checked, statements, strict=True) for m in means_for_limits(one, s.limits, countable)]


def _choice(text: str, statements: Sequence[Statement], catalog: Catalog, ask: Ask) -> _Choice | None:
    """The counts of units that a query needs; None where nobody has to choose a limit, and nothing can be cut.

    None, too, where so little can't be shared, and no limit has to be chosen: then what is cut isn't known.
    """
    share = share_for_limits(catalog, ask)
    if not share:
        return None
    automatic = tuple(dict.fromkeys(a for s in statements for a in s.checked.automatic))
    checked = [s.checked for s in statements]
    means = tuple(_means(checked, statements, partial(is_countable, catalog=catalog)))
    try:
        choice = _Choice(text.strip(), tuple(statements), means, catalog, ask, ask)
        counts = choice.counts(checked, {})
        if not counts:
            return None
        if not means:
            share *= min(Fraction(1), sum(part_of(count) for count in counts))
        first, rest = shares(_without(ask, automatic), [share])
        choice = replace(choice, first=first, rest=rest, share=share)
        of_means, of_counts = choice._divided(first)
        for wanted, mine in ((means, of_means), (counts, of_counts)):  # refused here, if they are
            if wanted:
                choice._stage(wanted, mine, automatic)
        return choice
    except PrivacyError:
        if _chooses(statements):
            raise
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Learning:
    """The stages that learn what isn't stored; and of each statement whether it needs counts, and whether they are
    stored already."""

    stages: tuple[Stage, ...]
    needed: tuple[bool, ...]
    stored: tuple[bool, ...]


def learning(text: str, statements: Sequence[Statement], ask: Ask, catalog: Catalog, stored: Lookup) -> Learning:
    """How to learn the counts of units which these statements would buy, for all of `ask` together.

    What is stored isn't measured again, however noisy it is.
    """
    checked = [s.checked for s in statements]
    choice = _Choice(text, tuple(statements), (), catalog, ask, ask)
    choice = replace(choice, means=tuple(_means(checked, statements, choice._countable)))
    needed = tuple(bool(choice.of(s).counts([s.checked], {})) for s in statements)
    if not any(needed):
        return Learning((), needed, needed)
    choice = choice.looked_up(stored, any_noise=True)
    known = tuple(not choice.of(s).missing for s in statements)
    # Theorem LIMITS-1, "Learned once": one stage of histograms for equal shares, however many tables they are of
    return Learning(choice.measured(ask, (), ()).stages if choice.missing else (), needed, known)


def _without(ask: Ask, automatic: Sequence[Automatic]) -> Ask:
    """What is left of an ask when all of these ranges are paid for."""
    return shares(ask, [a.share for a in automatic])[-1] if automatic else ask


def _known(
    automatic: Sequence[Automatic], stages: Mapping[tuple[object, object], Stage], known: Known
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


def _enough(together: Together, first: Ask | None, catalog: Catalog) -> tuple[AnyStep, ...] | None:
    """The steps of a release with so little to spend; None where nobody has as little."""
    with suppress(PrivacyError):
        return None if first is None else _calibrated(together, first, catalog).steps
    return None


def _seeded(statement: Statement, catalog: Catalog) -> Statement:
    """A statement with the seed ranges of its columns in place of those that were released."""
    ranges = [a if a.range is None else a.seeded for a in statement.checked.automatic]
    if not ranges:
        return statement
    return replace(statement, checked=analyze_known(statement.plan, statement.limits, catalog, ranges))


def _derived(statement: Statement, catalog: Catalog) -> Statement:
    """A statement with the derived ranges of its values, and the seed ranges of its columns that were released."""
    columns = [a for a in statement.checked.automatic if not isinstance(a, AutomaticValue)]
    ranges = [a if a.range is None else a.seeded for a in columns]
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
        if one.range is not None:
            continue
        first = f"as a query of its own with an epsilon: SELECT AVG({one.column}) FROM {one.table}"
        if isinstance(one, AutomaticValue):
            first = "with the same query and an epsilon"
        raise PrivacyError(
            f"{what} needs the range of {one.title}, which is automatic and not known yet",
            code="automatic",
            hint=f"ask for it first, {first}; its range stays",
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


def _calibrated(together: Together, ask: Ask, catalog: Catalog) -> Stage:
    stage = replace(calibrated(together.checked, ask, catalog), views=together.views)
    return share(stage) if together.several else stage


def calibrated(checked: Checked, ask: Ask, catalog: Catalog) -> Stage:
    """calibrate; for the same releases and the same ask it is done once in one planning."""
    key = ("calibrated", *map(id, checked.releases), checked.plan.text, checked.plan.tables, ask)
    releases, stage = catalog.memo.kept(key, lambda: (checked.releases, calibrate(checked, ask)))
    assert all(one is other for one, other in zip(releases, checked.releases, strict=True))  # they keep their ids
    return stage


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
    own, measured = main.own, () if choice is None or not choice.open else choice.stages
    fixed = ask if measured else replace(ask, mechanism=main.split.name)
    most = _whole(ask, own, ask.delta if own.delta or (measured and ask.mechanism == "auto") else Fraction(0))
    less = first if first is None or measured else replace(first, mechanism=main.split.name)
    pending = [a.key for a in main.automatic if a.range is None]

    def settle(known: Known) -> Stage:
        found = _known(main.automatic, dict(zip(pending, ranges, strict=True)), known)
        keys = {a.key: a for a in found}
        if choice is not None and measured:
            released = [tables_of(known[stage]) for stage in measured]
            again = choice.settled(found, {**choice.tables, **{r: t for tables in released for r, t in tables.items()}})
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
            settled = replace(_calibrated(together, fixed, catalog), enough=_enough(together, less, catalog))
        except PrivacyError:  # Theorem AUTO-1: no released range refuses what its seed range admits
            given_way = [keys[a.key].seeded if a.range is None else a for a in main.automatic]
            return replace(main, automatic=tuple(given_way))
        return replace(settled, automatic=tuple(used[a.key] for a in main.automatic))

    return replace(main, after=(*ranges, *measured), settle=settle, most=most, open=bool(measured))
