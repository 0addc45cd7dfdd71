"""Paid replies are held until a public moment, and until then nothing tells that a release is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from servers import Server, make_policy

from dpsql import run as loop
from dpsql.core.concurrency import ReleaseTime
from dpsql.policy.settings import Duration

SQL = "SELECT city, SUM(minutes) AS s FROM visits GROUP BY city"
AFTER = 3


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(
        make_policy(tmp_path_factory.mktemp("slow")),
        reply_after=Duration(Fraction(AFTER), "3s"),
        held=True,
        max_running_each=4,
    )
    yield found
    found.close()


def test_until_its_moment_a_release_is_nowhere_to_be_seen(slow: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    measured, real = threading.Event(), loop._measure

    def measure(*arguments: Any) -> Any:
        found = real(*arguments)
        measured.set()
        return found

    monkeypatch.setattr(loop, "_measure", measure)
    with slow.client("ann") as ann, ThreadPoolExecutor(2) as pool:
        paying = pool.submit(ann.post, "/v1/query", json={"sql": SQL})
        assert measured.wait(10)
        time.sleep(0.1)  # whatever would record it now has had its time
        again = pool.submit(ann.post, "/v1/query", json={"sql": SQL})
        (line,) = ann.get("/v1/history").json()["history"]
        replayed = ann.get(f"/v1/answers/{line['id']}")
        explained = ann.post("/v1/explain", json={"sql": SQL}).json()
        assert not paying.done() and not again.done(), "all of this was looked at before the moment"
        assert line["state"] == "reserved" and explained["stored"] is False
        assert replayed.status_code == 404 and replayed.json()["code"] == "no-answer"
        assert ann.get("/v1/budget").json()["spent"]["epsilon"] == 0.5  # paid before a row was read: that is public
        first, second = paying.result(), again.result()
        assert first.json()["cost"]["epsilon"] == 0.5 and second.json()["cost"]["epsilon"] == 0
        assert first.json()["rows"] == second.json()["rows"]
        assert ann.get("/v1/history").json()["history"][0]["state"] == "released"


def test_what_fails_after_payment_is_told_at_the_same_moment(slow: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: Any) -> Any:
        raise RuntimeError("/secret/path of a row")

    monkeypatch.setattr(loop, "_measure", measure)
    with slow.client("bob") as bob:
        begun = time.monotonic()
        reply = bob.post("/v1/query", json={"sql": SQL})
        assert time.monotonic() - begun >= AFTER
        assert reply.status_code == 500 and "secret" not in reply.text and reply.json()["incident"]
        assert bob.get("/v1/budget").json()["spent"]["epsilon"] == 0.5


def test_what_takes_longer_gets_a_constant_error_at_its_moment_and_stays_charged(
    slow: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, real = threading.Event(), loop._measure

    def measure(*arguments: Any) -> Any:
        assert done.wait(20)
        return real(*arguments)

    monkeypatch.setattr(loop, "_measure", measure)
    sql = f"{SQL} HAVING SUM(minutes) > 0"
    with slow.client("carl") as carl:
        reply = carl.post("/v1/query", json={"sql": sql})  # it comes back while the work goes on
        assert not done.is_set() and reply.status_code == 503 and reply.json()["code"] == "engine"
        done.set()
        time.sleep(0.2)
        (line,) = carl.get("/v1/history").json()["history"]
        assert line["state"] == "reserved", "what came too late is never recorded"
        assert carl.post("/v1/explain", json={"sql": sql}).json()["stored"] is False


def test_how_many_stages_of_a_late_query_were_done_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that finds a range first has two stages, and two spends in the history."""
    policy = make_policy(tmp_path)
    policy.write_text(policy.read_text().replace("minutes = { min = 0, max = 60 }", 'minutes = { bounds = "auto" }'))
    found = Server(policy, reply_after=Duration(Fraction(1), "1s"), held=True)
    stages, done, real = iter(range(9)), threading.Event(), loop._measure

    def measure(*arguments: Any) -> Any:
        assert next(stages) == 0 or done.wait(20)
        return real(*arguments)

    monkeypatch.setattr(loop, "_measure", measure)
    try:
        with found.client("ann") as ann:
            reply = ann.post("/v1/query", json={"sql": SQL})
            assert reply.status_code == 503 and reply.json()["code"] == "engine"
            lines = ann.get("/v1/history").json()["history"]
            assert [line["state"] for line in lines] == ["reserved", "reserved"]
    finally:
        done.set()
        found.close()


def test_what_costs_nothing_waits_for_no_moment(slow: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with slow.client("ann") as ann:
        ann.post("/v1/query", json={"sql": SQL})
        monkeypatch.delattr(ReleaseTime, "held")
        stored = ann.post("/v1/query", json={"sql": SQL}).json()
        refused = ann.post("/v1/query", json={"sql": "SELECT nothing FROM visits"})
        shown = ann.post("/v1/query", json={"sql": "SHOW TABLES"})
        assert stored["cost"]["epsilon"] == 0 and refused.status_code == 422 and shown.status_code == 200


def test_a_key_that_comes_again_waits_for_the_same_moment_in_a_slot_of_its_own(slow: Server) -> None:
    ask, key = {"sql": f"{SQL} HAVING SUM(minutes) > 1", "epsilon": 0.1, "fresh": True}, {"Idempotency-Key": "held"}
    with slow.client("bob") as bob, ThreadPoolExecutor(6) as pool:
        asks = [pool.submit(bob.post, "/v1/query", json=ask, headers=key) for _ in range(6)]
        replies = [one.result() for one in asks]
        answered = [reply.json() for reply in replies if reply.status_code == 200]
        assert answered and all(one == answered[0] for one in answered)
        assert {reply.status_code for reply in replies} <= {200, 429}  # so many may wait, and no more
        paid = [line for line in bob.get("/v1/history").json()["history"] if line["cost"]["epsilon"] == 0.1]
        assert len(paid) == 1
