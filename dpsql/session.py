"""connect() and Session: the pipeline, one line a stage.

text --parse--> tree --bind--> Bound --build--> Plan --analyze--> Checked --calibrate--> Quote
     --reserve--> Receipt --execute + release, step by step--> Noisy --finish--> Answer
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

from dpsql.accounting.account import Balance
from dpsql.analyze.bounding import Limits
from dpsql.analyze.checked import analyze
from dpsql.answer import Answer
from dpsql.backends.duckdb.run import execute
from dpsql.calibrate import Ask, Quote, calibrate
from dpsql.engine import Engine
from dpsql.errors import Error, PrivacyError, SQLError
from dpsql.finish import finish, publish
from dpsql.plan.build import build
from dpsql.policy import Policy, parse_delta, parse_epsilon
from dpsql.release import Noisy, release
from dpsql.sql.bind import bind
from dpsql.sql.google import PUBLIC, STRATEGY, Option, same
from dpsql.sql.parse import parse

Number = str | int | float | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a query may ask for besides its SQL. Fields that this version can't do are refused when given."""

    epsilon: Number | None = None
    delta: Number | None = None
    max_rows: int | None = None
    max_rows_per_group: int | None = None
    max_groups: int | None = None
    mechanism: str | None = None
    fresh: bool = False
    accuracy: Number | None = None
    confidence: float | None = None


def connect(
    policy: str | Path | Policy = "policy.toml",
    *,
    sources: Mapping[str, Any] | None = None,
    ledger: str | Path | None = None,
    analyst: str | None = None,
) -> Session:
    """Open a policy: a path, or a Policy with the tables that it names passed as `sources`."""
    objects = sources or {}
    loaded = policy if isinstance(policy, Policy) else Policy.load(policy, sources=objects)
    if analyst is not None:
        raise _later("analyst")
    return Session(Engine(loaded, objects, ledger))


class Session:
    """One analyst's way in. Close it, or use it in a with statement."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def query(self, sql: str, **options: Any) -> Answer:
        """Answer a query. Takes the options of `Options`; ε is what the whole query costs."""
        engine = self._engine
        with _located(sql):
            quote = self._quote(sql, options)
            receipt = engine.ledger.reserve(quote.price, {"sql": sql})
            noisy: list[Noisy] = []
            cursor = engine.cursor()
            try:
                for step in quote.steps:
                    exact = execute(step, cursor, publish(step, noisy, engine.public))
                    noisy.append(release(step, exact))
            finally:
                cursor.close()
            engine.versions()  # refused if a source changed meanwhile: promises were verified for what it was
            answer = finish(quote, noisy, receipt, engine.public)
            return replace(answer, receipt=engine.ledger.released(receipt))

    def explain(self, sql: str, **options: Any) -> Quote:
        """Everything about a query's noise and price; spends nothing and reads no private row."""
        with _located(sql):
            return self._quote(sql, options)

    def _quote(self, sql: str, options: Mapping[str, Any]) -> Quote:
        engine = self._engine
        given = _options(options)
        tree = parse(sql)
        ask, limits = asked(given, engine.policy, tree.options)
        bound = bind(tree, engine.columns, engine.unlisted)
        plan = build(bound, engine.policy)
        checked = analyze(plan, limits, engine.catalog())
        return calibrate(checked, ask, engine.twin.describe(tree))

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
    """Give errors the text they point into."""
    try:
        yield
    except Error as error:
        raise error.locate(sql) from None


def _options(given: Mapping[str, Any]) -> Options:
    known = {f.name for f in fields(Options)}
    for name in given:
        if name not in known:
            raise TypeError(f"unknown option {name!r}; options are {', '.join(sorted(known))}")
    options = Options(**given)
    for name in ("accuracy", "confidence"):
        if getattr(options, name) is not None:
            raise _later(name)
    if options.fresh:
        raise _later("fresh")
    return options


def _later(name: str) -> PrivacyError:
    return PrivacyError(f"{name} is not supported by this version", code="not-yet", hint="leave it out")


def asked(options: Options, policy: Policy, clause: Mapping[str, Option] | None = None) -> tuple[Ask, Limits]:
    """What a query may spend and how much one unit may contribute: the call's word or the SQL's, then the policy's."""
    said = clause or {}
    strategy = said.get(STRATEGY)
    options = _stated(options, {name: option for name, option in said.items() if option is not strategy})
    with _placed(said, "epsilon"):
        epsilon = _epsilon(options, policy)
    if options.delta is None:
        # A share of the policy's δ; nothing of it is spent where nothing needs it.
        delta = policy.budget.delta * min(Fraction(1), epsilon / policy.budget.epsilon)
    else:
        with _placed(said, "delta"):
            delta = parse_delta(options.delta, where="delta", error=PrivacyError)
    privacy = policy.privacy
    mechanism = options.mechanism or privacy.mechanism
    if mechanism not in ("auto", "laplace", "gaussian"):
        with _placed(said, "mechanism"):
            raise PrivacyError(
                f"unknown mechanism {mechanism!r}", code="mechanism", hint='use "auto", "laplace" or "gaussian"'
            )

    def limit(name: str) -> int | None:
        with _placed(said, name):
            written = said[name].written if name in said else name
            return _limit(written, getattr(options, name), getattr(privacy, name))

    limits = Limits(
        max_rows=limit("max_rows"),
        max_rows_per_group=limit("max_rows_per_group"),
        max_groups=limit("max_groups"),
        min_units=privacy.min_units,
        public_keys=strategy is not None and strategy.value == PUBLIC,
    )
    return Ask(epsilon, delta, mechanism), limits


def _stated(options: Options, said: Mapping[str, Option]) -> Options:
    """The options with what the SQL says of them; it may repeat an argument, and not contradict it."""
    for name, option in said.items():
        given = getattr(options, name)
        if given is not None and not same(given, option.value):
            error = SQLError(
                f"{option.written} = {option.value} in the SQL, and {name} = {given} beside it",
                code="conflicting-options",
                hint="say it once: in the SQL, or as an argument of the call",
            )
            error.offsets = option.place
            raise error
    stated: dict[str, Any] = {name: option.value for name, option in said.items()}
    return replace(options, **stated)


@contextmanager
def _placed(said: Mapping[str, Option], name: str) -> Iterator[None]:
    """Let an error about an option that stands in the SQL point at it."""
    try:
        yield
    except Error as error:
        if name in said:
            error.offsets = said[name].place
        raise


def _limit(name: str, given: object, policy: int | None) -> int | None:
    if given is None:
        return policy
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= 2**31:
        raise PrivacyError(
            f"{name} is a whole number from 1 to 2³¹, not {given!r}", code="limit", hint=f"for instance {name}=20"
        )
    return given


def _epsilon(options: Options, policy: Policy) -> Fraction:
    budget = policy.budget
    if options.epsilon is None:
        if budget.query_epsilon is None:
            raise PrivacyError(
                "the query names no ε and the policy has no query_epsilon",
                code="no-epsilon",
                hint="give one: --epsilon 0.5, epsilon=0.5, or [budget] query_epsilon = 0.5 in the policy",
            )
        return budget.query_epsilon
    epsilon = parse_epsilon(options.epsilon, where="epsilon", error=PrivacyError)
    if budget.max_query_epsilon is not None and epsilon > budget.max_query_epsilon:
        raise PrivacyError(
            f"ε = {float(epsilon):g} is more than one query may spend",
            code="max-query-epsilon",
            hint=f"the policy allows at most {float(budget.max_query_epsilon):g} (max_query_epsilon)",
        )
    return epsilon
