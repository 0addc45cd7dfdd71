"""connect() and Session: the pipeline, one line a stage.

text --parse--> tree --bind--> Bound --build--> Plan --analyze--> Checked --calibrate--> Quote
     --reserve--> Receipt --execute + release, step by step--> Noisy --finish--> Answer

The first line is here, up to the quote; the second is run.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

from dpsql.accounting.account import Balance, Receipt
from dpsql.accounting.fitting import fitting
from dpsql.accounting.opening import quota
from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.answer.model import Answer
from dpsql.answer.rehearse import rehearse, too_deep
from dpsql.backends.base import Backend
from dpsql.core.errors import Error, LedgerError, PrivacyError
from dpsql.engine import Shared
from dpsql.explain.explanation import Explanation
from dpsql.options import Request, asks
from dpsql.plan.build import build
from dpsql.policy.model import Policy, parse_epsilon
from dpsql.quote.ask import asked, with_policy
from dpsql.quote.bounds import with_automatic
from dpsql.quote.cut_estimate import NOTED, Cut, estimate_stage, read_cuts
from dpsql.quote.goal import Goal
from dpsql.quote.limits import analyze_seeded
from dpsql.quote.model import Ask, Quote, Step
from dpsql.quote.plan_cache import key_of
from dpsql.quote.stages import Statement, quote_of, require_chosen, require_known
from dpsql.run import Payer, run
from dpsql.sql.bind import bind
from dpsql.sql.parse import Tree, parse
from dpsql.sql.statements import alone, statements
from dpsql.store.archive import replays
from dpsql.store.reuse import find, look, stored_tables

PRICES = tuple(Fraction(n) for n in ("0.01", "0.03", "0.1", "0.3", "1", "3", "10"))
"""The ε that `prices` shows, where the policy allows as much."""


def connect(
    policy: str | Path | Policy = "policy.toml",
    *,
    sources: Mapping[str, Any] | None = None,
    ledger: str | Path | None = None,
    analyst: str | None = None,
    strict_engine: bool = False,
) -> Session:
    """Open a policy: a path, or a Policy with the tables that it names passed as `sources`.

    strict_engine: refuse a DuckDB that dpsql was not tested with, whatever the policy says.
    """
    name = checked_analyst(analyst)
    engine = Engine.open(policy, sources=sources, ledger=ledger, strict_engine=strict_engine)
    return Session(engine, name, owner=True)


class Engine(Shared):
    """A policy that is opened for several sessions, each of which may be closed by itself. Close it after them."""

    @classmethod
    def open(
        cls,
        policy: str | Path | Policy = "policy.toml",
        *,
        sources: Mapping[str, Any] | None = None,
        ledger: str | Path | None = None,
        strict_engine: bool = False,
    ) -> Engine:
        """Open a policy; the arguments are those of `connect`."""
        objects = sources or {}
        loaded = policy if isinstance(policy, Policy) else Policy.load(policy, sources=objects)
        return cls(loaded, objects, ledger, strict=strict_engine)

    def session(self, analyst: str | None = None) -> Session:
        """A session of this analyst's. What it does not share with others is its quota, and when it is closed."""
        return Session(self, checked_analyst(analyst))

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """One analyst's way in. Close it, or use it in a with statement."""

    def __init__(self, engine: Shared, analyst: str = "", *, owner: bool = False) -> None:
        """owner: the engine is closed with the session."""
        self._engine = engine
        self._payer = Payer(engine, analyst)
        self._owner = owner
        self._closed = False

    @asks
    def query(self, sql: str, request: Request) -> Answer:
        """Answer a query. What isn't said here or in the SQL is the policy's to say.

        epsilon, delta: what the whole query costs.
        max_rows, max_rows_per_group, max_groups: one unit counts for at most so many rows, in all and in one group,
            and shows up in at most so many groups.
        mechanism: the kind of noise: "auto", "laplace", "gaussian" or "discrete_gaussian".
        fresh: pay for new noise where a stored release would do.
        clipping: spend a twentieth of ε on an estimate of how many units limits and ranges cut.
        accuracy: instead of epsilon, spend the least that reaches this error: 100, or "1% of range".
        confidence: with which it is reached (0.95).
        """
        with self._about(sql) as engine:
            data = engine.data()
            quote = self._quote(sql, request)
            (answer,) = run(quote, data, self._payer, fresh=request.fresh)
            return answer

    @asks
    def batch(self, sql: str, request: Request) -> list[Answer]:
        """Answer several statements, divided by semicolons, with one price for all: ε is what the batch costs.

        What two statements need is measured once. If one of them is refused, nothing is paid and none is answered. The
        options are those of `query`; limits may stand in a statement of their own.
        """
        with self._about(sql) as engine:
            data = engine.data()
            quote = self._together(sql, request)
            return run(quote, data, self._payer, fresh=request.fresh)

    @asks
    def explain(self, sql: str, request: Request) -> Explanation:
        """Everything about a query's noise and price; spends nothing and reads no private row.

        The options are those of `query`; print it to read it.
        """
        with self._about(sql):
            quote = self._quote(sql, request)
            return self._explained(replace(quote, cuts=self._known_cuts(quote)))

    @asks
    def explain_batch(self, sql: str, request: Request) -> Explanation:
        """Everything about a batch's merged releases and their one price; spends nothing. Options as in `batch`."""
        with self._about(sql):
            return self._explained(self._together(sql, request))

    @asks
    def prices(self, sql: str, request: Request) -> list[Explanation]:
        """Quotes for a query at several ε, the smallest first; spends nothing. epsilon: one more of them."""
        with self._about(sql) as engine:
            budget, given = engine.policy.budget, request.epsilon
            most = min(budget.epsilon, budget.max_query_epsilon or budget.epsilon)
            wanted = {e for e in PRICES if e <= most} | ({parse_epsilon(given, where="epsilon")} if given else set())
            quotes = [self._quote(sql, replace(request, epsilon=e)) for e in sorted(wanted or {most})]
            return [self._explained(quote) for quote in quotes]

    # ---------------------------------------------------------------- from text to a quote

    def _quote(self, sql: str, request: Request) -> Quote:
        """The quote of one statement: a recent one, if all that it rests on is the same."""
        engine = self._engine
        key = key_of(sql, request, engine.known())
        if (known := engine.recent.get(key)) is not None:
            return known
        tree = parse(sql)
        quote = self._priced(sql, [tree], request)
        if not tree.timed and key == key_of(sql, request, engine.known()):  # else it may rest on other data
            engine.recent.put(key, quote)
        return quote

    def _together(self, sql: str, request: Request) -> Quote:
        """The quote of a batch: releases of its statements merged, and one price."""
        if request.accuracy is not None:
            raise PrivacyError("an accuracy is for one query", code="accuracy", hint="give the batch an epsilon")
        if request.clipping:
            raise PrivacyError(
                "what is cut is estimated for one query", code="clipping", hint="ask with that query alone"
            )
        return self._priced(sql, [alone(parse(text)) for text in statements(sql)], request)

    def _priced(self, sql: str, trees: Sequence[Tree], request: Request) -> Quote:
        """bind, build and analyze each statement, then calibrate all of them; and rehearse what will be run."""
        engine, catalog = self._engine, self._engine.catalog()
        goal = Goal.parse(request.accuracy, request.confidence)
        allowed = [asked(request, engine.policy, tree.options) for tree in trees]
        analyzed = [self._statement(t, limits, catalog) for t, (_, limits) in zip(trees, allowed, strict=True)]
        if goal is None:
            ask, _ = allowed[0]
            quote = quote_of(sql, analyzed, ask, catalog, self._stored, estimate=request.clipping)
        else:
            quote = self._accurate(goal, sql, trees[0], analyzed, request, catalog)
        rehearse(quote, engine.backend)
        return quote

    def _statement(self, tree: Tree, limits: Limits, catalog: Catalog) -> Statement:
        """The stages that know neither ε nor rows; and the answer's columns as DuckDB names and types them."""
        engine = self._engine
        bound = bind(tree, catalog.columns, catalog.unlisted)
        plan = build(bound, engine.policy)
        limits = with_policy(limits, engine.policy, bound.tables & engine.policy.tables.keys())
        seeded, limits = analyze_seeded(plan, limits, catalog)
        checked = with_automatic(seeded, limits, catalog, self._stored)
        return Statement(checked, limits, engine.twin.describe(tree))

    def _accurate(
        self,
        goal: Goal,
        sql: str,
        tree: Tree,
        checked: Sequence[Statement],
        request: Request,
        catalog: Catalog,
    ) -> Quote:
        """The quote with the least ε that is accurate enough."""
        policy = self._engine.policy
        require_known(checked[0].checked, "an accuracy")
        if request.clipping:
            raise PrivacyError("clipping goes with an epsilon", code="clipping", hint="leave accuracy out, or clipping")
        bare = replace(request, accuracy=None, confidence=None)

        def price(epsilon: Fraction) -> Quote:
            ask, _ = asked(replace(bare, epsilon=epsilon), policy, tree.options)
            return require_chosen(quote_of(sql, checked, ask, catalog, self._stored, known_limits=True))

        most, _ = asked(request, policy, tree.options)
        return replace(goal.least(price, most.epsilon), offer=lambda epsilon: goal.offer(price, epsilon))

    def _stored(self, step: Step) -> list[tuple[str, Noisy]]:
        return stored_tables(step, self._engine.identities(), self._engine.ledger)

    def _explained(self, quote: Quote) -> Explanation:
        ledger = self._engine.ledger
        left = ledger.left(quota(self._engine.policy, self._payer.analyst))
        fits = fitting(ledger.account.filter, left, quote.price, quote.measured)
        return Explanation.of(replace(quote, fits=fits))

    def _known_cuts(self, quote: Quote) -> tuple[Cut, ...]:
        """What an earlier estimate of the same rows said of the limits; free, and nothing where there is none."""
        engine = self._engine
        if not engine.ledger.has_noted(NOTED) or quote.main.settle is not None:
            return ()
        try:
            stage = estimate_stage(
                quote.main, Ask(Fraction(1, 10**6), Fraction(0), "laplace"), quote.plan, engine.catalog()
            )
        except Error:
            return ()
        found = find(stage, engine.identities(), engine.ledger)
        return () if found is None else read_cuts(quote.main, found.noisy)

    # ---------------------------------------------------------------- what is there already

    def is_stored(self, quote: Quote) -> bool:
        """Whether stored releases answer this query, so that it costs nothing."""
        known = look(quote.stages, self._engine.identities(), self._engine.ledger)
        return len(known) == len(quote.stages)

    def replay(self, id: str) -> Answer:
        """The answer of an earlier release once more, by its receipt's id (or the beginning of it): it is free."""
        first, *others = self.replays(id)
        if others:
            raise LedgerError(f"release {id} was a batch", code="no-answer", hint="session.replays(id) has all of it")
        return first

    def replays(self, id: str) -> list[Answer]:
        """All answers of an earlier batch once more, by its receipt's id; they are free."""
        self._check_open()
        return replays(self._engine.ledger, id)

    @property
    def backend(self) -> Backend:
        """What reads the rows, and writes the statements that `explain` shows."""
        return self._engine.backend

    @property
    def budget(self) -> Balance:
        """What the account holds: .total, .spent, .remaining."""
        self._check_open()
        return self._engine.ledger.balance

    @property
    def charged(self) -> Receipt | None:
        """The last spend of this session: what was paid for, also where it was interrupted or failed afterwards."""
        return self._payer.charged

    @property
    def paying(self) -> bool:
        """Is something being paid for, or was that interrupted, so that only the ledger knows?"""
        return self._payer.paying

    def close(self) -> None:
        """End the session. What `connect` opened is closed with it; an engine that others share stays open."""
        self._closed = True
        if self._owner:
            self._engine.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerError(
                "this session is closed", code="session-closed", hint="open another one: dpsql.connect(…)"
            )

    @contextmanager
    def _about(self, sql: str) -> Iterator[Shared]:
        """Give errors the text they point into; what exhausts the stack is an error of the text, too."""
        self._check_open()
        try:
            yield self._engine
        except Error as error:
            raise error.locate(sql) from None
        except RecursionError:
            raise too_deep().locate(sql) from None


def checked_analyst(name: str | None) -> str:
    """An analyst's name as the ledger writes it; "" for nobody in particular."""
    if name is None:
        return ""
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 100 or name == "*":
        raise PrivacyError(
            "an analyst's name is a text of 1 to 100 printable characters, and not *",
            code="analyst",
            hint='for instance analyst="marketing"',
        )
    return name.strip()
