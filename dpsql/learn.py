"""learn: histograms of rows per unit of whole tables, paid once by the steward, for everybody (Theorem LIMITS-1).

They are releases like any other: reserved before a row is read, recorded, and found by what they measure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from hashlib import blake2b

from dpsql.accounting.account import Receipt
from dpsql.accounting.opening import account
from dpsql.core import STEWARD
from dpsql.core.cost import Cost, show_rounded
from dpsql.core.errors import BudgetError, PolicyError, PrivacyError, nearest
from dpsql.core.frozen import dataclass
from dpsql.engine import Data, Shared
from dpsql.options import Number
from dpsql.policy.reader import parse_epsilon
from dpsql.quote.model import Ask, Quote
from dpsql.quoting import Quoting
from dpsql.refresh.refresh import follow
from dpsql.run import Payer, measure

LEARNED = "learned"  # in the ledger's note of a spend: which version of the data it learned of
EPSILON = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned: of which tables and columns now, and before; which need nothing; and what was paid."""

    now: tuple[str, ...]
    before: tuple[str, ...]
    needless: tuple[str, ...]
    cost: Cost
    receipts: tuple[Receipt, ...]

    def __str__(self) -> str:
        """For people, a line for each kind of table."""
        lines = []
        if self.now:
            lines.append(f"{'learned':<9} {', '.join(self.now)}")
        if self.before:
            lines.append(f"{'known':<9} {', '.join(self.before)}: learned before for this version of the data")
        if self.needless:
            lines.append(f"{'needless':<9} {', '.join(self.needless)}: no query chooses a limit there")
        if self.receipts:
            price = show_rounded(self.cost.epsilon, up=True)
            lines.append(f"{'paid':<9} ε = {price}, by the steward: no analyst's quota holds it")
            lines.append(f"{'serves':<9} everybody, for this version of the data: limits are chosen for nothing")
        else:
            lines.append(f"{'paid':<9} nothing")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "learned": list(self.now),
            "known": list(self.before),
            "needless": list(self.needless),
            "epsilon": float(self.cost.epsilon),
            "rho": None if self.cost.rho is None else float(self.cost.rho),
            "receipts": [receipt.id for receipt in self.receipts],
        }


def learn(engine: Shared, epsilon: Number = EPSILON, columns: Sequence[str] = ()) -> Learned:
    """Learn the histograms of every private table, and of these columns, as far as they aren't learned yet.

    epsilon: the most that all of them cost together, for this version of the data.
    """
    whole = parse_epsilon(epsilon, where="epsilon", error=PrivacyError)
    if engine.policy.privacy.limits_share == 0:
        raise PolicyError(
            "privacy.limits_share is 0: no query chooses a limit, so there is nothing to learn",
            code="nothing-to-learn",
            hint="leave limits_share out, and queries choose their limits",
        )
    follow(engine)
    with engine.gate.shared():
        subjects = dict(_subjects(engine, columns))
        engine.require_checked(one.name for one in engine.guarded)
        data = engine.data()
        return _learned(engine, subjects, data, whole)


def _learned(engine: Shared, subjects: dict[str, tuple[str, ...]], data: Data, whole: Fraction) -> Learned:
    version = _version(engine, data)
    payer = Payer(engine, STEWARD, "own", note={LEARNED: version})
    left = _left(engine, whole, version)
    queries = [(name, query) for name, texts in subjects.items() for query in texts]
    text = f"whole tables (dpsql learn): {', '.join(subjects)}"
    ask = Ask(left or whole, Fraction(0), "laplace", account(engine.policy).filter.conversion)
    plan = Quoting(engine, payer.view).learning(text, [query for _, query in queries], ask)
    missing = {
        n for (n, _), needed, known in zip(queries, plan.needed, plan.stored, strict=True) if needed and not known
    }
    wanted = {n for (n, _), needed in zip(queries, plan.needed, strict=True) if needed}
    receipts: list[Receipt] = []
    if plan.stages:
        if left is None:
            raise _used_up(whole, missing)
        receipts = _paid(Quote(text, plan.stages, (), left), data, payer)
    return Learned(
        tuple(n for n in subjects if n in missing),
        tuple(n for n in subjects if n in wanted - missing),
        tuple(n for n in subjects if n not in wanted),
        engine.ledger.account.filter.shown(sum((r.cost for r in receipts), engine.ledger.account.filter.nothing)),
        tuple(receipts),
    )


def _paid(quote: Quote, data: Data, payer: Payer) -> list[Receipt]:
    """The receipts of what is measured now."""
    try:
        return measure(quote, data, payer)
    except BudgetError as error:
        fits = None if error.fits is None else show_rounded(error.fits, up=False)
        error.message = f"learning costs ε = {show_rounded(quote.epsilon, up=True)}, and less is left of the account"
        error.hint = (
            "nothing more can be paid from this account: raise [budget] epsilon, or go on without"
            if fits is None
            else f"dpsql learn --steward --epsilon {fits} fits; without it each query buys its own histogram"
        )
        raise


def _subjects(engine: Shared, columns: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What there is to learn: tables and columns by their names, each with the queries whose limits it chooses."""
    for one in engine.guarded:
        yield one.table.name, (f"SELECT COUNT(*) FROM {_quoted(one.table.name)}",)
    for written in columns:
        table, column = _column(engine, written)
        summed, source = f"SUM({_quoted(column)})", _quoted(table)
        yield f"{table}.{column}", (f"SELECT COUNT(*), {summed} FROM {source}", f"SELECT {summed} FROM {source}")


def _column(engine: Shared, written: str) -> tuple[str, str]:
    """The table and the column that a text names: table.column."""
    named = {
        f"{one.table.name}.{column}".lower(): (one.table, column)
        for one in engine.guarded
        for column, _ in engine.schema[one.name]
    }
    if written.strip().lower() not in named:
        close = nearest(written, [f"{table.name}.{column}" for table, column in named.values()])
        raise PolicyError(
            f"no private table has a column {written}",
            code="unknown-column",
            hint=f"did you mean {close}?" if close else "name it as table.column, for instance orders.amount",
        )
    table, column = named[written.strip().lower()]
    said = table.column(column)
    if said is not None and said.share is not None:
        raise PolicyError(
            f"{table.name}.{column} has automatic bounds, and what is learned of its sizes rests on its range",
            code="bounds",
            hint="give it a min and a max in the policy, or leave it out of --columns",
        )
    return table.name, column


def _version(engine: Shared, data: Data) -> str:
    """What tells this version of all private tables apart."""
    private = {one.name: data.versions[one.name] for one in engine.guarded}
    return blake2b(json.dumps(private, sort_keys=True).encode(), digest_size=16, person=b"dpsql.learn").hexdigest()


def _left(engine: Shared, whole: Fraction, version: str) -> Fraction | None:
    """The part of ε that isn't spent yet on learning this version; None: all of it is. What was lost doesn't count."""
    history = engine.ledger.history()
    mine = [e for e in history if e.analyst == STEWARD and e.state == "released" and e.note.get(LEARNED) == version]
    if not mine:
        return whole
    filter_ = engine.ledger.account.filter
    spent = sum((e.cost for e in mine), filter_.nothing)
    if filter_.conversion is None or spent.rho is None:
        return whole - spent.epsilon if whole > spent.epsilon else None
    rho = filter_.conversion.rho(whole) - spent.rho
    return (filter_.conversion.affords(rho) or None) if rho > 0 else None


def _used_up(whole: Fraction, missing: set[str]) -> BudgetError:
    return BudgetError(
        f"ε = {show_rounded(whole, up=True)} is spent already on what was learned for this version of the data, and "
        f"{', '.join(sorted(missing))} is still to learn",
        code="learned",
        hint=f"name more in all: dpsql learn --steward --epsilon {show_rounded(2 * whole, up=True)}",
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
