"""The HTTP API: what each address answers, and to whom."""

from __future__ import annotations

import httpx
import pytest
from servers import Server

COUNT = "SELECT city, COUNT(*) AS n FROM visits WHERE minutes < 50 GROUP BY city"


def test_a_query_is_answered_as_the_command_line_answers_it(ann: httpx.Client) -> None:
    reply = ann.post("/v1/query", json={"sql": COUNT, "epsilon": 0.25})
    assert reply.status_code == 200
    told = reply.json()
    assert told["columns"] == ["city", "n"] and len(told["rows"]) == 4
    assert told["cost"]["epsilon"] == 0.25 and told["receipt"]["id"]


@pytest.mark.parametrize(
    ("path", "format", "sql"),
    [("query", "exe", COUNT), ("batch", "exe", COUNT), ("batch", "parquet", f"{COUNT}; {COUNT} HAVING COUNT(*) > 1")],
)
def test_a_format_that_there_is_not_is_refused_before_payment(
    ann: httpx.Client, path: str, format: str, sql: str
) -> None:
    before = ann.get("/v1/budget").json()["spent"]
    reply = ann.post(f"/v1/{path}?format={format}", json={"sql": sql, "epsilon": 0.125, "fresh": True})
    assert reply.status_code == 422 and reply.json()["code"] == "bad-request"
    assert ann.get("/v1/budget").json()["spent"] == before


def test_an_explanation_says_price_and_what_would_be_left(ann: httpx.Client) -> None:
    told = ann.post("/v1/explain", json={"sql": COUNT, "epsilon": 2}).json()
    assert told["price"]["epsilon"] == 2
    assert told["left"]["epsilon"] - told["left_after"]["epsilon"] == pytest.approx(2)
    assert told["stored"] is False


@pytest.mark.parametrize("path", ["schema", "functions", "budget", "history", "me"])
def test_what_there_is_can_be_asked(ann: httpx.Client, path: str) -> None:
    reply = ann.get(f"/v1/{path}")
    assert reply.status_code == 200 and reply.json()


def test_nobody_is_answered_without_a_token(server: Server) -> None:
    with server.client(None) as client:
        for path in ("schema", "budget", "history", "me", "policy", "answers/0123456789abcdef"):
            reply = client.get(f"/v1/{path}")
            assert reply.status_code == 401 and reply.json()["code"] == "unauthorized"
        for path in ("query", "batch", "explain", "prices"):
            assert client.post(f"/v1/{path}", json={"sql": COUNT}).status_code == 401
