"""The process: one command is enough, it ends in order, and what ends it otherwise forgets no spend."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from servers import make_policy

import dpsql

pytestmark = pytest.mark.usefixtures("usual_signals")

COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"


@contextmanager
def served(policy: Path, after: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """`dpsql serve`, and a client that is logged in with its link."""
    command = [sys.executable, "-m", "dpsql", "serve", "--policy", str(policy), "--port", "0", "--no-open"]
    environment = {**os.environ, "DPSQL_SERVER_REPLY_AFTER": after}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            said, found = "", None
            while found is None and (line := process.stderr.readline()):  # it may build the page first
                said += line
                found = re.search(r"(http://\S+)/#login=(\S+)", line)
            assert found is not None, said
            with httpx.Client(base_url=found[1], timeout=60, trust_env=False) as client:
                assert client.post("/v1/login", json={"token": found[2]}).json()["role"] == "steward"
                yield process, client
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)


def paid(client: httpx.Client) -> None:
    """Wait until something is paid for."""
    for _ in range(1_000):
        if client.get("/v1/history").json()["history"]:
            return
        time.sleep(0.02)
    raise AssertionError("nothing was paid for")


def left(policy: Path) -> list[tuple[str, float]]:
    with dpsql.connect(policy) as session:
        return [(e.state, float(e.cost.epsilon)) for e in session.account.entries]


@pytest.mark.alone
def test_what_is_under_way_when_the_server_is_told_to_end_is_answered(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    with served(policy, "5s") as (process, client), ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.post, "/v1/query", json={"sql": COUNT})
        with httpx.Client(base_url=client.base_url, cookies=client.cookies, trust_env=False) as other:
            paid(other)
        process.send_signal(signal.SIGTERM)
        assert asking.result().json()["columns"] == ["city", "n"]
        assert process.wait(30) == 0
    assert left(policy) == [("released", 0.5)]
    lines = [json.loads(line) for line in (tmp_path / "policy.audit.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines if line["event"] == "ledger"][-3:] == ["spend", "released", "answered"]
    assert not any(COUNT in json.dumps(line) for line in lines if line["event"] != "ledger")


@pytest.mark.alone
def test_a_server_that_is_killed_between_reservation_and_reply_leaves_a_spend_without_a_release(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    with served(policy, "60s") as (process, client), ThreadPoolExecutor(1) as pool:
        asking = pool.submit(client.post, "/v1/query", json={"sql": COUNT})
        with httpx.Client(base_url=client.base_url, cookies=client.cookies, trust_env=False) as other:
            paid(other)
        process.kill()
        with pytest.raises(httpx.TransportError):
            asking.result()
    assert left(policy) == [("reserved", 0.5)]
    with dpsql.connect(policy) as session:
        assert session.query(COUNT).cost.epsilon == 0.5  # what was lost is paid again, and nothing is refunded
        assert session.budget.spent.epsilon == 1
