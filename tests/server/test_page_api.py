"""What the API has for the page alone: errors inside of replies, receipts as files, what a query usually spends."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from servers import Server

import dpsql
from dpsql.server.options import document

COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"


def test_errors_come_inside_of_a_reply_where_that_is_asked_for(server: Server, ann: httpx.Client) -> None:
    wrong = {"sql": "SELECT SUM(person) AS n FROM visits"}
    plain, inside = (ann.post(f"/v1/explain{query}", json=wrong) for query in ("", "?errors=inside"))
    assert (plain.status_code, inside.status_code) == (422, 200)
    assert inside.json() == {"error": {**plain.json(), "status": 422}}
    with server.client(None) as nobody:
        assert nobody.get("/v1/me?errors=inside").json()["error"]["status"] == 401
    for methods in document()["paths"].values():
        for operation in methods.values():
            assert any(one["name"] == "errors" for one in operation["parameters"])


def test_an_explanation_says_how_far_off_each_column_will_be(ann: httpx.Client) -> None:
    told = ann.post("/v1/explain", json={"sql": COUNT, "epsilon": 1}).json()
    (one,) = told["expected"]
    assert one["name"] == "n" and one["error"] == pytest.approx(float(one["text"]), rel=0.01)


def test_the_page_is_told_what_a_query_usually_spends(ann: httpx.Client) -> None:
    told = ann.get("/v1/me").json()
    assert (told["query_epsilon"], told["max_query_epsilon"]) == (0.5, None)


def test_a_receipt_is_signed_for_the_csv_file_with_the_same_answer(
    server: Server, ann: httpx.Client, tmp_path: Path
) -> None:
    id = ann.post("/v1/query", json={"sql": COUNT, "epsilon": 0.125}).json()["receipt"]["id"]
    for format_ in ("csv", "receipt"):
        reply = ann.get(f"/v1/answers/{id}?format={format_}")
        name = reply.headers["content-disposition"].partition('filename="')[2].rstrip('"')
        (tmp_path / name).write_bytes(reply.content)
    (csv,) = tmp_path.glob("*.csv")
    assert dpsql.verify(csv, key=server.engine.signer.public).statement
    csv.write_bytes(csv.read_bytes() + b"Rome,1\n")
    with pytest.raises(dpsql.DataError, match="changed"):
        dpsql.verify(csv, key=server.engine.signer.public)
