"""The steward's commands around a server: tokens, and how long replies should be held."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner
from servers import make_policy

from dpsql.cli.main import cli
from dpsql.server import page
from dpsql.server.tokens import Tokens


def run(policy: Path, *arguments: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(cli, [*arguments, "--policy", str(policy)])
    return found.exit_code, found.stdout, found.stderr


def test_a_token_is_made_listed_and_revoked(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    code, secret, said = run(policy, "token", "add", "ann", "--role", "steward", "--expires", "90d")
    assert code == 0 and "shown this once" in said
    tokens = Tokens(tmp_path / "policy.tokens.json")
    assert tokens.who(secret.strip()).role == "steward"
    _, listed, _ = run(policy, "token", "list", "--json")
    (line,) = json.loads(listed)
    assert line["name"] == "ann" and line["expires"] and secret.strip() not in listed and "digest" not in line
    assert run(policy, "token", "revoke", "ann")[0] == 0 and tokens.all() == []
    wrong = (("revoke", "ann"), ("add",), ("list", "ann"), ("add", "*"), ("add", "bob", "--expires", "soon"))
    for arguments in wrong:
        assert run(policy, "token", *arguments)[0] in (2, 3)


@pytest.mark.parametrize(
    ("setting", "written"),
    [
        ("server.port", "[server]\nport = {taken}"),
        ("server.metrics_port", "[server]\nport = 0\nmetrics_port = {taken}"),
        ("postgres.port", "[server]\nport = 0\n[postgres]\nport = {taken}"),
    ],
)
def test_a_port_that_is_taken_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, written: str
) -> None:
    monkeypatch.setattr(page, "ensure_built", lambda _: None)
    policy = make_policy(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        (tmp_path / "server.toml").write_text(written.format(taken=taken))
        code, _, said = run(policy, "serve", "--no-open")
    assert code == 5 and f"{setting}: the server can't listen on 127.0.0.1, port {taken}" in said
    assert "Errno" not in said and "Traceback" not in said and "name another port" in said


def test_where_a_server_is_set_up_the_check_suggests_when_to_reply(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    assert "reply_after" not in run(policy, "check", "--steward")[2]
    (tmp_path / "server.toml").write_text('[server]\nreply_after = "2s"\n')
    code, _, said = run(policy, "check", "--steward")
    found = re.search(r'slowest of 3 queries took .* reply_after = "(\d+)s"', said)
    assert code == 0 and found is not None and int(found[1]) >= 2
    spent = json.loads(run(policy, "budget", "--json")[1])["spent"]["epsilon"]
    assert spent == 0  # it asks under an account in memory
