"""What a query may ask for besides its SQL: from the call, from the SQL itself, then from the policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from dpsql.analyze.bounding import Limits
from dpsql.core.errors import Error, PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.engine import account
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.policy.model import Policy, parse_delta, parse_epsilon
from dpsql.quote.model import Ask
from dpsql.sql.google import PUBLIC, STRATEGY, Option, same

Number = str | int | float | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a query may ask for besides its SQL. accuracy: spend the least ε that reaches it.

    clipping: spend a twentieth of ε on an estimate of how many units limits and ranges cut.
    """

    epsilon: Number | None = None
    delta: Number | None = None
    max_rows: int | None = None
    max_rows_per_group: int | None = None
    max_groups: int | None = None
    mechanism: str | None = None
    fresh: bool = False
    clipping: bool = False
    accuracy: Number | None = None
    confidence: float | None = None


def options_of(given: Mapping[str, Any]) -> Options:
    """The options of a call, by their names."""
    known = {f.name for f in fields(Options)}
    for name in given:
        if name not in known:
            raise TypeError(f"unknown option {name!r}; options are {', '.join(sorted(known))}")
    return Options(**given)


def asked(options: Options, policy: Policy, clause: Mapping[str, Option] | None = None) -> tuple[Ask, Limits]:
    """What a query may spend and how much one unit may contribute: the call's word or the SQL's, then the policy's."""
    said = clause or {}
    strategy = said.get(STRATEGY)
    options = _stated(options, {name: option for name, option in said.items() if option is not strategy})
    with _placed(said, "epsilon"):
        epsilon = _epsilon(options, policy)
    filter_ = account(policy).filter
    if options.delta is None:
        # A share of the policy's δ; nothing of it is spent where nothing needs it.
        delta = filter_.share(epsilon)
    else:
        with _placed(said, "delta"):
            delta = parse_delta(options.delta, where="delta", error=PrivacyError)
    privacy = policy.privacy
    mechanism = options.mechanism or privacy.mechanism
    if mechanism not in ASKED_FOR:
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
    return Ask(epsilon, delta, mechanism, filter_.conversion), limits


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
    if options.accuracy is not None:  # the most that may be spent to reach it
        if options.epsilon is not None:
            raise PrivacyError(
                "epsilon and accuracy are two ways to say the same", code="accuracy", hint="give one of them"
            )
        return min(budget.epsilon, budget.max_query_epsilon or budget.epsilon)
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
