"""The steward's commands around a server: tokens, and how long replies should be held."""

from __future__ import annotations

import json
import re
from pathlib import Path

from click.testing import CliRunner
from servers import make_policy

from dpsql.cli.main import cli
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


def test_where_a_server_is_set_up_the_check_suggests_when_to_reply(tmp_path: Path) -> None:
    policy = make_policy(tmp_path)
    assert "reply_after" not in run(policy, "check", "--steward")[2]
    (tmp_path / "server.toml").write_text('[server]\nreply_after = "2s"\n')
    code, _, said = run(policy, "check", "--steward")
    found = re.search(r'slowest of 3 queries took .* reply_after = "(\d+)s"', said)
    assert code == 0 and found is not None and int(found[1]) >= 2
    spent = json.loads(run(policy, "budget", "--json")[1])["spent"]["epsilon"]
    assert spent == 0  # it asks under an account in memory
