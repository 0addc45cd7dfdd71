"""One corpus of queries, asked in every way: the same answers, prices, refusals and places in the text."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from click.testing import CliRunner
from servers import Server

import dpsql
from dpsql.cli.main import cli
from dpsql.server.core import Who

ANSWERED: list[tuple[str, dict[str, Any]]] = [
    ("SELECT city, COUNT(*) AS n FROM visits WHERE minutes < 40 GROUP BY city ORDER BY n DESC", {"epsilon": 0.5}),
    ("SELECT AVG(minutes) AS mean, SUM(minutes) / 60 AS hours FROM visits", {"epsilon": "0.25"}),
    ("SELECT COUNT(DISTINCT person) AS people FROM visits WHERE city = $city", {"params": {"city": "Bern"}}),
    ("SELECT city, AVG(minutes) AS m FROM visits WHERE minutes >= ? GROUP BY ALL", {"params": [5], "max_rows": 3}),
    ("SELECT MEDIAN(minutes) AS half FROM visits", {"epsilon": 1, "mechanism": "laplace"}),
    ("DESCRIBE visits", {}),
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("SELECT nothing FROM visits", {}),
    ("SELECT\n  city,\n  SUM(persn) FROM visits GROUP BY city", {}),
    ("SELECT person, COUNT(*) FROM visits GROUP BY person LIMIT 3", {"epsilon": 0.5, "delta": 0}),
    ("SELECT * FROM visits", {}),
    ("SELECT COUNT(*) FROM visits; SELECT 1", {}),
    ("SELEC 1", {}),
    ("SELECT COUNT(*) FROM visits", {"epsilon": 10_000}),
    ("SELECT COUNT(*) FROM visits", {"epsilon": "-1"}),
    ("SELECT COUNT(*) FROM visits WHERE minutes > $x", {"params": {"x": date(2024, 1, 31)}}),
]


def shown(answer: dpsql.Answer) -> Any:
    """What must be the same in every way: names, types, rows, intervals and the receipt."""
    return (
        answer.columns,
        answer.table.schema.types,
        answer.rows,
        answer.intervals(),
        answer.receipt.id,
        answer.cut_notes,
        sorted(answer.notes),
    )


def told(error: dpsql.Error) -> Any:
    span = error.span
    return (
        type(error),
        error.code,
        error.message,
        error.hint,
        span and (span.line, span.column, span.length),
        str(error),
    )


@pytest.mark.parametrize("sql, options", ANSWERED)
@pytest.mark.sample(2)
def test_every_way_has_the_same_answer_and_the_same_price(
    server: Server, sql: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    who = Who("ann", "analyst")
    with server.engine.session("ann", share="own") as local:
        price = None if sql.startswith("DESCRIBE") else local.explain(sql, **options).price
        first = server.core.query(who, sql, options)  # stored, and free from here on
        assert price is None or first.cost == price
        expected = shown(local.query(sql, **options))
    with dpsql.connect(server.url, token=server.tokens["ann"]) as remote, server.client("ann") as http:
        far = remote.query(sql, **options)
        assert shown(far) == expected and far.cost.epsilon == 0
        if price is not None:
            assert remote.explain(sql, **options).price.epsilon == price.epsilon
            assert remote.replay(first.receipt.id).rows == first.rows
        reply = http.post("/v1/query", json={"sql": sql, **options}).json()
        assert reply["columns"] == first.columns and reply["receipt"]["id"] == first.receipt.id
    monkeypatch.setenv("DPSQL_TOKEN", server.tokens["ann"])
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if name != "params"]
    given = options.get("params", {})
    named = given if isinstance(given, dict) else {str(i): v for i, v in enumerate(given, 1)}
    arguments += [f"--param={name}={value}" for name, value in named.items()]
    command = CliRunner().invoke(cli, ["query", sql, "--server", server.url, "--format", "json", *arguments])
    assert command.exit_code == 0, command.output
    assert json.loads(command.stdout)["rows"] == reply["rows"]


@pytest.mark.parametrize("sql, options", REFUSED)
def test_every_way_refuses_the_same_with_the_same_place(
    server: Server, sql: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.engine.session("bob", share="own") as local, pytest.raises(dpsql.Error) as first:
        local.query(sql, **options)
    with dpsql.connect(server.url, token=server.tokens["bob"]) as remote, pytest.raises(dpsql.Error) as far:
        remote.query(sql, **options)
    assert told(far.value) == told(first.value)
    if "params" in options:
        return
    monkeypatch.setenv("DPSQL_TOKEN", server.tokens["bob"])
    arguments = [f"--{name}={value}" for name, value in options.items()]
    command = CliRunner().invoke(cli, ["query", sql, "--server", server.url, "--format", "json", *arguments])
    assert command.exit_code == first.value.exit_code
    assert json.loads(command.stderr)["message"] == first.value.message


def test_a_session_far_away_has_the_methods_of_one_on_files(server: Server) -> None:
    with dpsql.connect(server.url, token=server.tokens["ann"]) as remote:
        before = remote.budget
        answers = remote.batch("SELECT COUNT(*) AS a FROM visits; SELECT SUM(minutes) AS b FROM visits", epsilon=0.3)
        assert [a.columns for a in answers] == [["a"], ["b"]]
        assert before.remaining.epsilon - remote.budget.remaining.epsilon == pytest.approx(0.3)
        assert [len(one.rows) for one in remote.replays(answers[0].receipt.id)] == [1, 1]
        assert remote.knows(answers[0].receipt.id) and remote.can_pay(remote.budget.remaining)
        assert remote.free("SELECT COUNT(*) AS a FROM visits") is not None
        assert remote.free("SELECT COUNT(*) AS a FROM visits WHERE minutes = 7") is None
        lines: Any = remote.prices("SELECT COUNT(*) FROM visits")
        assert [line["epsilon"] for line in lines][:2] == [0.01, 0.03]
        with pytest.raises(dpsql.ServerError, match="not for sessions on a server"):
            remote.policy  # noqa: B018
    with pytest.raises(dpsql.LedgerError, match="closed"):
        remote.query("SELECT 1")
    with dpsql.connect(server.url, token="wrong") as stranger, pytest.raises(dpsql.ServerError) as refused:
        stranger.query("SELECT COUNT(*) FROM visits")
    assert refused.value.code == "unauthorized"
    for wrong in ({"token": None}, {"token": "x", "analyst": "bob"}):
        with pytest.raises(dpsql.ServerError):
            dpsql.connect(server.url, **wrong)


def test_a_key_gets_what_its_first_request_got(server: Server) -> None:
    sql = "SELECT city, COUNT(*) AS n FROM visits WHERE minutes > 11 GROUP BY city"
    with server.client("ann") as ann, server.client("bob") as bob:
        key = {"Idempotency-Key": "abc"}
        first = ann.post("/v1/query", json={"sql": sql, "fresh": True}, headers=key).json()
        again = ann.post("/v1/query", json={"sql": sql, "fresh": True}, headers=key).json()
        assert first == again and first["cost"]["epsilon"] == 0.5
        other = ann.post("/v1/query", json={"sql": sql}, headers=key)
        assert other.status_code == 422 and other.json()["code"] == "bad-request"
        assert bob.post("/v1/query", json={"sql": sql, "fresh": True}, headers=key).json() != first
        refused = [ann.post("/v1/query", json={"sql": "SELECT x"}, headers={"Idempotency-Key": "r"}) for _ in "ab"]
        assert refused[0].json() == refused[1].json() and refused[0].status_code == 422
