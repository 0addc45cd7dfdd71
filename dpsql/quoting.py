"""From text to a quote: what a query measures, with which noise, for which price. No private row is looked at.

text --parse--> tree --bind--> Bound --build--> Plan --analyze--> Checked --calibrate--> Quote
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction

from dpsql.accounting.view import View
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked, CheckedRelease
from dpsql.answer.rehearse import rehearse
from dpsql.core.errors import Error, PrivacyError
from dpsql.core.extras import NEEDED, require
from dpsql.engine import Shared
from dpsql.options import Request
from dpsql.plan.build import build
from dpsql.plan.set_counts import counted_sets
from dpsql.quote.ask import asked, with_policy
from dpsql.quote.bounds import with_automatic
from dpsql.quote.goal import Goal
from dpsql.quote.learned import Lookup
from dpsql.quote.limits import analyze_seeded
from dpsql.quote.model import Ask, Quote
from dpsql.quote.notes import standing
from dpsql.quote.plan_cache import Analyzed, Rests, key_of
from dpsql.quote.stages import Learning, Statement, learning, quote_of, require_chosen, require_known
from dpsql.sql.bind import Bound, bind
from dpsql.sql.inspection import inspection
from dpsql.sql.parameters import spots, written
from dpsql.sql.parse import Tree, parse
from dpsql.sql.statements import alone, statements
from dpsql.store.reuse import Looking, look


class Quoting:
    """Makes the quotes of one analyst's queries. view: the releases that may answer him for nothing."""

    def __init__(self, engine: Shared, view: View) -> None:
        self._engine, self._view = engine, view

    def answering(self, sql: str, request: Request) -> Quote:
        """The quote of one statement to answer by."""
        return self._best(lambda relying: self.quote(sql, request, relying=relying), request)

    def answering_together(self, sql: str, request: Request) -> Quote:
        """The quote of a batch to answer by."""
        return self._best(lambda relying: self.together(sql, request, relying=relying), request)

    def _best(self, quoted: Callable[[bool], Quote], request: Request) -> Quote:
        """The quote to answer by; quoted: makes it, relying on verified promises or not.

        What was released before a promise was checked answers the same query after the check, too, and for nothing:
        the order of the two decides about no price (Theorem VERSION-1).
        """
        engine, quote = self._engine, quoted(True)
        versions = {name: version for name, version in engine.versions().items() if name in quote.tables}
        late = any(engine.ledger.is_late(name, version) for name, version in versions.items())
        if not late or request.fresh or self.is_stored(quote):
            return quote
        try:
            older = quoted(False)
        except Error:
            return quote
        return older if self.is_stored(older) else quote

    def quote(self, sql: str, request: Request, *, relying: bool = True) -> Quote:
        """The quote of one statement: a recent one, if all that it rests on is the same.

        relying: on promises that were verified.
        """
        engine = self._engine
        versions = engine.versions()  # all of the quote is about these: if others come meanwhile, it isn't kept
        key, releases = key_of(sql, request, self._known(versions)), engine.ledger.releases()
        if relying and (known := engine.recent.get(key, self._view.stored_at)) is not None:
            return known
        # Where analysts don't see each other's releases, how soon one has a plan tells nothing of others (attack 50).
        own = (self._view.naming, sql, repr(request.params))
        tree = engine.analyses.tree(own, lambda: parse(sql, spots(sql, request.params)))
        stored = self._stored(versions)
        quote = self._priced(tree.shown, [tree], request, versions, stored, relying=relying)
        rests = Rests(tuple(stored.keys), self._view.stored_at(tuple(stored.keys)))
        same = relying and (key, releases) == (
            key_of(sql, request, self._known(engine.versions())),
            engine.ledger.releases(),
        )
        if same and not tree.timed:  # else it may rest on other data, or on what was stored meanwhile
            engine.recent.put(key, quote, rests)
        return quote

    def learning(self, text: str, queries: Sequence[str], ask: Ask) -> Learning:
        """How to learn the counts of units which these queries would buy, as far as they aren't stored."""
        catalog, stored = self._engine.catalog(), self._stored()
        trees = [parse(query) for query in queries]
        analyzed = [Analyzed(self._statement(tree, Limits(), catalog), catalog) for tree in trees]
        return learning(text, [_with_ranges(one, catalog, stored) for one in analyzed], ask, catalog, stored)

    def _known(self, versions: Mapping[str, str]) -> tuple[object, ...]:
        """All that a plan may rest on besides the query; and whose it is, where one analyst's plan isn't another's: it
        finds other releases, or names the spends of its ranges otherwise."""
        return (*self._engine.known(versions), self._view.naming, self._view.has_learned)

    def together(self, sql: str, request: Request, *, relying: bool = True) -> Quote:
        """The quote of a batch: releases of its statements merged, and one price."""
        if request.accuracy is not None:
            raise PrivacyError("an accuracy is for one query", code="accuracy", hint="give the batch an epsilon")
        values = spots(sql, request.params)
        queries = [text for text in statements(sql) if inspection(text) is None] or [sql]
        trees = [alone(parse(text, values)) for text in queries]
        stored = self._stored()
        return self._priced(written(sql, values), trees, request, self._engine.versions(), stored, relying=relying)

    def _priced(
        self,
        sql: str,
        trees: Sequence[Tree],
        request: Request,
        versions: Mapping[str, str],
        stored: Lookup,
        *,
        relying: bool,
    ) -> Quote:
        """bind, build and analyze each statement, then calibrate all of them; and rehearse what will be run."""
        engine = self._engine
        goal = Goal.parse(request.accuracy, request.confidence)
        allowed = [asked(request, engine.policy, tree.options) for tree in trees]
        analyzed = [self._analyzed(t, lim, versions, relying) for t, (_, lim) in zip(trees, allowed, strict=True)]
        catalog = analyzed[0].catalog
        with ExitStack() as held:
            for one in sorted(dict.fromkeys(analyzed), key=id):
                held.enter_context(one.lock)
            statements = [_with_ranges(one, catalog, stored) for one in analyzed]
            if goal is None:
                ask, _ = allowed[0]
                quote = quote_of(sql, statements, ask, catalog, stored, again=not request.fresh)
            else:
                quote = self._accurate(goal, sql, trees[0], statements, request, catalog, stored)
            quote = replace(quote, notes=tuple(one.notes for one in statements))
            rehearse(quote, engine.backend, engine.rehearsed())
        require(*NEEDED)  # all that a query needs is loaded by now, and nothing is paid yet
        return quote

    def _analyzed(self, tree: Tree, limits: Limits, versions: Mapping[str, str], relying: bool) -> Analyzed:
        """A statement analyzed with seed ranges: the stages that know neither ε, nor releases, nor rows.

        It is made once for a text, its named limits, and the data and promises that it rests on; for each analyst
        where they don't see each other's releases.
        """
        engine = self._engine
        key = (self._view.naming, tree.text, tree.shown, repr(limits), relying, engine.known(versions))
        if not tree.timed and (kept := engine.analyses.get(key)) is not None:
            return kept
        catalog = engine.catalog(versions)
        if not relying:
            catalog = catalog.without_promises()
        found = Analyzed(self._statement(tree, limits, catalog), catalog)
        if not tree.timed and key[-1] == engine.known(versions):  # else it may rest on other public data
            engine.analyses.put(key, found)
        return found

    def _statement(self, tree: Tree, limits: Limits, catalog: Catalog) -> Statement:
        """bind, build and analyze; and the answer's columns as DuckDB names and types them."""
        engine = self._engine
        bound = bind(tree, catalog.columns, catalog.unlisted)
        limits = with_policy(limits, engine.policy, bound.tables & engine.policy.tables.keys())
        checked, limits = self._checked(bound, limits, catalog)
        return Statement(checked, limits, engine.twin.describe(tree), standing(checked.plan, catalog))

    def _checked(self, bound: Bound, limits: Limits, catalog: Catalog) -> tuple[Checked, Limits]:
        """The plan with everything known of it. Values of set operations that are only counted are not listed.

        A list has the values that many people share, so that its length says little. Which of the two it is follows
        from the SQL, the policy and the schema.
        """
        policy, counted = self._engine.policy, counted_sets(bound.root)
        if counted is None:
            return analyze_seeded(build(bound, policy), limits, catalog)
        # Theorem SETCOUNT-1: both forms ask the same; neither rests on a row.
        refused: PrivacyError | None = None
        try:
            listed = analyze_seeded(build(bound, policy), limits, catalog)
            if not any(_lists_values(release) for release in listed[0].releases):
                return listed  # sets of one unit's own rows
        except PrivacyError as error:
            refused = error
        try:
            return analyze_seeded(build(replace(bound, root=counted), policy), limits, catalog)
        except Error:
            if refused is not None:
                raise refused from None
            return listed

    def _accurate(
        self,
        goal: Goal,
        sql: str,
        tree: Tree,
        checked: Sequence[Statement],
        request: Request,
        catalog: Catalog,
        stored: Lookup,
    ) -> Quote:
        """The quote with the least ε that is accurate enough."""
        policy, again = self._engine.policy, not request.fresh
        require_known(checked[0].checked, "an accuracy")
        bare = replace(request, accuracy=None, confidence=None)

        def price(epsilon: Fraction) -> Quote:
            ask, _ = asked(replace(bare, epsilon=epsilon), policy, tree.options)
            return require_chosen(quote_of(sql, checked, ask, catalog, stored, known_limits=True, again=again))

        most, _ = asked(request, policy, tree.options)
        return replace(goal.least(price, most.epsilon), offer=lambda epsilon: goal.offer(price, epsilon))

    def _stored(self, versions: Mapping[str, str] | None = None) -> Looking:
        """Finds what is stored of a step, for the data as they are now (versions, if given), and for this analyst."""
        return Looking(self._engine.identities(versions), self._view)

    def is_stored(self, quote: Quote) -> bool:
        """Whether stored releases answer this query, so that it costs nothing."""
        known = look(quote.stages, self._engine.identities(), self._view)
        return len(known) == len(quote.stages)


def _with_ranges(analyzed: Analyzed, catalog: Catalog, stored: Lookup) -> Statement:
    """The statement with the released ranges of columns and values that have automatic ones."""
    one = analyzed.statement
    return replace(one, checked=with_automatic(one.checked, one.limits, catalog, stored))


def _lists_values(release: CheckedRelease) -> bool:
    """Is it told of each group whether it is there?"""
    return release.private_keys or any(a.recipe.tells_presence for a in release.arguments)
