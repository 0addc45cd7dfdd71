"""A checkpoint: what a ledger's first events come to, kept in the ledger under its key.

An opening begins with it and reads only the events that follow, so that it takes as long after a hundred thousand
spends as after a few. It holds all of `State`, the link of each event among it, and was made of verified events alone.
So whatever is shown of an event before it is verified against its link when it is read (Theorem LEDGER-2, Checkpoint).

It rests on nothing but the ledger: one that is missing, altered or of another ledger is passed over, and everything is
verified again. It lies in the table `file` under a name that no file can have, with a tag of its own purpose.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, compress, pairwise
from typing import Any

from dpsql.accounting.account import Account
from dpsql.accounting.events import Item, Seen, State, number
from dpsql.accounting.keys import DIGEST_BYTES, agrees, tag
from dpsql.core.cost import Cost

PATH = "checkpoint"
"""Its name; paths of files are absolute."""
FORMAT = 1
EVERY, SHARE = 2_000, 16
"""How many events an opening may find after the checkpoint before it makes another: so many, or this part of all."""

_CLAIMED, _RELEASED, _ANSWERED = 1, 2, 4


def is_due(covered: int, events: int) -> bool:
    """Should an opening that found so many events, and a checkpoint that covers these, make another one?"""
    return events - covered >= max(EVERY, covered // SHARE)


def write(db: sqlite3.Connection, key: bytes, state: State) -> None:
    """Put a checkpoint of these verified events in the place of the one before, in a write transaction."""
    content, stamp = _packed(state), str(state.count)
    db.execute(
        "INSERT OR REPLACE INTO file (path, stamp, digest, tag) VALUES (?, ?, ?, ?)",
        (PATH, stamp, content, tag(key, PATH, stamp, _digest(content))),
    )


def read(db: sqlite3.Connection, key: bytes) -> State | None:
    """What the checkpoint under this key says; None where there is none."""
    row = db.execute("SELECT stamp, digest, tag FROM file WHERE path = ?", (PATH,)).fetchone()
    if row is None or not isinstance(row[1], bytes) or not agrees(row[2], key, PATH, row[0], _digest(row[1])):
        return None
    try:
        return _unpacked(row[1])
    except (ValueError, TypeError, LookupError, struct.error):  # another version packed it otherwise
        return None


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def _packed(state: State) -> bytes:
    """All of a state: a line of JSON, and columns of numbers and bytes."""
    ids, account = list(state.spends), state.account
    assert account is not None
    place_of = {id: place for place, id in enumerate(ids)}
    names = sorted(state.payers)
    name_at = {name: place for place, name in enumerate(names)}
    flags = bytes(
        _CLAIMED * (id in state.claimed) + _RELEASED * (id in state.released) + _ANSWERED * (id in state.answered)
        for id in ids
    )
    kinds = sorted({item.kind for item in state.stored})
    columns = (
        bytes(state.links),
        _numbers(state.spends.values()),
        _numbers(name_at[state.owners[id]] for id in ids),
        flags,
        _numbers(place_of[item.receipt] for item in state.stored),
        _numbers(kinds.index(item.kind) for item in state.stored),
        *_texts([item.key for item in state.stored]),
        *_texts([item.digest for item in state.stored]),
    )
    said = {
        "format": FORMAT,
        "id": state.id,
        "account": [
            str(account.epsilon), str(account.delta), account.accountant, account.relation, account.renew,
        ],
        "closed": state.closed,
        "period": state.period,
        "sums": [[*where, *_cost(cost)] for where, cost in state.sums.items()],
        "versions": {
            table: {version: [seen.digest.hex(), seen.stamp.hex()] for version, seen in known.items()}
            for table, known in state.versions.items()
        },
        "promises": [[*where, found] for where, found in state.promises.items()],
        "spends_before": [[*where, count] for where, count in state.spends_before.items()],
        "late": sorted(state.late),
        "spends": ids,
        "names": names,
        "kinds": kinds,
        "columns": [len(column) for column in columns],
    }  # fmt: skip
    return b"".join((json.dumps(said, separators=(",", ":")).encode(), b"\n", *columns))


def _unpacked(content: bytes) -> State | None:
    """The state that was packed; None: in another format."""
    head, _, rest = content.partition(b"\n")
    said = json.loads(head)
    if said["format"] != FORMAT:
        return None
    columns, start = [], 0
    for size in said["columns"]:
        columns.append(rest[start : start + size])
        start += size
    links, places, owners, flags, receipts, kinds, key_sizes, keys, digest_sizes, digests = columns
    state, ids = State(), said["spends"]
    epsilon, delta, *others = said["account"]
    state.id, state.closed, state.period = said["id"], said["closed"], said["period"]
    state.account = Account(number(epsilon), number(delta), *others)
    state.links = bytearray(links)
    state.sums = {(period, analyst): _read_cost(cost) for period, analyst, *cost in said["sums"]}
    state.versions = {
        table: {v: Seen(bytes.fromhex(digest), bytes.fromhex(stamp)) for v, (digest, stamp) in known.items()}
        for table, known in said["versions"].items()
    }
    state.promises = {(table, version): found for table, version, found in said["promises"]}
    state.spends_before = {(table, version): count for table, version, count in said["spends_before"]}
    state.late = {(table, version) for table, version in said["late"]}
    state.spends = dict(zip(ids, _read_numbers(places), strict=True))
    state.owners = dict(zip(ids, map(said["names"].__getitem__, _read_numbers(owners)), strict=True))
    state.payers = set(said["names"])
    for flag, members in ((_CLAIMED, state.claimed), (_RELEASED, state.released), (_ANSWERED, state.answered)):
        members.update(compress(ids, map(flag.__and__, flags)))
    state.stored = list(
        map(
            Item,
            map(ids.__getitem__, _read_numbers(receipts)),
            map(said["kinds"].__getitem__, _read_numbers(kinds)),
            _read_texts(key_sizes, keys),
            _read_texts(digest_sizes, digests),
        )
    )
    for place, (receipt, kind, key, _) in enumerate(state.stored, 1):
        state.stored_by_receipt.setdefault(receipt, []).append(place)
        if kind == "release":
            state.stored_by_key.setdefault(key, []).append(place)
    return state


def _numbers(numbers: Iterable[int]) -> bytes:
    found = list(numbers)
    return struct.pack(f"<{len(found)}Q", *found)


def _read_numbers(column: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(column) // 8}Q", column)


def _texts(texts: Sequence[bytes]) -> tuple[bytes, bytes]:
    """How long each is, and all of them."""
    return _numbers(map(len, texts)), b"".join(texts)


def _read_texts(sizes: bytes, texts: bytes) -> Iterator[bytes]:
    ends = list(accumulate(_read_numbers(sizes), initial=0))
    return (texts[start:end] for start, end in pairwise(ends))


def _cost(cost: Cost) -> list[str | None]:
    return [str(cost.epsilon), str(cost.delta), None if cost.rho is None else str(cost.rho), str(cost.parts)]


def _read_cost(said: Sequence[Any]) -> Cost:
    epsilon, delta, rho, parts = said
    return Cost(number(epsilon), number(delta), None if rho is None else number(rho), number(parts))
