"""connect() and Session: the pipeline, one line a stage.

text --parse--> tree --bind--> Bound --build--> Plan --analyze--> Checked --calibrate--> Quote
     --reserve--> Receipt --execute + release, step by step--> Noisy --finish--> Answer
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
from dpsql.analyze.bounding import Limits
from dpsql.analyze.checked import Checked
from dpsql.answer.finish import finish, publish
from dpsql.answer.model import Answer
from dpsql.answer.rehearse import rehearse, too_deep
from dpsql.backends.base import Backend, Deadline
from dpsql.core.cost import Cost
from dpsql.core.errors import BudgetError, Error, LedgerError, PrivacyError
from dpsql.core.stoppable import to_the_end
from dpsql.engine import Engine, quota
from dpsql.options import Options, asked, options_of
from dpsql.plan.build import build
from dpsql.policy.model import Policy, parse_epsilon
from dpsql.quote.bounds import analyze_automatic, parts, quote_automatic, require_known, settled
from dpsql.quote.calibrate import calibrate
from dpsql.quote.cut_estimate import SHARE, cuts_something, known_cuts, read_cuts, with_estimate
from dpsql.quote.goal import Goal
from dpsql.quote.merge import Batch, Result, alone, answer, merge, quotes, share, statements
from dpsql.quote.model import Quote
from dpsql.quote.plan_cache import key_of
from dpsql.release import Noisy, Responded, release, respond
from dpsql.sql.bind import bind
from dpsql.sql.parse import Tree, parse
from dpsql.store.archive import replays
from dpsql.store.reuse import Found, find, keep

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
    objects = sources or {}
    loaded = policy if isinstance(policy, Policy) else Policy.load(policy, sources=objects)
    return Session(Engine(loaded, objects, ledger, strict=strict_engine), checked_analyst(analyst))


class Session:
    """One analyst's way in. Close it, or use it in a with statement."""

    def __init__(self, engine: Engine, analyst: str = "") -> None:
        self._engine = engine
        self._analyst = analyst
        self.charged: Receipt | None = None
        self.paying = False
        """The last spend of this session: what was paid for, also where it was interrupted or failed afterwards."""

    def query(self, sql: str, **options: Any) -> Answer:
        """Answer a query. Takes the options of `Options`; ε is what the whole query costs."""
        engine = self._engine
        with _located(sql):
            data = engine.identities()
            quote = self._quote(sql, options)
            if not options.get("fresh") and (found := self._stored(quote, data)) is not None:
                return self._cut(finish(quote, found.noisy, found.receipt, engine.public), quote, data)
            with self._loosest(sql, options):
                *first, receipt = self._reserve(quote.spends)
            until = engine.deadline()
            price, quote = quote.price, self._bounded(quote, first, data, until)
            noisy: list[Noisy | Responded] = [*self._measure(quote, until), *self._respond(quote, until)]
            engine.check_unchanged(data)
            done = self._cut(finish(quote, noisy, receipt, engine.public), quote, data, *first[-1:], until=until)
            return replace(done, cost=price, receipt=engine.ledger.released(receipt, keep(quote, data, noisy, [done])))

    def batch(self, sql: str, **options: Any) -> list[Answer]:
        """Answer several statements, divided by semicolons, with one price for all: ε is what the batch costs.

        What two statements need is measured once. If one of them is refused, nothing is paid and none is answered.
        """
        engine = self._engine
        with _located(sql):
            data = engine.identities()
            together, quote = self._together(sql, options)
            self._rehearse(quote, together)
            found = None if options.get("fresh") else find(quote, data, engine.ledger)
            if found is not None:
                return [answer(quote, p, found.noisy, found.receipt, engine.public) for p in together.parts]
            (receipt,) = self._reserve([(quote.price, quote.note)])
            noisy = self._measure(quote, engine.deadline())
            engine.check_unchanged(data)
            answers = [answer(quote, part, noisy, receipt, engine.public) for part in together.parts]
            done = engine.ledger.released(receipt, keep(quote, data, noisy, answers))
            return [replace(one, receipt=done) for one in answers]

    def explain(self, sql: str, **options: Any) -> Quote:
        """Everything about a query's noise and price; spends nothing and reads no private row."""
        with _located(sql):
            quote = self._quote(sql, options)
            return self._fitted(replace(quote, cuts=known_cuts(quote, self._engine)))

    def explain_batch(self, sql: str, **options: Any) -> Quote:
        """The same for a batch: its merged releases, and one price."""
        with _located(sql):
            together, quote = self._together(sql, options)
            self._rehearse(quote, together)
            return self._fitted(quote)

    def _rehearse(self, quote: Quote, together: Batch) -> None:
        for one in quotes(quote, together):
            rehearse(one, self._engine.backend)

    def _fitted(self, quote: Quote) -> Quote:
        ledger = self._engine.ledger
        left = ledger.left(quota(self._engine.policy, self._analyst))
        first = () if quote.before is None else quote.before.quotes
        aside = () if quote.aside is None else (quote.aside,)
        measured = [one for q in (quote, *first, *aside) for one in q.measured]
        return replace(quote, fits=fitting(ledger.account.filter, left, quote.price, measured))

    def _together(self, sql: str, options: Mapping[str, Any]) -> tuple[Batch, Quote]:
        """The statements of a batch with their releases merged, and the quote for all of them."""
        policy, wanted = self._engine.policy, options_of(options)
        if wanted.accuracy is not None:
            raise PrivacyError("an accuracy is for one query", code="accuracy", hint="give the batch an epsilon")
        if wanted.clipping:
            raise PrivacyError(
                "what is cut is estimated for one query", code="clipping", hint="ask with that query alone"
            )
        trees = [parse(text) for text in statements(sql)]
        asks = [asked(wanted, policy, alone(tree).options) for tree in trees]
        checked = [self._checked(t, limits) for t, (_, limits) in zip(trees, asks, strict=True)]
        for one, _ in checked:
            require_known(one, "a batch")
        together = merge(sql, checked)
        automatic = tuple(dict.fromkeys(a for one, _ in checked for a in one.automatic))
        return together, replace(share(calibrate(together.checked, asks[0][0], ())), automatic=automatic)

    def _quote(self, sql: str, options: Mapping[str, Any]) -> Quote:
        engine = self._engine
        key = key_of(sql, options, engine.known())
        if (known := engine.recent.get(key)) is not None:
            return known
        wanted, tree = options_of(options), parse(sql)
        quote = self._priced(tree, wanted)
        rehearse(quote, engine.backend)
        if not tree.timed and key == key_of(sql, options, engine.known()):  # else it may rest on other data
            engine.recent.put(key, quote)
        return quote

    def _priced(self, tree: Tree, wanted: Options) -> Quote:
        engine = self._engine
        goal = Goal.parse(wanted.accuracy, wanted.confidence)
        ask, limits = asked(wanted, engine.policy, tree.options)
        checked, result = self._checked(tree, limits)
        if goal is None:
            aside, main = parts(ask, [SHARE]) if wanted.clipping and cuts_something(checked) else (None, ask)
            quote = quote_automatic(checked, main, result, limits, engine)
            return quote if aside is None else with_estimate(quote, aside, ask.epsilon, engine)
        require_known(checked, "an accuracy")
        if wanted.clipping:
            raise PrivacyError("clipping goes with an epsilon", code="clipping", hint="leave accuracy out, or clipping")
        bare = replace(wanted, accuracy=None, confidence=None)

        def price(epsilon: Fraction) -> Quote:
            return calibrate(checked, asked(replace(bare, epsilon=epsilon), engine.policy, tree.options)[0], result)

        return replace(goal.least(price, ask.epsilon), automatic=checked.automatic)

    def prices(self, sql: str, **options: Any) -> list[Quote]:
        """Quotes for the same query at several ε, the smallest first; spends nothing."""
        with _located(sql):
            given = options.pop("epsilon", None)
            budget = self._engine.policy.budget
            most = min(budget.epsilon, budget.max_query_epsilon or budget.epsilon)
            wanted = {e for e in PRICES if e <= most} | ({parse_epsilon(given, where="epsilon")} if given else set())
            return [self.explain(sql, **options, epsilon=e) for e in sorted(wanted or {most})]

    @contextmanager
    def _loosest(self, sql: str, options: Mapping[str, Any]) -> Iterator[None]:
        """Tell who asked for an accuracy that can't be paid which one could be."""
        try:
            yield
        except BudgetError as error:
            goal = Goal.parse(options.get("accuracy"), options.get("confidence"))
            if goal is not None and error.fits is not None:
                rest = {name: value for name, value in options.items() if name not in ("accuracy", "confidence")}
                loosest = goal.offer(lambda e: self._priced(parse(sql), options_of({**rest, "epsilon": e})), error.fits)
                if loosest is not None:
                    error.hint = f"the accuracy that fits is {loosest}\n{error.hint}"
            raise

    def is_stored(self, quote: Quote) -> bool:
        """Whether a stored release answers this query, so that it costs nothing."""
        return self._stored(quote, self._engine.identities()) is not None

    def _stored(self, quote: Quote, versions: Mapping[str, str]) -> Found | None:
        """What answers the query for free: also what it got when its automatic bounds were still to pay."""
        found = find(quote, versions, self._engine.ledger)
        if found is None and quote.lesser is not None:
            return find(quote.lesser, versions, self._engine.ledger)
        return found

    def replay(self, id: str) -> Answer:
        """The answer of an earlier release once more, by its receipt's id (or the beginning of it): it is free."""
        first, *others = self.replays(id)
        if others:
            raise LedgerError(f"release {id} was a batch", code="no-answer", hint="session.replays(id) has all of it")
        return first

    def replays(self, id: str) -> list[Answer]:
        """The same for a batch: all its answers."""
        return replays(self._engine.ledger, id)

    def _checked(self, tree: Tree, limits: Limits) -> tuple[Checked, Result]:
        """The stages that know neither ε nor rows; and the answer's columns as DuckDB names and types them."""
        engine = self._engine
        bound = bind(tree, engine.columns, engine.unlisted)
        plan = build(bound, engine.policy)
        return analyze_automatic(plan, limits, engine), engine.twin.describe(tree)

    def _reserve(self, spends: Sequence[tuple[Cost, dict[str, object]]]) -> list[Receipt]:
        """Pay, before a row is read. Whoever interrupts this finds all of it done, or nothing: `charged` tells."""
        engine, who = self._engine, self._analyst
        engine.backend.check_running()
        untested = engine.backend.versions.untested
        told = {"untested": untested} if untested else {}
        noted = [(price, {**note, **told}) for price, note in spends]

        def pay() -> list[Receipt]:
            self.paying = True
            try:
                receipts = engine.ledger.reserve_all(noted, analyst=who, quota=quota(engine.policy, who))
            except BudgetError:
                self.paying = False  # nothing was recorded; of other errors only the ledger knows
                raise
            self.charged, self.paying = receipts[-1], False
            return [replace(receipt, untested=untested) for receipt in receipts]

        return to_the_end(pay)

    def _bounded(self, quote: Quote, receipts: Sequence[Receipt], data: Mapping[str, str], until: Deadline) -> Quote:
        """Release the automatic bounds that a query needs first; all of it is paid by now (Theorem AUTO-1)."""
        if quote.before is None:
            return quote
        engine, released = self._engine, []
        for first, receipt in zip(quote.before.quotes, receipts, strict=False):  # the last may be for the estimate
            (noisy,) = self._measure(first, until)
            engine.check_unchanged(data)
            done = finish(first, [noisy], receipt, engine.public)
            engine.ledger.released(receipt, keep(first, data, [noisy], [done]))
            released.append((noisy, receipt.id))
        known = settled(quote, released, engine)
        if quote.aside is None:
            return known
        ask = replace(quote.before.ask, epsilon=quote.aside.epsilon, delta=Fraction(0), mechanism="laplace")
        return with_estimate(known, ask, quote.epsilon, engine)

    def _cut(
        self, done: Answer, quote: Quote, data: Mapping[str, str], *paid: Receipt, until: Deadline | None = None
    ) -> Answer:
        """The answer with the estimate of what is cut, where that was asked for: a stored one is free."""
        engine, aside = self._engine, quote.aside
        if aside is None:
            return done
        if not paid and (found := find(aside, data, engine.ledger)) is not None:
            return replace(done, clipping=read_cuts(quote, found.noisy))
        (receipt,) = paid or self._reserve([(aside.own, aside.note)])
        noisy = self._measure(aside, until or engine.deadline())
        engine.check_unchanged(data)
        engine.ledger.released(receipt, keep(aside, data, noisy, []))
        return replace(done, cost=done.cost if paid else receipt.cost, clipping=read_cuts(quote, noisy))

    def _measure(self, quote: Quote, until: Deadline) -> list[Noisy]:
        """Execute and release, step by step. The only way to a private row; the price is on disk by now."""
        noisy: list[Noisy] = []
        with self._engine.backend.measuring(until) as rows:
            for step in quote.steps:
                exact = rows.execute(step, publish(step, noisy, self._engine.public))
                noisy.append(release(step, exact))
        return noisy

    def _respond(self, quote: Quote, until: Deadline) -> list[Responded]:
        """The same for rows that leave one by one, randomised."""
        if not quote.responses:
            return []
        with self._engine.backend.measuring(until) as rows:
            return [respond(step, rows.encode(step)) for step in quote.responses]

    @property
    def backend(self) -> Backend:
        """What reads the rows, and writes the statements that `explain` shows."""
        return self._engine.backend

    @property
    def budget(self) -> Balance:
        """What the account holds: .total, .spent, .remaining."""
        return self._engine.ledger.balance

    def close(self) -> None:
        """Close the databases and the ledger."""
        self._engine.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _located(sql: str) -> Iterator[None]:
    """Give errors the text they point into; what exhausts the stack is an error of the text, too."""
    try:
        yield
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
