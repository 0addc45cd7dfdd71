"""What analysts see of each other: nothing, where only one's own releases answer; and no id, name or time elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Server, make_policy

import dpsql

COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose analysts share their releases."""
    found = Server(make_policy(tmp_path_factory.mktemp("shared")), share="all")
    yield found
    found.close()


def test_only_ones_own_releases_are_free_again(server: Server) -> None:
    sql = f"{COUNT} HAVING COUNT(*) > 3"
    with server.client("ann") as ann, server.client("bob") as bob:
        first = ann.post("/v1/query", json={"sql": sql}).json()
        assert first["cost"]["epsilon"] == 0.5
        assert ann.post("/v1/query", json={"sql": sql}).json()["cost"]["epsilon"] == 0
        assert ann.post("/v1/explain", json={"sql": sql}).json()["stored"] is True
        assert bob.post("/v1/explain", json={"sql": sql}).json()["stored"] is False
        assert bob.post("/v1/query", json={"sql": sql}).json()["cost"]["epsilon"] == 0.5


def test_nobody_gets_anothers_answer_or_learns_that_there_is_one(server: Server) -> None:
    with server.client("ann") as ann, server.client("bob") as bob, server.client("steve") as steve:
        id = ann.post("/v1/query", json={"sql": COUNT, "epsilon": 0.31}).json()["receipt"]["id"]
        assert ann.get(f"/v1/answers/{id}").json()["receipt"]["id"] == id
        assert steve.get(f"/v1/answers/{id}").json()["receipt"]["id"] == id
        his, none = bob.get(f"/v1/answers/{id}"), bob.get(f"/v1/answers/{'0' * 32}")
        assert his.status_code == none.status_code == 404 and his.json() == none.json()
        assert ann.get(f"/v1/answers/{id[:8]}").status_code == 404  # the whole id, also of one's own
        assert id not in bob.get("/v1/history").text and id in steve.get("/v1/history").text
        assert all("analyst" not in line for line in ann.get("/v1/history").json()["history"])


def test_what_is_shared_comes_without_its_owners_id_or_time(shared: Server) -> None:
    with shared.client("ann") as ann, shared.client("bob") as bob:
        paid = ann.post("/v1/query", json={"sql": COUNT}).json()
        free = bob.post("/v1/query", json={"sql": COUNT})
        told = free.json()
        assert told["cost"]["epsilon"] == 0 and told["rows"] == paid["rows"]
        assert paid["receipt"]["id"] not in free.text and paid["receipt"]["time"] not in free.text
        assert "ann" not in free.text and told["receipt"]["time"] == ""
        assert bob.get(f"/v1/answers/{told['receipt']['id']}").status_code == 404
        assert bob.get("/v1/history").json()["history"] == []
        again = bob.post("/v1/query", json={"sql": COUNT}, headers={"Accept": "application/vnd.apache.parquet"})
        assert paid["receipt"]["id"].encode() not in again.content


def test_in_the_library_a_name_gets_its_own_answers_by_the_whole_id(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    with dpsql.connect(policy, analyst="ann") as ann:
        id = ann.query(COUNT, epsilon=1).receipt.id
        assert ann.replay(id).receipt.id == id
        with pytest.raises(dpsql.LedgerError) as part:
            ann.replay(id[:4])
    with dpsql.connect(policy, analyst="bob") as bob, pytest.raises(dpsql.LedgerError) as other:
        bob.replay(id)
    assert part.value.code == other.value.code == "receipt-unknown" and id not in str(other.value)
    with dpsql.connect(policy) as whoever_reads_the_files:
        assert whoever_reads_the_files.replay(id[:8]).receipt.id == id


def test_a_name_that_a_client_sends_is_an_error(server: Server) -> None:
    with server.client("ann") as ann:
        for name in ("analyst", "name", "user"):
            reply = ann.post("/v1/query", json={"sql": COUNT, name: "bob"})
            assert reply.status_code == 422 and reply.json()["code"] == "bad-request"
