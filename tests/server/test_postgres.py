"""The Postgres port: real clients get answers, prices and refusals; nothing is spent that nobody named."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from time import sleep
from typing import Any

import asyncpg
import pandas as pd
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_ports import COLUMNS, TABLES, Port, Raw, make_policy
from services import needs

from dpsql.core.errors import EngineError, Error, PolicyError
from dpsql.server.postgres import connection, messages, rewrite
from dpsql.server.postgres.relations import INFORMATION_SCHEMA, PG_CATALOG
from dpsql.server.postgres.results import Refused, position
from dpsql.server.postgres.server import PostgresPort
from dpsql.server.postgres.types import wire_of
from dpsql.server.postgres.values import decoded, parameter_types
from dpsql.server.settings import read_settings
from dpsql.server.tokens import Tokens, Who

COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
PAGE = (Path(__file__).parents[2] / "docs" / "postgres.md").read_text(encoding="utf-8")
RECORDED = Path(__file__).parent / "postgres_clients" / "recorded.json"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    made = Port(make_policy(tmp_path_factory.mktemp("postgres")))
    yield made
    made.close()


@pytest.fixture
def free(port: Port) -> Iterator[psycopg.Connection[Any]]:
    """A connection that named no ε; whatever a test does with it has cost nothing."""
    before = port.spent
    with port.connect() as opened:
        yield opened
    assert port.spent == before


def engine_of(port: Port, epsilon: float | None = None) -> sa.Engine:
    told = port.named()
    options = {} if epsilon is None else {"options": f"-c dpsql.epsilon={epsilon}"}
    url = sa.URL.create("postgresql+psycopg", "ann", told["password"], told["host"], told["port"], "dpsql", options)
    return sa.create_engine(url, poolclass=sa.NullPool)


# ---------------------------------------------------------------- what is spent


def test_without_an_epsilon_nothing_is_spent_though_the_policy_has_one(free: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
        free.execute("SELECT COUNT(*) AS never_asked FROM visits")
    assert "SET dpsql.epsilon = 0.1" in (refused.value.diag.message_hint or "")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 1", 1),
        ("SHOW TABLES", TABLES),
        ("DESCRIBE trips", COLUMNS["trips"]),
        (f"DESCRIBE {COUNT}", 2),
        ("SELECT * FROM city", 2),
        ("SELECT * FROM public.city", 2),
        ("SELECT relname FROM pg_class WHERE relkind = 'r'", TABLES),
        ("SELECT * FROM information_schema.columns WHERE table_name = 'trips'", COLUMNS["trips"]),
        ("SHOW server_version", 1),
        ("SHOW dpsql.epsilon", 1),
        ("TABLE pg_namespace", 3),
    ],
)
def test_what_reads_no_private_row_is_free(free: psycopg.Connection[Any], sql: str, rows: int) -> None:
    assert len(free.execute(sql).fetchall()) == rows


def test_to_describe_a_query_costs_nothing(port: Port) -> None:
    before = port.spent
    with port.raw() as client:
        client.send(b"Q", b"SET dpsql.epsilon = 0.5\0")
        client.letters()
        client.send(b"P", b"\0SELECT city, SUM(minutes) AS s FROM visits WHERE minutes > $1 GROUP BY city\0\0\0")
        client.send(b"D", b"S\0")
        client.send(b"S")
        _, (_, types), (_, columns), _ = client.until(b"Z")
    assert types == struct.pack("!hi", 1, 20)
    assert columns.startswith(b"\0\x02city\0") and struct.pack("!i", 25) in columns and b"s\0" in columns
    assert port.spent == before


@pytest.mark.parametrize("way", ["connection", "set", "clause"])
def test_each_way_to_name_a_price_is_charged_exactly_that(port: Port, way: str) -> None:
    before = port.spent
    sql = f"SELECT COUNT(*) AS by_{way} FROM visits WHERE minutes > {len(way)}"
    with port.connect(epsilon=0.25 if way == "connection" else None) as opened:
        if way == "set":
            opened.execute("SET dpsql.epsilon = 0.25")
        if way == "clause":
            sql = sql.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.25)")
        opened.execute(sql)
    assert port.spent - before == 0.25


def test_the_price_is_a_notice_and_what_is_stored_is_free_without_an_epsilon(port: Port) -> None:
    said: list[str] = []
    with port.connect(epsilon=0.75) as opened:
        opened.add_notice_handler(lambda told: said.append(str(told.message_primary)))
        first = opened.execute("SELECT COUNT(*) FROM trips").fetchall()
    assert said[0] == "this cost ε = 0.75"
    before, said = port.spent, []
    with port.connect() as opened:
        opened.add_notice_handler(lambda told: said.append(str(told.message_primary)))
        assert opened.execute("SELECT COUNT(*) FROM trips").fetchall() == first
    assert said[0] == "this cost nothing" and port.spent == before


def test_who_has_spent_most_of_a_quota_is_warned_and_who_has_spent_it_is_refused(port: Port) -> None:
    said: list[tuple[str | None, str | None]] = []
    with port.connect("carl", epsilon=0.9) as opened:
        opened.add_notice_handler(lambda told: said.append((told.severity, told.message_primary)))
        opened.execute(COUNT)
        assert ("WARNING", "90% of your quota is spent") in said
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            opened.execute("SELECT SUM(minutes) FROM visits")


def test_explain_shows_the_price_and_costs_nothing(free: psycopg.Connection[Any]) -> None:
    free.execute("SET dpsql.epsilon = 0.125")
    lines = [line for (line,) in free.execute(f"EXPLAIN {COUNT}").fetchall()]
    assert any("0.125" in line for line in lines)


def test_settings_are_a_connections_own_and_can_be_taken_back(port: Port) -> None:
    with port.connect(epsilon=0.5) as one, port.connect("bob") as other:
        one.execute("SET dpsql.epsilon = 0.01; SET application_name = 'mine'")
        assert one.execute("SHOW dpsql.epsilon").fetchone() == ("0.01",)
        assert other.execute("SHOW dpsql.epsilon").fetchone() == ("",)
        assert other.execute("SHOW application_name").fetchone() == ("",)
        one.execute("/* a pool's */ DISCARD ALL")
        assert one.execute("SHOW dpsql.epsilon").fetchone() == ("0.5",)
        for wrong in ("SET dpsql.epsilom = 1", "SET nonsense = 1", "SET client_encoding = 'LATIN1'"):
            with pytest.raises(psycopg.Error):
                one.execute(wrong)
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            one.execute("SET LOCAL dpsql.epsilon = 1")


# ---------------------------------------------------------------- refusals


def test_a_refusal_has_its_place_and_a_hint(free: psycopg.Connection[Any]) -> None:
    for sql in ("SELECT COUNT(*),\n  SUM(minuets) FROM visits", "SELECT COUNT(*),\n  SUM(minuets) FROM public.visits"):
        with pytest.raises(psycopg.errors.UndefinedColumn) as refused:
            free.execute(sql)
        assert int(refused.value.diag.statement_position or 0) == sql.index("minuets") + 1
        assert "minutes" in (refused.value.diag.message_hint or "")
        with pytest.raises(psycopg.errors.UndefinedColumn) as refused:  # in the extended protocol, when it is described
            free.execute(sql + " WHERE minutes > %s", (5,))
        assert int(refused.value.diag.statement_position or 0) == sql.index("minuets") + 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM visits LIMIT 200",
        "COPY visits TO STDOUT",
        "INSERT INTO visits VALUES (1)",
        "CREATE TABLE t AS SELECT 1",
        "DECLARE c CURSOR FOR SELECT 1",
        "SELECT * FROM visits, pg_class",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM dpsql_types",
        "SELECT * FROM duckdb_tables, (WITH duckdb_tables AS (SELECT 1) SELECT * FROM duckdb_tables) AS x",
        "WITH x AS (SELECT * FROM sqlite_master), sqlite_master AS (SELECT 1) SELECT * FROM x",
        "SET session_authorization = 'bob'",
        "SELECT getenv('HOME')",
        "SELECT set_config('dpsql.epsilon', '1', false)",
        "SELECT * FROM pg_class; DROP TABLE pg.pg_class",
        "SELECT 1 INTO pg_thing",
        "WITH x AS (DELETE FROM pg_class RETURNING *) SELECT * FROM x",
        "ATTACH 'x' AS y",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT * FROM generate_series(1, 10000000)",
        "SELECT repeat('x', 1000000000)",
    ],
)
def test_what_is_no_question_is_refused(free: psycopg.Connection[Any], sql: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        free.execute(sql)
    assert not re.search(r"Error:|Exception|/usr|/tmp|site-packages", str(refused.value))
    assert free.execute("SELECT count(*) FROM pg_class WHERE relkind = 'r'").fetchone() == (TABLES,)


def test_what_fails_inside_is_told_by_an_incidents_id_alone(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "/srv/secret/visits.parquet: row 7 is 'Ann'"

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(secret)

    with port.connect(epsilon=0.5) as opened:
        for owner, name, sql in (
            (port.engine, "session", "SELECT COUNT(*) FROM visits WHERE minutes > 33"),
            (port.port.twin, "run", "SELECT 1"),
            (rewrite, "for_twin", "SELECT 1"),
            (connection, "statements", "SELECT 1"),
        ):
            with monkeypatch.context() as patched, pytest.raises(psycopg.Error) as failed:
                patched.setattr(owner, name, fail)
                opened.execute(sql)
            said = str(failed.value)
            assert failed.value.sqlstate == "XX000" and "secret" not in said and "row 7" not in said
            incident = re.search(r"incident ([0-9a-f]{16})", said)
            assert incident and incident[1] in port.core.audit.path.read_text()
        with monkeypatch.context() as patched, pytest.raises(psycopg.errors.FeatureNotSupported) as failed:
            patched.setattr(port.port.twin, "run", lambda *_: (_ for _ in ()).throw(EngineError(secret)))
            opened.execute("SELECT 1")
        assert "secret" not in str(failed.value)
        assert opened.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "sql",
    [
        COUNT,
        "SELECT city, AVG(minutes) AS m, SUM(minutes) AS s FROM visits GROUP BY city ORDER BY m DESC",
        "SELECT MAX(day) AS last, SUM(price) AS paid FROM trips",
        "SELECT c.people, COUNT(*) AS n FROM trips JOIN city c ON trips.city = c.name GROUP BY c.people",
        "SELECT name, people / 1000 AS k FROM city ORDER BY name",
        "SELECT person FROM visits",
        "SELECT SUM(n) FROM trips",
        "SELECT COUNT(*) FROM\n  visit",
        "SELECT FROM WHERE",
        "SELECT COUNT(*) FROM visits GROUP BY",
    ],
)
def test_the_port_answers_and_refuses_as_the_core_does(port: Port, sql: str) -> None:
    told: Error | None = None
    try:
        rows = port.core.query(Who("ann", "analyst"), sql, {"epsilon": 0.5}).rows
    except Error as error:
        told = error
    before = port.spent
    with port.connect(epsilon=0.5) as opened:
        if told is None:
            assert opened.execute(sql).fetchall() == rows  # stored by now
        else:
            with pytest.raises(psycopg.Error) as refused:
                opened.execute(sql)
            said = refused.value.diag
            assert (said.message_primary, said.message_hint) == (told.message, told.hint)
            place = None if told.span is None else position(sql, told.span)
            assert said.statement_position == (None if place is None else str(place))
    assert port.spent == before


# ---------------------------------------------------------------- who it is


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"password": "dpsql_wrong"}, "doesn't know you"),
        ({"user": "bob"}, "somebody else's"),
        ({"dbname": "other"}, "no database"),
        ({"options": "-c dpsql.epsilon=many"}, "epsilon"),
        ({"options": "-c nonsense=1"}, "unrecognized"),
        ({"sslmode": "require"}, "SSL"),
        ({"replication": "database"}, "replicate"),
    ],
)
def test_whoever_isnt_known_or_asks_wrongly_isnt_let_in(port: Port, wrong: dict[str, str], said: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=said):
        psycopg.connect(**{**port.named(), **wrong})


def test_a_token_that_is_revoked_is_worth_nothing_from_the_next_statement_on(port: Port) -> None:
    secret, token = port.people.add("eve")
    with psycopg.connect(**{**port.named(), "user": "eve", "password": secret}, autocommit=True) as opened:
        assert opened.execute("SELECT current_user").fetchone() == ("eve",)
        port.people.revoke(token.id)
        with pytest.raises(psycopg.OperationalError):
            opened.execute("SELECT 1")


def test_tokens_that_cant_be_read_are_an_incident_that_names_no_file(port: Port) -> None:
    file = port.people.path
    text = file.read_text()
    with port.connect() as opened:
        try:
            file.write_text("{")
            with pytest.raises(psycopg.Error) as failed:
                opened.execute("SELECT 1")
            with pytest.raises(psycopg.Error) as barred:
                port.connect()
        finally:
            file.write_text(text)
    for said in (str(failed.value), str(barred.value)):
        assert "incident" in said and file.name not in said


def test_what_catalogs_are_asked_is_counted_and_logged(tmp_path: Path) -> None:
    other = Port(make_policy(tmp_path), rate=4)
    try:
        with other.connect("bob") as bob, pytest.raises(psycopg.errors.TooManyConnections, match="4 requests"):
            for i in range(6):
                bob.execute(f"SELECT {i} FROM pg_class")
        lines = [json.loads(line) for line in other.core.audit.path.read_text().splitlines()]
        found = [(line["analyst"], line["outcome"]) for line in lines if line["event"] == "catalog"]
        assert found[0] == ("bob", "done") and found[-1] == ("bob", "too-many") and 3 <= len(found) <= 5
    finally:
        other.close()


def test_a_query_of_catalogs_may_name_parts_as_it_likes(free: psycopg.Connection[Any]) -> None:
    sql = "WITH RECURSIVE pg_type AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM PG_TYPE WHERE pg_type.n < 3), "
    sql += "visits AS (SELECT n FROM pg_type) SELECT sum(visits.n), max(v.n) FROM visits, visits AS v"
    assert free.execute(sql).fetchone() == (18, 3)


def test_no_catalog_tells_of_an_analyst(port: Port) -> None:
    with port.connect("bob") as bob, port.connect("ann", epsilon=0.5) as ann:
        ann.execute("SELECT COUNT(*) AS anns_own FROM visits")
        for schema, relations in (("pg_catalog", PG_CATALOG), ("information_schema", INFORMATION_SCHEMA)):
            for name in relations:
                shown = str(bob.execute(f"SELECT * FROM {schema}.{name}").fetchall())
                assert "ann" not in re.findall(r"\w+", shown) and "anns_own" not in shown, name


def test_off_loopback_tls_is_required(port: Port, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="in the clear"):
        Port(make_policy(tmp_path), host="0.0.0.0", behind_proxy=True)
    certificate, key = certified(tmp_path)
    other = Port(tmp_path / "policy.toml", host="0.0.0.0", tls_cert=certificate, tls_key=key)
    try:
        with pytest.raises(psycopg.OperationalError, match="must be encrypted"):
            other.connect(sslmode="disable")
        with other.connect(sslmode="verify-ca", sslrootcert=str(certificate)) as opened:
            assert opened.pgconn.ssl_in_use and opened.execute("SELECT 1").fetchone() == (1,)
        with socket.create_connection(("127.0.0.1", other.port.port), timeout=10) as sly:
            # What is sent in the clear behind the wish for TLS must not be taken for encrypted.
            sly.sendall(struct.pack("!ii", 8, messages.SSL_REQUEST) + b"\0\0\0\x08\0\x03\0\0")
            assert sly.recv(1) == b"S"
            with suppress(ConnectionError):
                assert not sly.recv(100).startswith(b"R")
    finally:
        other.close()


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate of its own for this machine, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1))
    made = made.add_extension(x509.BasicConstraints(True, None), critical=True)
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return files


# ---------------------------------------------------------------- giving up, and going away


def held(port: Port, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event, threading.Event]:
    """Queries that are done and wait: when one is done, let it go on, and when it went on."""
    done, go, gone = threading.Event(), threading.Event(), threading.Event()
    query = port.core.query

    def waits(*asked: Any) -> Any:
        answer = query(*asked)
        done.set()
        assert go.wait(20)
        gone.set()
        return answer

    monkeypatch.setattr(port.core, "query", waits)
    return done, go, gone


def test_a_query_that_is_cancelled_stays_charged_and_is_free_the_next_time(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, sql = port.spent, "SELECT COUNT(*) AS cancelled FROM visits WHERE minutes > 11"
    with port.connect(epsilon=0.5) as opened, monkeypatch.context() as patched:
        done, go, gone = held(port, patched)

        def give_up() -> None:
            done.wait(20)
            opened.cancel_safe(timeout=10)

        threading.Thread(target=give_up).start()
        with pytest.raises(psycopg.errors.QueryCanceled) as cancelled:
            opened.execute(sql)
        assert "stays paid" in (cancelled.value.diag.message_hint or "")
        go.set()
        assert gone.wait(20) and port.spent - before == 0.5
        patched.undo()
        assert len(opened.execute(sql).fetchall()) == 1 and port.spent - before == 0.5


def test_a_client_that_goes_away_has_paid_and_harms_nobody(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    before, sql = port.spent, "SELECT COUNT(*) AS gone FROM visits WHERE minutes > 12"
    with monkeypatch.context() as patched:
        done, go, gone = held(port, patched)
        with port.raw() as client:
            client.send(b"Q", b"SET dpsql.epsilon = 0.5; " + sql.encode() + b"\0")
            assert done.wait(20)
        go.set()
        assert gone.wait(20)
    assert port.spent - before == 0.5
    with port.connect() as opened:
        assert len(opened.execute(sql).fetchall()) == 1


def test_what_is_cancelled_while_it_waits_for_its_turn_is_never_paid_for(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, most = port.spent, port.core.settings.max_running_each
    with monkeypatch.context() as patched, port.connect(epsilon=0.5) as late:
        done, go, _ = held(port, patched)
        clients = [socket.create_connection(("127.0.0.1", port.port.port), timeout=20) for _ in range(most)]
        for i, client in enumerate(clients):
            done.clear()
            Raw(client).enter("ann", port.tokens["ann"])
            sql = f"SET dpsql.epsilon = 0.5; SELECT COUNT(*) AS turn FROM visits WHERE minutes > {21 + i}"
            Raw(client).send(b"Q", sql.encode() + b"\0")
            assert done.wait(20)

        def give_up() -> None:
            while port.port.twin.turns.running <= most:
                sleep(0.01)
            late.cancel_safe()

        threading.Thread(target=give_up).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            late.execute("SELECT COUNT(*) AS never FROM visits WHERE minutes > 31")
        go.set()
        for client in clients:
            Raw(client).until(b"Z")
            client.close()
    port.port.twin.turns.finish(20)
    assert port.spent - before == most * 0.5


def test_only_who_knows_the_key_can_cancel(port: Port) -> None:
    with port.connect() as opened, socket.create_connection(("127.0.0.1", port.port.port), timeout=10) as other:
        other.sendall(struct.pack("!iii", 16, messages.CANCEL_REQUEST, opened.info.backend_pid) + b"\0\0\0\0")
        assert other.recv(1) == b""  # nobody is told whether it was right
        assert opened.execute("SELECT 1").fetchone() == (1,)


# ---------------------------------------------------------------- the protocol


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([b"p", b"Q", b"P", b"B", b"D", b"E", b"C", b"S", b"H", b"X", b"d", b"?"]), st.binary(max_size=80)
)
def test_any_bytes_are_a_message_or_a_protocol_error(letter: bytes, body: bytes) -> None:
    for decode in (lambda: messages.decode(letter, body), lambda: messages.decode_first(body)):
        try:
            decode()
        except messages.ProtocolError:
            continue


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([0, 16, 20, 21, 23, 25, 26, 700, 701, 1007, 1009, 1082, 1083, 1114, 1184, 1700, 2950, 17, 999]),
       st.integers(0, 1), st.binary(max_size=40))  # fmt: skip
def test_any_bytes_are_a_value_or_refused(oid: int, format: int, data: bytes) -> None:
    try:
        decoded(data, oid, format)
    except Refused:
        return


@pytest.mark.parametrize(
    "first",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 1_000_000, 3 << 16),
        struct.pack("!i", 4),
        struct.pack("!ii", 9, 3 << 16) + b"\0" + b"B" * 50,
        struct.pack("!ii", 13, 3 << 16) + b"user\xff",
    ],
)
def test_a_bad_beginning_ends_that_connection_alone(port: Port, first: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port.port.port), timeout=10) as client:
        client.sendall(first)
        client.shutdown(socket.SHUT_WR)
        said = b""
        while piece := client.recv(1000):
            said += piece
    assert not said or said[:1] in (b"E", b"R")
    with port.connect() as opened:
        assert opened.execute("SELECT 1").fetchone() == (1,)


def test_a_message_that_is_too_long_or_none_ends_the_connection(port: Port) -> None:
    for data in (b"Q" + struct.pack("!i", 1 << 30), b"Q" + struct.pack("!i", 2), b"\x07\0\0\0\x04", b"p\0\0\0\x05\0"):
        with port.raw() as client:
            client.socket.sendall(data)
            found = client.until(b"Z")
            assert found[-1][0] == b"E" and b"C08P01" in found[-1][1]
            with pytest.raises((EOFError, ConnectionError)):
                client.read()


def test_a_client_that_is_too_slow_to_say_who_it_is_is_hung_up_on(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.server.postgres.wire.TO_ENTER", 0.3)
    with socket.create_connection(("127.0.0.1", port.port.port), timeout=10) as client:
        client.sendall(b"\0\0")
        assert client.recv(1) == b""


def test_after_an_error_everything_up_to_sync_is_left_out(port: Port) -> None:
    with port.raw() as client:
        client.send(b"P", b"\0SELECT nothing FROM visits\0\0\0")
        client.send(b"B", b"\0\0\0\0\0\0\0\0")
        client.send(b"D", b"P\0")
        client.send(b"E", b"\0\0\0\0\0")
        client.send(b"S")
        assert client.letters() == "12EZ"
        client.send(b"P", b"one\0SELECT 1\0\0\0")
        client.send(b"P", b"one\0SELECT 2\0\0\0")
        client.send(b"S")
        assert client.letters() == "1EZ"
        client.send(b"Q", b";\0")
        assert client.letters() == "IZ"


def test_a_portal_gives_its_rows_in_pieces(port: Port) -> None:
    with port.raw() as client:
        client.send(b"P", b"\0SELECT * FROM city\0\0\0")
        client.send(b"B", b"p\0\0\0\0\0\0\0\0")
        for most in (1, 1, 1):
            client.send(b"E", b"p\0" + struct.pack("!i", most))
        client.send(b"S")
        assert client.letters() == "12DsDsNCZ"
        client.send(b"E", b"p\0\0\0\0\0")  # portals end with the round
        client.send(b"S")
        assert client.letters() == "EZ"


def test_types_of_parameters_are_found_in_the_sql() -> None:
    columns = {"minutes": 20, "city": 25, "day": 1082}
    found = parameter_types("SELECT $1::int, CAST($2 AS date) FROM t WHERE minutes > $3 AND $4 = city", [], columns)
    assert found == (23, 1082, 20, 25)
    assert parameter_types("… day BETWEEN $1 AND $2 AND minutes IN ($3, $4) LIMIT $5", [0, 1114], columns) == (
        1082, 1114, 20, 20, 20,
    )  # fmt: skip
    assert parameter_types("SELECT f($1, '$2'), $3", [], columns) == (25, 25, 25)


# ---------------------------------------------------------------- drivers


VALUES = (
    "SELECT true AS b, 1::smallint AS s, 2::int AS i, 3::bigint AS l, 1.5::real AS r, 2.25::double precision AS d, "
    "-12345.6789::decimal(12, 4) AS n, 0::decimal(10, 2) AS z, 'tëxt' AS t, NULL AS u, DATE '1999-12-31' AS day, "
    "TIME '12:34:56.789' AS c, TIMESTAMP '2024-02-29 12:00:00.000001' AS m, "
    "TIMESTAMPTZ '2024-02-29 12:00:00+02' AS z2, INTERVAL '1 day 2 hours' AS v, [1, 2, NULL] AS a, ['a', 'b\"c,'] AS x"
)
AS_PYTHON = (
    True, 1, 2, 3, 1.5, 2.25, Decimal("-12345.6789"), Decimal("0.00"), "tëxt", None, date(1999, 12, 31),
    time(12, 34, 56, 789000), datetime(2024, 2, 29, 12, 0, 0, 1), datetime(2024, 2, 29, 10, tzinfo=UTC),
    timedelta(days=1, hours=2), [1, 2, None], ["a", 'b"c,'],
)  # fmt: skip


@pytest.mark.parametrize("binary", [False, True])
def test_values_are_the_same_in_text_and_in_binary(free: psycopg.Connection[Any], binary: bool) -> None:
    sql = VALUES.replace("[1, 2, NULL]", "ARRAY[1, 2, NULL]").replace("['a', 'b\"c,']", "ARRAY['a', 'b\"c,']")
    assert free.cursor(binary=binary).execute(sql).fetchone() == AS_PYTHON


@pytest.mark.parametrize(
    ("kind", "value", "text", "binary"),
    [  # as Postgres 15 sends them
        (pa.date32(), -719_163, "0001-12-31 BC", "fff4dbf8"),
        (pa.date32(), 10_000_000, "29349-01-26", "00986bb3"),
        (pa.date32(), 2**31 - 1, "infinity", "7fffffff"),
        (pa.timestamp("us"), -1, "1969-12-31 23:59:59.999999", "fffca2fec4c81fff"),
        (pa.timestamp("us", "UTC"), 0, "1970-01-01 00:00:00+00", "fffca2fec4c82000"),
        (pa.month_day_nano_interval(), (-14, 3, -5_000_000), "-1 years -2 mons +3 days -00:00:00.005",
         "ffffffffffffec7800000003fffffff2"),
        (pa.month_day_nano_interval(), (25, -1, 108_000_000_000_000), "2 years 1 mon -1 days +30:00:00",
         "00000019254d3800ffffffff00000019"),
        (pa.decimal128(20, 5), Decimal("-12345678.90000"), "-12345678.90000", "000300014000000504d2162e2328"),
        (pa.decimal128(10, 5), Decimal("0.00012"), "0.00012", "0002ffff00000005000107d0"),
        (pa.float64(), float("-inf"), "-Infinity", "fff0000000000000"),
        (pa.list_(pa.string()), ["a", "b c", 'q"x', "", None, "NULL"], '{a,"b c","q\\"x","",NULL,"NULL"}', ""),
    ],
)  # fmt: skip
def test_a_value_is_written_as_postgres_writes_it(kind: Any, value: Any, text: str, binary: str) -> None:
    wire = wire_of(kind)
    whole = pa.array(
        [value], pa.int32() if pa.types.is_date(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind
    )
    (read,) = wire.read(whole.cast(kind))
    assert wire.encode(read, 0) == text.encode()
    assert not binary or (wire.encode(read, 1) or b"").hex() == binary


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_asks_with_parameters_of_many_types(port: Port, binary: bool) -> None:
    with port.connect(epsilon=0.5) as opened:
        sql = (
            "SELECT COUNT(*) AS n, SUM(price) AS s FROM trips WHERE day >= %b AND price < %b AND city = %b AND n <> %b"
        )
        sql = sql if binary else sql.replace("%b", "%t")
        row = opened.cursor(binary=binary).execute(sql, (date(2024, 1, 1), Decimal("99.5"), "Bern", 3)).fetchone()
        assert row and isinstance(row[0], int) and isinstance(row[1], Decimal)
        for _ in range(6):  # from the fifth on it is prepared
            assert opened.execute("SELECT %s + 1", (41,)).fetchone() == (42,)
        with opened.pipeline():
            one, two = opened.execute("SELECT 1"), opened.execute("SELECT * FROM city")
        assert one.fetchall() == [(1,)] and len(two.fetchall()) == 2
        with opened.transaction():
            assert opened.info.transaction_status.name == "INTRANS"
        assert opened.info.transaction_status.name == "IDLE"


def test_asyncpg_prepares_binds_in_binary_and_introspects(port: Port) -> None:
    async def ask() -> None:
        told = port.named()
        opened = await asyncpg.connect(
            host=told["host"], port=told["port"], user="ann", password=told["password"], database="dpsql",
            server_settings={"dpsql.epsilon": "0.5"},
        )  # fmt: skip
        try:
            statement = await opened.prepare(f"{COUNT.replace(' GROUP', ' WHERE minutes BETWEEN $1 AND $2 GROUP')}")
            assert [one.name for one in statement.get_parameters()] == ["int8", "int8"]
            assert [one.type.name for one in statement.get_attributes()] == ["text", "int8"]
            assert len(await statement.fetch(5, 50)) == 4
            typed = "SELECT COUNT(*) FROM trips WHERE day >= $1 AND price < $2"
            assert await opened.fetchval(typed, date(2024, 1, 1), Decimal(7)) is not None
            assert await opened.fetchval("SELECT current_schemas(true)") == ["pg_catalog", "public"]  # an array
            assert await opened.fetchval("SELECT $1::int[]", [1, 2]) == [1, 2]
            assert dict(await opened.fetchrow(VALUES.split(", [1")[0]))["n"] == Decimal("-12345.6789")
            async with opened.transaction():
                assert [row["name"] async for row in opened.cursor("SELECT * FROM city", prefetch=1)] == [
                    "Bern",
                    "Lima",
                ]
            with pytest.raises(asyncpg.exceptions.UndefinedColumnError):
                await opened.fetch("SELECT cty FROM visits")
            await opened.reset()
        finally:
            await opened.close()

    asyncio.run(ask())


def test_sqlalchemy_reflects_and_pandas_reads(port: Port) -> None:
    before = port.spent
    found = sa.inspect(engine_of(port))
    assert sorted(found.get_table_names()) == ["city", "trips", "visits"]
    assert {name: len(found.get_columns(name)) for name in COLUMNS} == COLUMNS
    kinds = {column["name"]: str(column["type"]) for column in found.get_columns("trips")}
    assert kinds["price"] == "NUMERIC(10, 2)" and kinds["day"] == "DATE" and kinds["at"] == "TIMESTAMP"
    assert found.get_pk_constraint("trips")["constrained_columns"] == ["person", "n"]
    (link,) = found.get_foreign_keys("trips")
    assert (link["constrained_columns"], link["referred_table"], link["referred_columns"]) == (
        ["city"],
        "city",
        ["name"],
    )
    assert "aggregates" in (found.get_table_comment("visits")["text"] or "")
    reflected = sa.MetaData()
    reflected.reflect(engine_of(port))
    visits = reflected.tables["visits"]
    assert port.spent == before
    asked = sa.select(visits.c.city, sa.func.count().label("n")).where(visits.c.minutes > 20).group_by(visits.c.city)
    with engine_of(port, 0.5).connect() as opened:
        frame = pd.read_sql(asked, opened)
    assert list(frame.columns) == ["city", "n"] and len(frame) == 4 and port.spent - before == 0.5


def test_two_analysts_at_once_share_a_port_and_nothing_else(port: Port) -> None:
    failures: list[BaseException] = []
    before, starts = port.spent, {"ann": 15, "bob": 45}

    def ask(name: str) -> None:
        try:
            with port.connect(name, epsilon=0.125) as opened:
                for i in range(3):
                    opened.execute(f"SELECT COUNT(*) AS {name}_{i} FROM visits WHERE minutes > %s", (starts[name] + i,))
                    assert opened.execute("SELECT current_user").fetchone() == (name,)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("ann", "bob", "ann", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert port.spent - before == 6 * 0.125  # what the same analyst asks twice is paid once
    with port.connect("bob") as bob, pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        bob.execute("SELECT COUNT(*) AS ann_0 FROM visits WHERE minutes > %s", (15,))  # ann's is not there for him


# ---------------------------------------------------------------- what tools ask


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        # in the manner of DBeaver
        ("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate", 1),
        ("SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d "
         "ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname", 3),
        ("SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr, "
         "pg_catalog.pg_get_partkeydef(c.oid) AS partition_key FROM pg_catalog.pg_class c "
         "LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 "
         "AND d.classoid = 'pg_class'::regclass WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')", 3),
        ("SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description, "
         "dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid) "
         "LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum) "
         "LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid) "
         "LEFT OUTER JOIN pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' "
         "WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'c') AND c.oid = 'public.trips'::regclass "
         "ORDER BY a.attnum", 6),
        ("SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description "
         "FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid "
         "LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d "
         "ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass "
         "WHERE t.relname = 'trips' ORDER BY c.oid", 2),
        ("SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, tc.relname AS tabrelname, dsc.description, "
         "pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr FROM pg_catalog.pg_index i "
         "INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN pg_catalog.pg_class tc "
         "ON tc.oid = i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid", 2),
        ("SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name "
         "FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid "
         "WHERE t.typname IS NOT NULL AND t.typname = 'numeric'", 1),
        ("SELECT current_schema(), session_user", 1),
        # in the manner of Metabase
        ("SELECT nspname FROM pg_namespace WHERE nspname !~ '^information_schema|catalog_history|pg_' "
         "AND has_schema_privilege(nspname, 'USAGE')", 1),
        ("SELECT c.column_name AS name, c.udt_name AS \"database-type\", c.ordinal_position - 1 AS position, "
         "c.table_schema AS schema, c.table_name AS \"table-name\", pk.column_name IS NOT NULL AS \"pk?\", "
         "col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) "
         "AS regclass) AS oid), c.ordinal_position) AS remarks FROM information_schema.columns AS c "
         "LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name "
         "FROM information_schema.table_constraints tc INNER JOIN information_schema.key_column_usage kc "
         "ON tc.constraint_name = kc.constraint_name "
         "AND tc.table_name = kc.table_name WHERE tc.constraint_type = 'PRIMARY KEY') AS pk "
         "ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name "
         "WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' ORDER BY 4, 5, 3", 11),
        ("SELECT fk_ns.nspname, fk_table.relname, fk_column.attname, pk_table.relname, pk_column.attname "
         "FROM pg_constraint c JOIN pg_class fk_table ON c.conrelid = fk_table.oid "
         "JOIN pg_namespace fk_ns ON c.connamespace = fk_ns.oid JOIN pg_attribute fk_column "
         "ON c.conrelid = fk_column.attrelid JOIN pg_class pk_table ON c.confrelid = pk_table.oid "
         "JOIN pg_attribute pk_column ON c.confrelid = pk_column.attrelid WHERE c.contype = 'f'::char "
         "AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey)", 1),
        ("SHOW timezone", 1),
        ("SELECT n.nspname AS \"schema\", t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace "
         "WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum e)", 0),
    ],
)  # fmt: skip
def test_tools_find_what_there_is(free: psycopg.Connection[Any], sql: str, rows: int) -> None:
    assert len(free.execute(sql).fetchall()) == rows


def test_a_dashboard_asks_as_bi_tools_write(port: Port) -> None:
    sql = (
        'SELECT "public"."visits"."city" AS "city", COUNT(*) AS "count" FROM "public"."visits" '
        'WHERE "public"."visits"."minutes" >= 10 GROUP BY "public"."visits"."city" '
        'ORDER BY "public"."visits"."city" ASC'
    )
    with port.connect(epsilon=0.5) as opened:
        assert [row[0] for row in opened.execute(sql).fetchall()][:3] == ["Bern", "Lima", "Oslo"]


def test_what_clients_were_recorded_to_ask_has_the_same_rows(free: psycopg.Connection[Any]) -> None:
    for client in json.loads(RECORDED.read_text()):
        for one in client["asked"]:
            found = psycopg.RawCursor(free).execute(one["sql"], one["values"] or None)
            assert found.rowcount == one["rows"], f"{client['client']} {client['version']}: {one['sql']}"


def test_psql_describes_and_points(port: Port) -> None:
    psql = needs("postgres")
    told = port.named()
    before = port.spent

    def run(*commands: str) -> str:
        arguments = [psql, "-X", "-h", told["host"], "-p", str(told["port"]), "-U", "ann", "dpsql"]
        arguments += [word for command in commands for word in ("-c", command)]
        environment = {**os.environ, "PGPASSWORD": told["password"], "PGCLIENTENCODING": "UTF8", "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            arguments, capture_output=True, encoding="utf-8", env=environment, timeout=60, check=False
        )
        return done.stdout + done.stderr

    every = ("\\d", "\\dt", "\\d trips", "\\d+ city", "\\l", "\\df", "\\dn", "\\du", "\\di", "\\dT", "\\z", "\\dconfig")
    shown = run(*every)
    assert "ERROR" not in shown
    assert '"trips_pkey" PRIMARY KEY, btree (person, n)' in shown and "numeric(10,2)" in shown
    assert "FOREIGN KEY (city) REFERENCES city(name)" in shown
    refused = run("SELECT COUNT(*) FROM visits WHERE minuets > 1")
    assert (
        "LINE 1: SELECT COUNT(*) FROM visits WHERE minuets > 1\n" in refused
        and "HINT:  did you mean minutes?" in refused
    )
    line, caret = re.findall(r"(LINE 1: .*)\n( *\^)", refused)[0]
    assert line.index("minuets") == caret.index("^")
    assert port.spent == before
    assert "NOTICE:  this cost ε = 0.5" in run("SET dpsql.epsilon = 0.5", "SELECT AVG(minutes) AS by_psql FROM visits")


def test_pgjdbc_sees_every_table_column_and_key(port: Port) -> None:
    java, jar = str(Path(needs("jdk")).with_name("java")), needs("pgjdbc")
    told = port.named()
    source = Path(__file__).parent / "postgres_clients" / "Metadata.java"
    url = f"jdbc:postgresql://{told['host']}:{told['port']}/dpsql"
    environment = {**os.environ, "PGPASSWORD": told["password"]}
    command = [java, "-XX:TieredStopAtLevel=1", "-cp", jar, str(source), url, "ann"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = {
        "getTables": TABLES, "getColumns": 6, "getColumns-all": 11, "getPrimaryKeys": 2, "getImportedKeys": 1,
        "getExportedKeys": 1, "getIndexInfo": 2, "getSchemas": 3, "getCatalogs": 1, "getBestRowIdentifier": 2,
        "columns": 3, "query": 4, "fetched": 2, "typed": 1,
    }  # fmt: skip
    assert {name: int(found[name]) for name in wanted} == wanted
    assert found["refused"] == "42703" and found["notice"] == "this cost nothing"


def test_the_python_of_the_page_runs(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    told = port.named()
    for name, value in {
        "HOST": told["host"],
        "PORT": told["port"],
        "USER": "ann",
        "PASSWORD": told["password"],
    }.items():
        monkeypatch.setenv(f"PG{name}", str(value))
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/postgres.md", "exec"), names)
    assert len(blocks) == 2 and len(names["rows"]) == 4 and len(names["frame"]) == 4
    names["engine"].dispose()


def test_the_refusal_of_the_page_is_the_one_that_is_shown(free: psycopg.Connection[Any]) -> None:
    (shown,) = re.findall(r"<!-- refusal -->\n```\nERROR:  (.*?)\n```", PAGE, re.DOTALL)
    with pytest.raises(psycopg.Error) as refused:
        free.execute("SELECT AVG(minuets) FROM visits")
    assert str(refused.value) == shown


def test_the_command_serves_both_and_ends_in_order(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    (tmp_path / "server.toml").write_text("[server]\nport = 0\n[postgres]\nport = 0\n")
    token, _ = Tokens(read_settings(None, policy, {}).tokens).add("ann")
    command = [sys.executable, "-m", "dpsql", "serve", "--policy", str(policy), "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said, found = "", None
            while found is None and (line := process.stderr.readline()):  # it may build the page first
                said += line
                found = re.search(r"psql -h 127.0.0.1 -p (\d+)", line)
            assert found, said
            told = f"host=127.0.0.1 port={found[1]} user=ann password={token} dbname=dpsql"
            with psycopg.connect(told, autocommit=True) as opened:
                assert len(opened.execute("SHOW TABLES").fetchall()) == TABLES
                process.terminate()
                assert process.wait(60) == 0
                with pytest.raises(psycopg.OperationalError):
                    opened.execute("SELECT 1")
        finally:
            process.kill()


def test_a_port_that_is_taken_is_said(port: Port) -> None:
    taken = port.core.settings
    with pytest.raises(PolicyError, match="can't listen"):
        PostgresPort(_with_port(port, taken), port.people.who)


def _with_port(port: Port, taken: Any) -> Any:
    from dataclasses import replace
    from types import SimpleNamespace

    return SimpleNamespace(settings=replace(taken, postgres_port=port.port.port))


def test_closing_answers_what_is_under_way_and_hangs_up_on_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Port(make_policy(tmp_path))
    idle = other.connect()
    done, go, _ = held(other, monkeypatch)
    found: list[Any] = []

    def ask() -> None:
        with other.connect(epsilon=0.5) as opened:
            found.append(opened.execute("SELECT COUNT(*) FROM visits").fetchall())

    asking = threading.Thread(target=ask)
    asking.start()
    assert done.wait(20)
    closing = threading.Thread(target=other.close)
    closing.start()
    with pytest.raises(psycopg.OperationalError):
        for _ in range(1000):  # until it is hung up on
            idle.execute("SELECT 1")
    go.set()
    asking.join(20)
    closing.join(20)
    assert len(found) == 1 and not closing.is_alive()
    idle.close()
    with pytest.raises(OSError):
        Raw(socket.create_connection(("127.0.0.1", other.port.port), timeout=5))
