"""What breaks inside is told as a constant with an incident's id; what one analyst may take is bounded."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers import Server, make_policy

import dpsql
from dpsql import session as sessions
from dpsql.accounting.ledger import Ledger
from dpsql.server import guard
from dpsql.server.http import ROUTES
from dpsql.server.limits import Buckets
from dpsql.server.login import Logins
from dpsql.server.tokens import Tokens

COUNT = "SELECT COUNT(*) AS n FROM visits"
SECRET = "/srv/secret/visits.parquet row 'Ann Smith'"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(make_policy(tmp_path_factory.mktemp("broken")), max_running=3)
    yield found
    found.close()


def raises(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


KINDS = [
    RuntimeError(SECRET),
    dpsql.LedgerError(SECRET, code="ledger-damaged", hint=SECRET),
    dpsql.DataError(SECRET, code="source-missing", hint=SECRET),
]


@pytest.mark.parametrize("error", KINDS, ids=lambda e: type(e).__name__)
def test_whatever_breaks_at_an_address_is_told_as_a_constant_with_an_incident(
    broken: Server, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    for where, name in (
        (sessions.Session, "_about"),
        (sessions.Session, "_inspected"),
        (Ledger, "left"),
        (Ledger, "history"),
        (Ledger, "owner"),
        (Path, "read_text"),
        (Logins, "enter"),
    ):
        monkeypatch.setattr(where, name, raises(error))
    monkeypatch.setattr("dpsql.explain.schema.listed", raises(error))
    told = {}
    with broken.client("steve") as client:
        for method, path, _ in ROUTES:
            if not path.startswith("/v1/") or path == "/v1/logout":
                continue
            body = {"token": "x"} if path == "/v1/login" else {"sql": COUNT}
            path = path.replace("{id}", "0" * 32)
            reply = client.request(method, path, json=body if method == "POST" else None)
            told[path] = reply.status_code
            assert reply.status_code in (500, 503), (path, reply.text)
            assert "secret" not in reply.text and "Smith" not in reply.text and "Traceback" not in reply.text
            assert reply.json()["code"] in ("incident", "unavailable") and len(reply.json()["incident"]) == 16
        assert len(told) == 15
        assert client.get("/readyz").status_code == 503 and client.get("/healthz").status_code == 200


def test_the_steward_finds_an_incident_in_the_log_without_the_words_of_a_foreign_error(
    broken: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions.Session, "_about", raises(RuntimeError(SECRET)))
    with broken.client("ann") as ann:
        incident = ann.post("/v1/query", json={"sql": COUNT}).json()["incident"]
    lines = [json.loads(line) for line in broken.settings.audit.read_text().splitlines()]
    (line,) = [one for one in lines if one.get("incident") == incident]
    assert line["analyst"] == "ann" and line["event"] == "query" and line["seconds"] >= 0
    assert line["error"]["kind"] == "RuntimeError" and "Smith" not in json.dumps(line) and COUNT not in json.dumps(line)


def test_a_broken_file_of_tokens_lets_nobody_in_and_names_no_file(
    broken: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokens, "_read", raises(OSError(SECRET)))
    with broken.client("ann") as ann:
        reply = ann.get("/v1/me")
        assert reply.status_code == 500 and "secret" not in reply.text


def test_one_analyst_has_two_queries_and_one_explanation_under_way(
    broken: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, inside = threading.Event(), threading.Semaphore(0)

    def wait(*_: Any, **__: Any) -> Any:
        inside.release()
        assert go.wait(20)
        raise dpsql.SQLError("enough", code="syntax")

    for name in ("query", "explain"):
        monkeypatch.setattr(sessions.Session, name, wait)
    with broken.client("ann") as ann, broken.client("bob") as bob, ThreadPoolExecutor(4) as pool:
        ask = {"sql": COUNT}
        under_way = [pool.submit(ann.post, f"/v1/{what}", json=ask) for what in ("query", "query", "explain")]
        for _ in under_way:
            assert inside.acquire(timeout=10)
        for what in ("query", "explain"):
            refused = ann.post(f"/v1/{what}", json=ask)
            assert refused.status_code == 429 and refused.json()["code"] == "too-many"
        under_way.append(pool.submit(bob.post, "/v1/query", json=ask))  # the third of three
        assert inside.acquire(timeout=10)
        assert bob.post("/v1/query", json=ask).status_code == 503
        assert ann.get("/v1/budget").status_code == 200
        go.set()
        assert [one.result().status_code for one in under_way] == [422] * 4
        assert ann.post("/v1/query", json=ask).status_code == 422


def test_a_bucket_gives_so_many_a_minute_and_no_more_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("dpsql.server.limits.monotonic", lambda: now[0])
    buckets = Buckets(60)
    for _ in range(60):
        buckets.take("ann")
    with pytest.raises(dpsql.ServerError):
        buckets.take("ann")
    buckets.take("bob")
    now[0] = 1.0
    buckets.take("ann")
    with pytest.raises(dpsql.ServerError):
        buckets.take("ann")


def test_a_body_that_is_too_long_is_refused_before_it_is_read(broken: Server) -> None:
    with broken.client("ann") as ann:
        long = json.dumps({"sql": "SELECT " + "1," * 200_000 + "1"})

        def pieces() -> Iterator[bytes]:  # without its length
            for start in range(0, len(long), 50_000):
                yield long[start : start + 50_000].encode()

        said = {"Content-Type": "application/json"}
        assert ann.post("/v1/query", content=long, headers=said).status_code == 413
        assert ann.post("/v1/query", content=pieces(), headers=said).status_code == 413


def test_a_body_that_comes_too_slowly_is_not_waited_for(broken: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it keep the server from ending, as it would: nobody need be known to send one."""
    monkeypatch.setattr(guard, "SLOW", 0.2)
    head = f"POST /v1/login HTTP/1.1\r\nHost: {httpx.URL(broken.url).netloc.decode()}\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection((httpx.URL(broken.url).host, httpx.URL(broken.url).port or 0), timeout=20) as slow:
        slow.sendall(head.encode() + b"{")
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_what_isnt_a_request_is_refused(broken: Server) -> None:
    with broken.client("ann") as ann:
        wrong: list[dict[str, Any]] = [{"epsilon": True}, {"epsilon": [1]}, {"fresh": 1}, {"epsilon": "x"}]
        wrong += [{"params": one} for one in ("x", [{"date": 1}], [{"date": "1", "time": "2"}], [{"number": "x"}])]
        bodies: list[Any] = [[], {}, {"sql": 1}, *({"sql": COUNT, **one} for one in wrong)]
        for body in bodies:
            assert ann.post("/v1/query", json=body).status_code == 422
        deep = "[" * 100_000
        assert ann.post("/v1/query", content=deep, headers={"Content-Type": "application/json"}).status_code == 422
        half = b'{"sql": "SELECT COUNT(*) AS n FROM visits -- \\ud800"}'  # of a character
        assert ann.post("/v1/query", content=half, headers={"Content-Type": "application/json"}).status_code == 422
