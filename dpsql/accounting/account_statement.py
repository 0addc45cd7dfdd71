"""The account as a bank statement: totals, by analyst, by query, for groups of units, and the PLD figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction

from dpsql.accounting.account import Account, Balance, Entry
from dpsql.accounting.filters import INSTALL, Filter, Zcdp, composed, is_installed
from dpsql.core import STEWARD
from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass

GROUPS = (1, 2, 5)
NO_FIGURE = "no PLD figure: a release doesn't say what noise it had, or had noise that only ρ adds up"


@dataclass(frozen=True, slots=True)
class Line:
    """What one analyst, or one query, has spent; quota is an analyst's limit, in ε."""

    name: str
    total: Cost
    """The plain sum of all prices."""
    releases: int
    filter: Filter
    quota: Fraction | None = None

    @property
    def spent(self) -> Cost:
        """The guarantee that this amounts to; only of lines that are shown is it asked."""
        return self.filter.shown(self.total)


@dataclass(frozen=True, slots=True)
class Statement:
    """Everything that `dpsql budget` shows."""

    balance: Balance
    entries: tuple[Entry, ...]
    analysts: tuple[Line, ...]
    queries: tuple[Line, ...]
    groups: Mapping[int, Cost]
    pld: float | None
    pld_note: str


def statement(
    account: Account, balance: Balance, entries: Sequence[Entry], quotas: Mapping[str, Fraction]
) -> Statement:
    """The statement of the account's current period."""
    current = [e for e in entries if e.period == balance.period or not e.period or not balance.period]
    by_analyst = _grouped(current, lambda e: e.analyst)
    names = sorted({*by_analyst, *quotas} - {"*"})
    sums = Sums(account)
    analysts = [sums.line(n, by_analyst.get(n, []), quotas.get(n)) for n in names]
    if "*" in quotas:
        others = [e for e in current if e.analyst not in quotas and e.analyst != STEWARD]
        analysts.append(sums.line("everybody else", others, quotas["*"]))
    by_text = _grouped(current, lambda e: " ".join(str(e.note.get("sql", "")).split()))
    queries = [sums.line(text, spends) for text, spends in by_text.items()]
    queries.sort(key=lambda line: float(line.total.rho or line.total.epsilon), reverse=True)
    named = tuple(analysts) if any(line.name for line in analysts) else ()
    pld, note = _pld(account, current)
    return Statement(balance, tuple(entries), named, tuple(queries), groups(account, balance.spent), pld, note)


def groups(account: Account, spent: Cost) -> dict[int, Cost]:
    """What the releases guarantee for several units at once."""
    found = {}
    for k in GROUPS:
        if isinstance(account.filter, Zcdp) and not spent.parts and spent.rho is not None:
            # Theorem GROUP-2: k units are protected at k²·ρ.
            rho = k * k * spent.rho
            found[k] = Cost(account.filter.conversion.epsilon(rho), spent.delta, rho)
        else:
            found[k] = Cost(k * spent.epsilon, _group_delta(k, spent))  # Theorem GROUP-1
    return found


def _group_delta(k: int, spent: Cost) -> Fraction:
    """k·e^((k−1)ε)·δ, rounded up; at most 1."""
    if not spent.delta or k == 1:
        return spent.delta
    exponent = (k - 1) * spent.epsilon
    if exponent > 1000:
        return Fraction(1)
    context = Context(prec=30)
    power = context.exp(context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    return min(Fraction(1), k * spent.delta * Fraction(power) * (1 + Fraction(1, 10**20)))


def _grouped(entries: Sequence[Entry], key: Callable[[Entry], str]) -> dict[str, list[Entry]]:
    """The entries of each key, in the order in which they came first."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(key(entry), []).append(entry)
    return found


class Sums:
    """Plain sums of prices. A history has one object for each price: the same ones, as often each, are added once."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._known: dict[tuple[tuple[int, int], ...], Cost] = {}

    def of(self, entries: Sequence[Entry]) -> Cost:
        """What these cost together; exact sums are slow. They outlive the sums, so that no two prices have one id."""
        if len(entries) == 1:
            return entries[0].cost
        times = tuple(sorted(Counter(id(e.cost) for e in entries).items()))
        if times not in self._known:
            each = {id(e.cost): e.cost for e in entries}
            self._known[times] = sum((each[one].times(n) for one, n in times), self._account.filter.nothing)
        return self._known[times]

    def line(self, name: str, entries: Sequence[Entry], quota: Fraction | None = None) -> Line:
        """The line of these spends."""
        return Line(name, self.of(entries), len(entries), self._account.filter, quota)


def _pld(account: Account, entries: Sequence[Entry]) -> tuple[float | None, str]:
    """The figure, or why there is none."""
    if not account.delta:
        return None, "PLD needs δ > 0"
    if not is_installed():
        return None, INSTALL
    thresholds = Sums(account).of(entries).parts
    if not isinstance(account.filter, Zcdp):
        thresholds = sum((Fraction(str(e.note.get("threshold", 0))) for e in entries), Fraction(0))
    found = composed([e.note for e in entries], account.delta - thresholds)
    return found, "" if found is not None else NO_FIGURE
