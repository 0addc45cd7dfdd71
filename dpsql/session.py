"""connect() and Session: the pipeline, one line a stage.

text --parse--> tree --bind--> Bound --build--> Plan --analyze--> Checked --calibrate--> Quote
     --reserve--> Receipt --execute + release, step by step--> Noisy --finish--> Answer

The first line, up to the quote, is quoting.py; the second is run.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, assert_never

from dpsql.accounting.account import Balance, Receipt
from dpsql.accounting.durable import now
from dpsql.accounting.filters import SMALLEST_EPSILON, fitting
from dpsql.accounting.opening import quota
from dpsql.accounting.signing import Signer
from dpsql.accounting.view import Share
from dpsql.answer.about import about_nothing
from dpsql.answer.model import Answer
from dpsql.answer.rehearse import too_deep
from dpsql.answer.render import guarantee
from dpsql.backends.base import Backend
from dpsql.core import STEWARD
from dpsql.core.concurrency import ReleaseTime
from dpsql.core.cost import Cost
from dpsql.core.errors import Error, LedgerError, PrivacyError
from dpsql.engine import Shared
from dpsql.explain.explanation import Explanation
from dpsql.learn import EPSILON, Learned, learn
from dpsql.options import Number, Request, asks
from dpsql.policy.model import Policy
from dpsql.policy.reader import parse_epsilon
from dpsql.quote.model import Quote
from dpsql.quoting import Quoting
from dpsql.refresh.refresh import Indexed, Refreshed, follow, index, refresh, require_steward
from dpsql.run import Payer, run, stored
from dpsql.sql.inspection import DescribeQuery, DescribeTable, Inspection, ShowTables, inspection, table_named
from dpsql.sql.parameters import spots
from dpsql.sql.parse import parse
from dpsql.sql.statements import statements
from dpsql.store.archive import replays
from dpsql.store.reuse import before

if TYPE_CHECKING:
    from dpsql.accounting.account_statement import Statement as AccountStatement

PRICES = tuple(Fraction(n) for n in ("0.01", "0.03", "0.1", "0.3", "1", "3", "10"))
"""The ε that `prices` shows, where the policy allows as much."""

SIZES = (Fraction(10), Fraction(1), Fraction("0.1"), Fraction("0.01"), SMALLEST_EPSILON)
"""The ε at which `free` looks for stored releases."""


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
    if engine.stale is not None and engine.policy.data.on_change == "refuse":
        engine.close()
        raise engine.stale
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
        """Open a policy; the arguments are those of `connect`. Data that changed wait for `refresh`."""
        objects = sources or {}
        loaded = policy if isinstance(policy, Policy) else Policy.load(policy, sources=objects)
        return cls(loaded, objects, ledger, strict=strict_engine)

    def session(self, analyst: str | None = None, *, share: Share = "open", hold: ReleaseTime | None = None) -> Session:
        """A session of this analyst's. What it does not share with others is its quota, and when it is closed.

        share, hold: what a server keeps from analysts: each other's releases, and how long a query took (`Payer`).
        """
        return Session(self, checked_analyst(analyst), share=share, hold=hold)

    def refresh(self, *, steward: bool = False, sources: Mapping[str, Any] | None = None) -> Refreshed:
        """The steward's act: accept the data as they are now, verify their promises, and say what changed.

        steward: must be True; it reads rows, and what it returns is not private. sources: objects in the place of
        those that the engine was opened with. Sessions of this engine go on with the new version.
        """
        require_steward(steward)
        return refresh(self, by="steward", sources=sources)

    def index(self, *, steward: bool = False, above: int | None = None) -> Indexed:
        """The steward's act: find heavy units once for the data as they are now; the same answers, sooner.

        steward: must be True; it reads rows, and what it returns is not private. above: units with more rows are
        listed, for limits of as many rows and more. Written beside the ledger, if that is a file.
        """
        require_steward(steward, "index", "an index reads rows, and names units")
        return index(self, above)

    def learn(self, *, steward: bool = False, epsilon: Number = EPSILON, columns: Sequence[str] = ()) -> Learned:
        """The steward's act: pay once for the histograms by which everybody's queries choose limits for nothing.

        steward: must be True; what is learned is private, and costs. epsilon: the most that it costs, for the data as
        they are now. columns: of these, table.column, what sums need, too.
        """
        require_steward(steward, "learn", "learning spends the budget for everybody")
        return learn(self, epsilon, columns)

    def __repr__(self) -> str:
        return f"<Engine: {_about_engine(self)}>"

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """One analyst's way in. Close it, or use it in a with statement."""

    def __init__(
        self,
        engine: Shared,
        analyst: str = "",
        *,
        owner: bool = False,
        share: Share = "open",
        hold: ReleaseTime | None = None,
    ) -> None:
        """owner: the engine is closed with the session. share, hold: whose releases answer, and when (`Payer`)."""
        self._engine = engine
        self._payer = Payer(engine, analyst, share, hold)
        self._view = self._payer.view
        self._quoting = Quoting(engine, self._view)
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
        accuracy: instead of epsilon, spend the least that reaches this error: 100, or "1% of range".
        confidence: with which it is reached (0.95).
        params: values for ?, $1 or $name in the SQL: a list, or a mapping for names. They are bound as literals.
        """
        with self._about(sql) as engine:
            if (about := inspection(sql)) is not None:
                return self._inspected(sql, about, request)
            data = engine.data()
            quote = self._quoting.answering(sql, request)
            engine.require_checked(quote.tables)
            (answer,) = run(quote, data, self._payer, fresh=request.fresh)
            return answer

    @asks
    def batch(self, sql: str, request: Request) -> list[Answer]:
        """Answer several statements, divided by semicolons, with one price for all: ε is what the batch costs.

        What two statements need is measured once. If one of them is refused, nothing is paid and none is answered. The
        options are those of `query`; limits may stand in a statement of their own.
        """
        with self._about(sql) as engine:
            texts = statements(sql)
            abouts = [(text, inspection(text)) for text in texts]
            told = {i: self._inspected(t, about, request) for i, (t, about) in enumerate(abouts) if about is not None}
            if len(told) == len(texts):
                return list(told.values())
            data = engine.data()
            quote = self._quoting.answering_together(sql, request)
            engine.require_checked(quote.tables)
            answers = iter(run(quote, data, self._payer, fresh=request.fresh))
            return [told[i] if i in told else next(answers) for i in range(len(texts))]

    @asks
    def free(self, sql: str, request: Request) -> Answer | None:
        """The answer where it costs nothing, because it is stored or needs no private row; None where it would cost.

        No ε is needed, and whatever noise a stored release has will do. The other options are those of `query`.
        """
        with self._about(sql) as engine:
            if (about := inspection(sql)) is not None:
                return self._inspected(sql, about, request)
            data = engine.data()
            bare = self._at_any_price(sql, replace(request, epsilon=None, accuracy=None, confidence=None))
            quote = self._quoting.quote(sql, bare)
            if not any(stage.steps for stage in quote.stages):
                (answer,) = run(quote, data, self._payer)
                return answer
            named = bare.epsilon is None  # in the SQL
            for epsilon in [None] if named else self._to_look_at(quote.plan.text):
                one = replace(bare, epsilon=epsilon)
                with suppress(PrivacyError):  # this is too small an ε for the query
                    quote = self._quoting.answering(sql, one)
                    if (found := stored(quote, data, self._payer)) is not None:
                        return found[0]
            return None

    @asks
    def explain(self, sql: str, request: Request) -> Explanation:
        """Everything about a query's noise and price; spends nothing and reads no private row.

        The options are those of `query`; print it to read it.
        """
        with self._about(sql):
            return self._explained(self._quoting.quote(sql, request))

    @asks
    def explain_batch(self, sql: str, request: Request) -> Explanation:
        """Everything about a batch's merged releases and their one price; spends nothing. Options as in `batch`."""
        with self._about(sql):
            return self._explained(self._quoting.together(sql, request))

    @asks
    def prices(self, sql: str, request: Request) -> list[Explanation]:
        """Quotes for a query at several ε, the smallest first; spends nothing. epsilon: one more of them.

        How often one fits is None where a stored release answers it, so that it costs nothing.
        """
        with self._about(sql):
            given, most = request.epsilon, self._most
            wanted = {e for e in PRICES if e <= most} | ({_epsilon(given)} if given else set())
            quotes = [self._quoting.quote(sql, replace(request, epsilon=e)) for e in sorted(wanted or {most})]
            free = [not request.fresh and self.is_stored(quote) for quote in quotes]
            explained = [self._explained(quote) for quote in quotes]
            return [replace(one, fits=None) if stored else one for one, stored in zip(explained, free, strict=True)]

    @property
    def _most(self) -> Fraction:
        """The largest ε that one query may name."""
        budget = self._engine.policy.budget
        return min(budget.epsilon, budget.max_query_epsilon or budget.epsilon)

    def _to_look_at(self, text: str) -> list[Fraction]:
        """At which ε a stored release may answer a query: where it was asked before, then any, the largest first.

        Limits and ranges that are chosen with another ε may be others, so no single one finds everything.
        """
        if not self._engine.ledger.has_stored():
            return []
        return [e for e in dict.fromkeys([*before(text, self._view), *SIZES]) if e <= self._most]

    # ---------------------------------------------------------------- what there is to ask

    def _inspected(self, sql: str, about: Inspection, request: Request) -> Answer:
        """The answer to SHOW TABLES or DESCRIBE: from the policy, schemas and public tables alone, and so for nothing.

        It isn't in the ledger, and its receipt has no id.
        """
        from dpsql.explain.schema import columns, outputs, tables  # queries that are only answered don't need it

        catalog = self._engine.catalog()
        match about:
            case ShowTables():
                table = tables(catalog)
            case DescribeTable():
                table = columns(table_named(about, catalog.schema), catalog)
            case DescribeQuery():
                table = outputs(self._quoting.quote(about.sql, self._at_any_price(about.sql, request)))
            case _:
                assert_never(about)
        engine, free = self._engine, self._engine.ledger.account.filter.nothing
        receipt = Receipt("", now(), free, "released")
        said = about_nothing(sql.strip(), free, engine.policy.digest, engine.versions_used)
        unnoisy = (None,) * table.num_columns
        return Answer(table, (), unnoisy, None, free, receipt, about=said, signer=engine.signer)

    def _at_any_price(self, sql: str, request: Request) -> Request:
        """The request with an ε, where nobody names one: a query's columns are the same at every price."""
        if request.epsilon is not None or request.accuracy is not None:
            return request
        said = parse(sql, spots(sql, request.params)).options
        return request if "epsilon" in said else replace(request, epsilon=self._most)

    def _explained(self, quote: Quote) -> Explanation:
        ledger = self._engine.ledger
        left = ledger.left(quota(self._engine.policy, self._payer.analyst))
        fits = fitting(ledger.account.filter, left, quote.price, quote.measured)
        return Explanation.of(replace(quote, fits=fits))

    # ---------------------------------------------------------------- what is there already

    def is_stored(self, quote: Quote) -> bool:
        """Whether stored releases answer this query, so that it costs nothing."""
        return self._quoting.is_stored(quote)

    def replay(self, id: str) -> Answer:
        """The answer of an earlier release once more, by its receipt's id: it is free.

        Who has a name gets his own, by the whole id; others anybody's, by the beginning of it.
        """
        first, *others = self.replays(id)
        if others:
            raise LedgerError(f"release {id} was a batch", code="no-answer", hint="session.replays(id) has all of it")
        return first

    def replays(self, id: str) -> list[Answer]:
        """All answers of an earlier batch once more, by its receipt's id; they are free."""
        self._check_open()
        found = replays(self._engine.ledger, self._view.own(id).id)
        return [replace(answer, signer=self._engine.signer) for answer in found]

    @property
    def backend(self) -> Backend:
        """What reads the rows, and writes the statements that `explain` shows."""
        return self._engine.backend

    @property
    def unverified(self) -> tuple[str, ...]:
        """Tables with promises that weren't checked for their data as they are now: their limits are enforced."""
        return self._engine.unverified

    @property
    def budget(self) -> Balance:
        """What the account holds: .total, .spent, .remaining."""
        self._check_open()
        return self._engine.ledger.balance

    def can_pay(self, price: Cost) -> bool:
        """Whether what is left, of the account and of the analyst's quota, would pay this price now."""
        more = self.pays(price)
        return more is None or more >= 1

    def pays(self, price: Cost) -> int | None:
        """How often what is left would pay this price now; None: as often as you like, because it costs nothing."""
        self._check_open()
        ledger = self._engine.ledger
        return ledger.account.filter.times(ledger.left(quota(self._engine.policy, self._payer.analyst)), price)

    def knows(self, release: str) -> bool:
        """Whether the ledger has a release with this id."""
        self._check_open()
        return self._engine.ledger.knows(release)

    @property
    def versions(self) -> dict[str, str]:
        """The version of each table's data, as the ledger calls it; refused where data changed and wait for a refresh.

        Neighbours agree on it (Theorem VERSION-1).
        """
        self._check_open()
        follow(self._engine)
        with self._engine.gate.shared():
            return self._engine.identities()

    @property
    def ledger_path(self) -> Path | None:
        """The ledger's file; None: it is in memory."""
        return self._engine.ledger.path

    @property
    def signer(self) -> Signer:
        """What signs receipts; `signer.public` is the key with which they are verified."""
        return self._engine.signer

    @property
    def account(self) -> AccountStatement:
        """What the account holds, what it was spent on and by whom; `dpsql budget` prints it."""
        from dpsql.accounting.account_statement import statement

        self._check_open()
        ledger = self._engine.ledger
        return statement(ledger.account, ledger.balance, ledger.history(), self.policy.budget.analysts)

    @property
    def policy(self) -> Policy:
        """The policy that was opened."""
        return self._engine.policy

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

    def __repr__(self) -> str:
        who = f"{self._payer.analyst}, " if self._payer.analyst else ""
        return "<Session: closed>" if self._closed else f"<Session: {who}{_about_engine(self._engine)}>"

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
            follow(self._engine)
            with self._engine.gate.shared():
                yield self._engine
        except Error as error:
            raise error.locate(sql) from None
        except RecursionError:
            raise too_deep().locate(sql) from None


def _about_engine(engine: Shared) -> str:
    """Which policy and tables these are, and what is left. Never fails."""
    policy = engine.policy
    names = [table.name for table in policy.tables.values()]
    few = [*names[:6], *([f"{len(names) - 6} more"] if len(names) > 6 else [])]
    try:
        balance = engine.ledger.balance
        left = f"left {guarantee(balance.remaining, up=False)} of {guarantee(balance.total, up=False)}"
    except Error as error:
        left = "closed" if error.code == "ledger-closed" else error.message
    return f"{policy.path.name if policy.path else 'a policy'} with {', '.join(few)}; {left}"


def _epsilon(given: Number) -> Fraction:
    return parse_epsilon(given, where="epsilon", error=PrivacyError)


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
    if name.strip() == STEWARD:
        raise PrivacyError(
            f"{STEWARD} is the steward's own name in the ledger, and no analyst has it",
            code="analyst",
            hint="choose another name",
        )
    return name.strip()
