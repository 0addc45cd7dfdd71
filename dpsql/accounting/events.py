"""What a ledger records, one event after the other, and what they come to.

    ledger     the first one: a random name, so that no two ledgers have a link in common
    account    what it is an account of: totals, accountant, relation, renewal; the last one counts
    spend      a price, before the first private row is read; and whether its release was claimed (claims.py)
    released   its noisy tables may leave; the digests of what was stored of them
    answered   what became of them; the digests of the answers that were stored
    source     a version of a table's data; the same version again: it was seen anew, under another stamp
    promise    what a check of such a version found
    key        the key was changed
    upgraded   all before this was brought over from a format before this one; only read, never written any more

Every sum, version, promise and stored answer that dpsql relies on is computed from events here, and events come
from journal.py alone, which has verified them (Theorem LEDGER-2). A kind that isn't known is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from dpsql.accounting.account import Account
from dpsql.accounting.keys import DIGEST_BYTES, Field, link
from dpsql.core.cost import Cost
from dpsql.core.errors import LedgerError
from dpsql.core.frozen import dataclass

Kind = Literal["ledger", "account", "spend", "released", "answered", "source", "promise", "key", "upgraded"]
COLUMNS = "seq, kind, time, receipt, body, note"
"""What the link of an event covers, in this order."""
Row = tuple[int, str, str, str | None, str, str | None]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing to record. `receipt` is the id of the spend that it concerns, `note` what was noted with it."""

    kind: Kind
    time: str
    body: Mapping[str, object]
    receipt: str | None = None
    note: str | None = None

    def row(self, seq: int) -> Row:
        """As it is written, at this place."""
        body = json.dumps(self.body, sort_keys=True, separators=(",", ":"))
        return seq, self.kind, self.time, self.receipt, body, self.note


class Item(NamedTuple):
    """A stored table or answer, as the event that stored it describes it. There may be very many."""

    receipt: str
    kind: str
    key: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Seen:
    """A version of a table's data as it was recorded: the look that it was recorded by (fingerprint.py).

    A stamp is missing where an earlier dpsql recorded it: then contents alone tell it.
    """

    digest: bytes
    stamp: bytes = b""


class Malformed(Exception):
    """An event that says nothing that can be true here."""


class State:
    """What the verified events come to. Only `add_all` changes it; all else reads, and loses nothing.

    A checkpoint (checkpoint.py) holds all of it, and makes it anew.
    """

    def __init__(self) -> None:
        self.links = bytearray()  # of all events, one after the other
        self._alike: Counter[str] = Counter()  # spends of one text; empty outside add_all
        self._claiming: set[str] = set()  # those of these texts that are of claimed releases
        self._by: dict[str, str] = {}  # who spent, by these texts
        self.sums: dict[tuple[str, str], Cost] = {}  # everything spent, by period and analyst
        self._rules: Mapping[str, Callable[[str, str | None], None]] = {
            "ledger": self._ledger,
            "account": self._account,
            "spend": self._spend,
            "released": self._released,
            "answered": self._answered,
            "source": self._source,
            "promise": self._promise,
            "key": lambda *_: None,
            "upgraded": lambda *_: None,
        }
        self.id = ""
        self.account: Account | None = None
        self.closed: str | None = None
        self.period = ""  # the latest of all spends
        self.spends: dict[str, int] = {}  # the place of each, in the order in which they were made
        self.owners: dict[str, str] = {}  # who spent each
        self.payers: set[str] = set()  # all of them
        self.claimed: set[str] = set()  # the spends of claimed releases that are not released
        self.released: set[str] = set()
        self.answered: set[str] = set()
        self.versions: dict[str, dict[str, Seen]] = {}  # by table and version, the last one is the present one
        self.promises: dict[tuple[str, str], dict[str, bool]] = {}  # by table and version
        self.spends_before: dict[tuple[str, str], int] = {}  # how many there were when a version began
        self.late: set[tuple[str, str]] = set()  # versions that were asked about before a promise was checked
        self.stored: list[Item] = []
        self.stored_by_key: dict[bytes, list[int]] = {}  # noisy tables: their places, from 1
        self.stored_by_receipt: dict[str, list[int]] = {}

    @property
    def count(self) -> int:
        """How many events there are."""
        return len(self.links) // DIGEST_BYTES

    def link(self, place: int) -> bytes:
        """The link of the event at this place, from 1; of none, that of the event before the first."""
        return bytes(self.links[(place - 1) * DIGEST_BYTES : place * DIGEST_BYTES]) if place else b""

    def add_all(self, events: Iterable[tuple[Row, bytes]]) -> None:
        """Take in the next events, which were verified, each with its link. After an error it is half done."""
        for row, its_link in events:
            self._add(row, its_link)
        for text, times in self._alike.items():  # equal ones at once: exact sums of many fractions are slow
            body = json.loads(text)
            where = (body["period"], body["analyst"])
            cost = read_cost(body).times(times)
            before = self.sums.get(where)
            self.sums[where] = cost if before is None else before + cost  # Theorems COMP-1 and COMP-2
        self._alike.clear()
        self._claiming.clear()
        self._by.clear()

    def _add(self, row: Row, its_link: bytes) -> None:
        _, kind, _, receipt, text, _ = row
        rule = self._rules.get(kind)
        if rule is None:
            raise _newer(f"it records {kind[:40]!r}")
        if (kind == "ledger") != (self.count == 0):
            raise Malformed
        try:
            rule(text, receipt)
        except (ValueError, TypeError, KeyError, ZeroDivisionError):
            raise Malformed from None
        self.links += its_link

    def verifies(self, place: int, fields: tuple[Field, ...]) -> bool:
        """Is this the event at this place, to the letter?"""
        return self.link(place) == link(self.link(place - 1), fields)

    def present(self, table: str) -> tuple[str, Seen] | None:
        """The present version of a table's data, and how it was last seen; None if it never was."""
        known = self.versions.get(table)
        return None if not known else next(reversed(known.items()))

    def spent(self) -> Mapping[tuple[str, str], Cost]:
        """Everything spent, reserved or released, by period and analyst."""
        return self.sums

    def _ledger(self, text: str, _: str | None) -> None:
        self.id = _name(json.loads(text)["id"])

    def _account(self, text: str, _: str | None) -> None:
        body = json.loads(text)
        if not isinstance(json.loads(body["relation"]), dict):
            raise Malformed
        self.account = Account(
            number(body["epsilon"]), number(body["delta"]), body["accountant"], body["relation"], body["renew"]
        )
        self.closed = body["closed"]
        if body["forgets"]:
            self.promises.clear()  # they were verified for other units

    def _spend(self, text: str, receipt: str | None) -> None:
        if receipt is None or receipt in self.spends:
            raise Malformed
        if text not in self._alike:
            body = json.loads(text)
            if body["covers"] is not None:
                raise _newer("a spend is for some periods only")
            if (read_cost(body).rho is None) != (self.account is not None and self.account.accountant == "basic"):
                raise Malformed
            self.period = max(self.period, _name(body["period"]))
            self._by[text] = _name(body["analyst"])
            claimed = body.get("claimed", False)  # version 0.1.1 claimed nothing, and didn't say so
            if not isinstance(claimed, bool):
                raise Malformed
            if claimed:
                self._claiming.add(text)
        self._alike[text] += 1
        if text in self._claiming:
            self.claimed.add(receipt)
        self.spends[receipt] = self.count + 1
        self.owners[receipt] = self._by[text]
        self.payers.add(self._by[text])

    def _released(self, text: str, receipt: str | None) -> None:
        if receipt not in self.spends or receipt in self.released:  # Theorem FLIGHT-1: once for each spend
            raise Malformed
        items = _items(text, receipt)
        self.released.add(receipt)
        self.claimed.discard(receipt)
        if any(item.kind == "answer" for item in items):  # version 0.1.1 stored both at once
            self.answered.add(receipt)
        self._store(items)

    def _answered(self, text: str, receipt: str | None) -> None:
        if receipt is None or receipt not in self.released or receipt in self.answered:
            raise Malformed
        items = _items(text, receipt)
        if any(item.kind != "answer" for item in items):  # a noisy table is stored by its release alone
            raise Malformed
        self.answered.add(receipt)
        self._store(items)

    def _store(self, items: list[Item]) -> None:
        for item in items:
            self.stored.append(item)
            self.stored_by_receipt.setdefault(item.receipt, []).append(len(self.stored))
            if item.kind == "release":
                self.stored_by_key.setdefault(item.key, []).append(len(self.stored))

    def _source(self, text: str, _: str | None) -> None:
        body = json.loads(text)
        seen = Seen(*(bytes.fromhex(body.get(part, "")) for part in ("digest", "stamp")))
        known, version = self.versions.setdefault(_name(body["table"]), {}), _name(body["version"])
        if not seen.digest or (version in known and version != next(reversed(known))):
            raise Malformed  # only the present version is ever seen again
        known[version] = seen
        self.spends_before.setdefault((body["table"], version), len(self.spends))
        if body.get("forgets"):
            self.promises.pop((body["table"], version), None)  # they were verified for other files

    def _promise(self, text: str, _: str | None) -> None:
        body = json.loads(text)
        if not isinstance(body["holds"], bool) or body["version"] not in self.versions.get(body["table"], {}):
            raise Malformed
        place, promise = (body["table"], body["version"]), _name(body["promise"])
        first = promise not in self.promises.get(place, {}) and not promise.startswith("scan ")  # no promise of theirs
        if first and len(self.spends) > self.spends_before[place]:
            self.late.add(place)
        self.promises.setdefault(place, {})[promise] = body["holds"]


def read_cost(body: Mapping[str, Any]) -> Cost:
    """The price in the body of a spend."""
    rho = body["rho"]
    return Cost(
        number(body["epsilon"]), number(body["delta"]), None if rho is None else number(rho), number(body["parts"])
    )


def number(text: str) -> Fraction:
    """A number as it is recorded; a negative one would be a refund."""
    found = Fraction(_name(text))
    if found < 0:
        raise ValueError
    return found


def _items(text: str, receipt: str) -> list[Item]:
    """What was stored with an event."""
    return [
        Item(receipt, _name(kind), bytes.fromhex(key), bytes.fromhex(digest))
        for kind, key, digest in json.loads(text)["stored"]
    ]


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _newer(what: str) -> LedgerError:
    return LedgerError(
        f"the ledger was made by a newer version of dpsql: {what}, which this one doesn't know",
        code="ledger-newer",
        hint="upgrade dpsql; nothing was spent or changed",
    )
