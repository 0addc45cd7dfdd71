"""Spark from the command line, on a cluster of two workers: a driver that is gone, a client that is, jobs and `serve`.

The other commands are asked of an installed dpsql (tests/installed/test_on_spark.py). Each command is a process of its
own, as people run it. The first of them asks the server everything; it has a cache of its own, so that others needn't.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_cluster import spark

import dpsql
from dpsql.backends.base import Deadline
from dpsql.backends.spark import alive
from dpsql.backends.spark.server import GONE, Connection
from dpsql.policy.settings import Duration

POLICY = """
[budget]
epsilon = 100
delta = 1e-6
query_epsilon = 1

[privacy]
limits_share = 0
max_rows = 4

[backend]
kind = "spark"
url = "{url}"

[tables.t]
source = "t.parquet"
unit = "person"
columns = {{ k = {{ values = ["a", "b"] }} }}
"""
COUNT = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
RELEASE = """
policy = "policy.toml"
[queries.rows_of_all]
sql = "SELECT COUNT(*) AS rows_of_all FROM t"
epsilon = 2
output = "out/rows_of_all.csv"
"""
SLOW = "SELECT SUM(id % 7) AS x FROM range(1000000000000)"


@pytest.fixture(scope="module")
def reached() -> Iterator[tuple[str, Any]]:
    with spark() as found:
        yield found


@pytest.fixture(scope="module")
def url(reached: tuple[str, Any]) -> str:
    return reached[0]


@pytest.fixture
def driver(reached: tuple[str, Any]) -> Iterator[int]:
    """The group of processes of the server, which a test may stop; it goes on afterwards."""
    if reached[1] is None:
        pytest.skip("the Spark that the environment names isn't ours to harm")
    process = reached[1].processes["server"].pid
    try:
        yield process
    finally:
        os.killpg(process, signal.SIGCONT)


class Console:
    """dpsql's commands in a folder with a policy."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "120"}
        rows = [(person, "ab"[person % 2]) for person in range(300) for _ in range(1 + person % 3)]
        people, kinds = zip(*rows, strict=True)
        pq.write_table(pa.table({"person": pa.array(people, pa.int64()), "k": list(kinds)}), folder / "t.parquet")
        (folder / "policy.toml").write_text(POLICY.format(url=url), encoding="utf-8")
        (folder / "release.toml").write_text(RELEASE, encoding="utf-8")

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "dpsql", *words]

    def run(self, *words: str) -> str:
        """What a command says; it must succeed."""
        done = subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def spent(self) -> float:
        """What the ledger says that was spent."""
        return float(json.loads(self.run("budget", "--json"))["spent"]["epsilon"])

    @property
    def known(self) -> set[str]:
        """The servers that are remembered."""
        return {file.name for file in (self.folder / "cache" / "dpsql" / "spark").glob("*")}


@pytest.fixture(scope="module")
def console(url: str, tmp_path_factory: pytest.TempPathFactory) -> Console:
    made = Console(tmp_path_factory.mktemp("console"), url)
    made.run("check")
    return made


def test_the_first_command_remembers_the_server(console: Console) -> None:
    known = console.known
    assert len(known) == 1
    assert "nothing was spent" in console.run("explain", COUNT)
    assert console.known == known


def test_a_query_is_answered_charged_and_free_the_second_time(console: Console) -> None:
    before = console.spent()
    once = console.run("query", COUNT, "--epsilon", "5", "--format", "csv")
    again = console.run("query", COUNT, "--epsilon", "5", "--format", "csv")
    assert {line.split(",")[0] for line in once.splitlines()[1:3]} == {"a", "b"}
    assert [line for line in again.splitlines() if line[:2] in ("a,", "b,")] == [
        line for line in once.splitlines() if line[:2] in ("a,", "b,")
    ]
    assert console.spent() == before + 5


def test_a_job_is_run(console: Console) -> None:
    before = console.spent()
    console.run("run", "release.toml")
    assert (console.folder / "out" / "rows_of_all.csv").read_text().startswith("rows_of_all")
    assert console.spent() == before + 2
    console.run("run", "release.toml")
    assert console.spent() == before + 2


def test_a_server_is_served(console: Console) -> None:
    command = console.command("serve", "--port", "0", "--no-open")
    environment = {**console.environment, "DPSQL_SERVER_REPLY_AFTER": "20s"}
    with subprocess.Popen(command, cwd=console.folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = next(filter(None, (re.search(r"(http://\S+)/#login=(\S+)", line) for line in process.stderr)))
            with httpx.Client(base_url=found[1], timeout=300, trust_env=False) as client:
                client.post("/v1/login", json={"token": found[2]})
                answer = client.post("/v1/query", json={"sql": COUNT, "epsilon": 3}).json()
                assert answer.get("columns") == ["k", "n"], answer
        finally:
            process.terminate()
            process.wait(60)


# ---------------------------------------------------------------- a driver that is gone


def gone(console: Console, monkeypatch: pytest.MonkeyPatch, group: int, how: signal.Signals) -> None:
    """A query whose driver is stopped as soon as it is charged: what it says, and what the ledger does."""
    before, run = console.spent(), Connection.arrow
    epsilon = 7 if how == signal.SIGSTOP else 9

    def stopped(self: Connection, sql: str, parameters: Any, until: Deadline | None = None) -> Any:
        os.killpg(group, how)
        return run(self, sql, parameters, until)

    monkeypatch.setenv("XDG_CACHE_HOME", console.environment["XDG_CACHE_HOME"])
    with dpsql.connect(console.folder / "policy.toml") as session:
        with monkeypatch.context() as patch, pytest.raises(dpsql.DataError) as failed:
            patch.setattr(Connection, "arrow", stopped)
            session.query(COUNT, epsilon=epsilon)
        assert failed.value.code == "engine" and "the query stays charged" in str(failed.value)
        assert failed.value.aside == GONE
        assert float(session.budget.spent.epsilon) == before + epsilon
        with pytest.raises(dpsql.DataError) as later:
            session.query("SELECT COUNT(*) AS n FROM t WHERE k = 'a'", epsilon=1)
        assert later.value.code == "engine-failed" and "nothing was charged" in str(later.value)
    assert console.spent() == before + epsilon  # another process reads the ledger, and no driver is needed for it


def test_a_driver_that_says_nothing_is_noticed(console: Console, driver: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and its connection too: nobody but a heartbeat would know."""
    monkeypatch.setattr(alive, "BEAT", 0.5)
    gone(console, monkeypatch, driver, signal.SIGSTOP)


def test_connecting_ends_with_the_time_limit(url: str, driver: int) -> None:
    os.killpg(driver, signal.SIGSTOP)
    with pytest.raises(dpsql.DataError) as refused:
        Connection(url, Duration(Fraction(2), "2s"))
    assert refused.value.code == "no-spark" and "nothing within [engine] timeout" in str(refused.value)


def test_what_is_asked_beside_statements_ends_with_the_time_limit(url: str, driver: int) -> None:
    """Views, types and settings are waits like any other."""
    with closing(Connection(url)) as own:
        os.killpg(driver, signal.SIGSTOP)
        with pytest.raises(dpsql.DataError) as stopped:
            own.view(pa.table({"v": [1]}), {"v": "`v`"}, until=Deadline(monotonic() + 1, "1s"))
        assert "longer than 1s" in stopped.value.aside and own.failed


# ---------------------------------------------------------------- a client that is gone


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")
def test_what_a_killed_client_ran_is_stopped(url: str) -> None:
    """The next one doesn't wait behind it: Spark itself goes on for minutes."""
    code = f"from dpsql.backends.spark.server import Connection; Connection({url!r}).arrow({SLOW!r}, {{}})"
    with subprocess.Popen([sys.executable, "-c", code]) as client:
        busy = False
        for _ in range(30):  # until its statement has both workers
            with closing(Connection(url)) as own:
                try:
                    own.arrow("SELECT SUM(id) AS x FROM range(1000)", {}, Deadline(monotonic() + 4, "4s"))
                except dpsql.DataError:
                    busy = True
                    break
        client.kill()
        assert busy
    with closing(Connection(url)) as own:
        found = own.arrow("SELECT SUM(id) AS x FROM range(1000)", {}, Deadline(monotonic() + 150, "150s"))
        assert found.to_pylist() == [{"x": 499500}]


def test_nobody_is_left_who_would_end_a_session_that_was_closed(url: str) -> None:
    own = Connection(url)
    heir = own._heir
    assert heir is not None and heir._process is not None
    process = heir._process
    own.close()
    assert process.returncode == 0


# The last of this file: the driver is killed, and the cluster has none any more.


def test_a_driver_that_is_killed_is_noticed(
    console: Console, reached: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if reached[1] is None:
        pytest.skip("the Spark that the environment names isn't ours to harm")
    gone(console, monkeypatch, reached[1].processes["server"].pid, signal.SIGKILL)
