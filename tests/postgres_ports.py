"""A Postgres port of a test's own, in this process: three tables, two analysts, and a client that speaks the protocol
byte by byte."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from servers import Unheld

from dpsql.server.postgres.server import PostgresPort
from dpsql.server.settings import read_settings
from dpsql.server.tokens import Tokens
from dpsql.session import Engine

POLICY = """
[budget]
epsilon = 1000
query_epsilon = 0.5
analysts = { carl = 1 }

[privacy]
max_rows = 4
limits_share = 0

[tables.visits]
source = "visits.parquet"
unit = "person"

[tables.visits.columns]
city = { values = ["Bern", "Lima", "Oslo"] }
minutes = { min = 0, max = 60 }

[tables.trips]
source = "trips.parquet"
unit = "person"
key = ["person", "n"]

[tables.trips.columns]
day = { min = 2024-01-01, max = 2024-12-31 }
price = { min = 0, max = 1000 }
city = { references = "city.name" }

[tables.city]
source = "city.csv"
public = true
key = "name"
"""
TABLES, COLUMNS = 3, {"visits": 3, "trips": 6, "city": 2}


def make_policy(folder: Path) -> Path:
    """A policy and its data in a folder. Its query_epsilon is there to be ignored."""
    visits = [
        (p, ("Bern", "Lima", "Oslo")[(p + i) % 3], (7 * p + i) % 60) for p in range(200) for i in range(1 + p % 3)
    ]
    columns = dict(zip(("person", "city", "minutes"), map(list, zip(*visits, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "visits.parquet")
    trips = {
        "person": list(range(50)),
        "n": list(range(50)),
        "day": [date(2024, 2, 1)] * 50,
        "price": pa.array([Decimal("1.50")] * 50, pa.decimal128(10, 2)),
        "city": ["Bern"] * 50,
        "at": pa.array([datetime(2024, 1, 1)] * 50, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(trips), folder / "trips.parquet")
    (folder / "city.csv").write_text("name,people\nBern,140000\nLima,10000000\n")
    (folder / "policy.toml").write_text(POLICY)
    return folder / "policy.toml"


class Port:
    """A port that listens, and the tokens of its people."""

    def __init__(self, policy: Path, **settings: Any) -> None:
        read = replace(read_settings(None, policy, {}), **{"rate": 1_000_000, **settings})
        self.engine = Engine.open(policy)
        self.core = Unheld(self.engine, read)  # whether replies are held is tested with HTTP, and takes its time
        self.people = Tokens(read.tokens)
        self.tokens = {name: self.people.add(name)[0] for name in ("ann", "bob", "carl")}
        self.port = PostgresPort(self.core, self.people.who)

    @property
    def spent(self) -> Fraction:
        return self.engine.ledger.balance.spent.epsilon

    def named(self, name: str = "ann", **more: Any) -> dict[str, Any]:
        """What a client of libpq is told to connect by."""
        told = {"host": "127.0.0.1", "port": self.port.port, "user": name, "dbname": "dpsql"}
        return {**told, "password": self.tokens[name], "connect_timeout": 10, **more}

    def connect(self, name: str = "ann", epsilon: float | None = None, **more: Any) -> psycopg.Connection[Any]:
        options = {} if epsilon is None else {"options": f"-c dpsql.epsilon={epsilon}"}
        return psycopg.connect(**self.named(name, **options, **more), autocommit=True)

    @contextmanager
    def raw(self, name: str = "ann") -> Iterator[Raw]:
        with socket.create_connection(("127.0.0.1", self.port.port), timeout=20) as opened:
            client = Raw(opened)
            client.enter(name, self.tokens[name])
            yield client

    def close(self) -> None:
        self.port.close()
        self.core.close()


class Raw:
    """Sends and reads messages as they are."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened

    def send(self, letter: bytes, body: bytes = b"") -> None:
        self.socket.sendall(letter + struct.pack("!i", len(body) + 4) + body)

    def enter(self, name: str, token: str, **more: str) -> list[tuple[bytes, bytes]]:
        told = {"user": name, "database": "dpsql", **more}
        pairs = b"".join(k.encode() + b"\0" + v.encode() + b"\0" for k, v in told.items())
        self.send(b"", struct.pack("!i", 3 << 16) + pairs + b"\0")
        first = self.read()
        assert first[0] == b"R", first
        self.send(b"p", token.encode() + b"\0")
        return self.until(b"Z")

    def read(self) -> tuple[bytes, bytes]:
        letter = self._take(1)
        (size,) = struct.unpack("!i", self._take(4))
        return letter, self._take(size - 4)

    def _take(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.socket.recv(size - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found

    def until(self, letter: bytes) -> list[tuple[bytes, bytes]]:
        """The messages up to the first with this letter; what a FATAL one says ends them, too."""
        found = [self.read()]
        while found[-1][0] != letter and not (found[-1][0] == b"E" and b"VFATAL" in found[-1][1]):
            found.append(self.read())
        return found

    def letters(self) -> str:
        return b"".join(letter for letter, _ in self.until(b"Z")).decode()
