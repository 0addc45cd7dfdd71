"""What a query may spend and how much one unit may contribute: from the call, from the SQL itself, then the policy.

A limit that neither the call nor the SQL names is that of the tables in the query, and then the policy's for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpsql.accounting.opening import account
from dpsql.analyze.bounding import Limits
from dpsql.core.errors import Error, PrivacyError, SQLError
from dpsql.core.limit import AUTO, Choose, widest
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.options import Request
from dpsql.policy.model import LIMITS, Policy
from dpsql.policy.reader import parse_delta, parse_epsilon
from dpsql.quote.model import Ask
from dpsql.sql.google import PUBLIC, STRATEGY, Option, same


def asked(request: Request, policy: Policy, clause: Mapping[str, Option] | None = None) -> tuple[Ask, Limits]:
    """What a query may spend, by the call's word or the SQL's, then the policy's; and the limits that they name."""
    said = clause or {}
    strategy = said.get(STRATEGY)
    request = _stated(request, {name: option for name, option in said.items() if option is not strategy})
    with _placed(said, "epsilon"):
        epsilon = _epsilon(request, policy)
    filter_ = account(policy).filter
    if request.delta is None:
        # A share of the policy's δ; nothing of it is spent where nothing needs it.
        delta = filter_.share(epsilon)
    else:
        with _placed(said, "delta"):
            delta = parse_delta(request.delta, where="delta", error=PrivacyError)
    mechanism = request.mechanism or policy.privacy.mechanism
    if mechanism not in ASKED_FOR:
        with _placed(said, "mechanism"):
            raise PrivacyError(f"unknown mechanism {mechanism!r}", code="mechanism", hint=f"use {_either(ASKED_FOR)}")

    def limit(name: str) -> int | None:
        with _placed(said, name):
            written = said[name].written if name in said else name
            return None if getattr(request, name) == AUTO else _limit(written, getattr(request, name))

    limits = Limits(
        max_rows=limit("max_rows"),
        max_rows_per_group=limit("max_rows_per_group"),
        max_groups=limit("max_groups"),
        min_units=policy.privacy.min_units,
        public_keys=strategy is not None and strategy.value == PUBLIC,
        chosen=frozenset(name for name in LIMITS if getattr(request, name) == AUTO),
    )
    return Ask(epsilon, delta, mechanism, filter_.conversion, policy.privacy.keys_share), limits


def with_policy(limits: Limits, policy: Policy, tables: Iterable[str]) -> Limits:
    """The limits that a query names, and for the others the policy's: the largest of the tables in the query, where
    one of them has one, else the one for all. Any limit is sound (Theorem WEIGHT-1): which one is a matter of accuracy.
    A query may name no more than the most that the policy lets a limit be.
    """
    named = [policy.tables[table] for table in sorted(set(tables))]
    found: dict[str, Any] = {}
    ends: dict[str, int] = {}
    for name in LIMITS:
        said = widest(table.limits[name] for table in named if name in table.limits) or getattr(policy.privacy, name)
        most = said.most if isinstance(said, Choose) else None
        given: int | None = getattr(limits, name)
        if given is not None and most is not None and given > most:
            raise PrivacyError(
                f"{name} = {given:,} is more than the policy lets it be",
                code="limit",
                hint=f"name at most {most:,}, or none: then it is chosen",
            )
        if given is None and name not in limits.chosen and not isinstance(said, Choose):
            given = said
        if given is None and most is not None:
            ends[name] = most
        found[name] = given
    # A peak is chosen only where keys are private: elsewhere the most that it may be is the limit.
    found["max_rows_per_group"] = found["max_rows_per_group"] or ends.get("max_rows_per_group")
    return replace(limits, chosen=frozenset(), ends=tuple(ends.items()), **found)


def _stated(request: Request, said: Mapping[str, Option]) -> Request:
    """What was asked for, with what the SQL says of them; it may repeat an argument, and not contradict it."""
    for name, option in said.items():
        given = getattr(request, name)
        if given is not None and not same(given, option.value):
            error = SQLError(
                f"{option.written} = {option.value} in the SQL, and {name} = {given} beside it",
                code="conflicting-options",
                hint="say it once: in the SQL, or as an argument of the call",
            )
            error.offsets = option.place
            raise error
    stated: dict[str, Any] = {name: option.value for name, option in said.items()}
    return replace(request, **stated)


def _either(names: Sequence[str]) -> str:
    """Names to choose from, for people."""
    *others, last = [f'"{name}"' for name in names]
    return f"{', '.join(others)} or {last}"


@contextmanager
def _placed(said: Mapping[str, Option], name: str) -> Iterator[None]:
    """Let an error about an option that stands in the SQL point at it."""
    try:
        yield
    except Error as error:
        if name in said:
            error.offsets = said[name].place
        raise


def _limit(name: str, given: object) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= 2**31:
        raise PrivacyError(
            f'{name} is a whole number from 1 to 2³¹, or "auto", not {given!r}',
            code="limit",
            hint=f"for instance {name}=20; leave it out, and it is chosen where the policy names none",
        )
    return given


def _epsilon(request: Request, policy: Policy) -> Fraction:
    budget = policy.budget
    if request.accuracy is not None:  # the most that may be spent to reach it
        if request.epsilon is not None:
            raise PrivacyError(
                "epsilon and accuracy are two ways to say the same", code="accuracy", hint="give one of them"
            )
        return min(budget.epsilon, budget.max_query_epsilon or budget.epsilon)
    if request.epsilon is None:
        if budget.query_epsilon is None:
            raise PrivacyError(
                "the query names no ε and the policy has no query_epsilon",
                code="no-epsilon",
                hint="give one: --epsilon 0.5, epsilon=0.5, or [budget] query_epsilon = 0.5 in the policy",
            )
        return budget.query_epsilon
    epsilon = parse_epsilon(request.epsilon, where="epsilon", error=PrivacyError)
    if budget.max_query_epsilon is not None and epsilon > budget.max_query_epsilon:
        raise PrivacyError(
            f"ε = {float(epsilon):g} is more than one query may spend",
            code="max-query-epsilon",
            hint=f"the policy allows at most {float(budget.max_query_epsilon):g} (max_query_epsilon)",
        )
    return epsilon
