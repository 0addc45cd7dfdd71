"""Who asks: tokens, cookies, an issuer's tokens; and what a browser of somebody else's page can't do."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from servers import Server

import dpsql
from dpsql.server.login import Issuer, Logins
from dpsql.server.settings import Oidc, read_settings
from dpsql.server.tokens import Tokens, Who

COUNT = "SELECT COUNT(*) AS n FROM visits"


def test_only_the_hash_of_a_token_is_kept_and_what_is_revoked_or_expired_is_worth_nothing(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    secret, made = tokens.add("ann", "steward")
    late, _ = tokens.add("bob", expires=timedelta(seconds=-1))
    assert tokens.who(secret) == Who("ann", "steward") and len(secret) >= 43
    kept = tokens.path.read_text()
    assert secret not in kept and secret.removeprefix("dpsql_") not in kept and tokens.path.stat().st_mode & 0o077 == 0
    other = Tokens(tokens.path)  # as a running server, which has read the file before
    assert other.who(secret).name == "ann"
    assert tokens.revoke(made.id) == [made]
    for token in (secret, late, "", "dpsql_" + "A" * 43, "\udcff"):
        with pytest.raises(dpsql.ServerError) as refused:
            other.who(token)
        assert refused.value.code == "unauthorized"


def test_a_link_logs_in_once_and_a_cookie_is_worth_what_its_token_is_worth(server: Server) -> None:
    secret = server.http.logins.link(Who("steve", "steward"))
    with server.client(None) as browser:
        reply = browser.post("/v1/login", json={"token": secret})
        cookie = reply.headers["set-cookie"].lower()
        assert reply.json() == {"name": "steve", "role": "steward"}
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert browser.get("/v1/me").json()["role"] == "steward"
        assert browser.post("/v1/login", json={"token": secret}).status_code == 401
        browser.post("/v1/logout")
        assert browser.get("/v1/me").status_code == 401
    token, made = server.http.tokens.add("dora")
    with server.client(None) as browser:
        assert browser.post("/v1/login", json={"token": token}).status_code == 200
        assert browser.get("/v1/me").json()["name"] == "dora"
        server.http.tokens.revoke(made.id)
        assert browser.get("/v1/me").status_code == 401


def test_a_page_of_another_site_can_do_nothing(server: Server) -> None:
    with server.client("ann") as client:
        ask = {"sql": COUNT}
        assert client.post("/v1/query", json=ask, headers={"Origin": "https://evil.example"}).status_code == 403
        assert client.post("/v1/query", json=ask, headers={"Origin": "null"}).status_code == 403
        assert client.post("/v1/explain", json=ask, headers={"Origin": server.url}).status_code == 200
        assert client.get("/v1/me", headers={"Host": "evil.example"}).status_code == 403
        form = {"Content-Type": "text/plain"}  # what a form can send without being asked for permission
        assert client.post("/v1/query", content=json.dumps(ask), headers=form).status_code == 422
        assert "access-control-allow-origin" not in client.get("/v1/me").headers


def test_every_reply_tells_browsers_what_they_may_load(server: Server) -> None:
    with server.client(None) as client:
        for path in ("/", "/v1/me", "/nothing", "/healthz"):
            headers = client.get(path).headers
            assert "script-src 'self';" in headers["content-security-policy"]
            assert "style-src 'self' 'unsafe-inline'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


def test_what_is_the_stewards_is_nobody_elses(server: Server) -> None:
    with server.client("ann") as ann, server.client("steve") as steve:
        for path in ("spending", "policy"):
            assert ann.get(f"/v1/{path}").status_code == 403 and steve.get(f"/v1/{path}").status_code == 200
        assert "[tables.visits]" in steve.get("/v1/policy").json()["policy"]


def test_nobody_logs_others_out_by_logging_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins(Tokens(tmp_path / "tokens.json"))
    monkeypatch.setattr(Logins, "MOST", 3)
    cookie, ann = logins.let_in(Who("ann", "analyst"), None)
    others = [logins.let_in(Who("bob", "analyst"), None)[0] for _ in range(4)]
    assert logins.who(cookie) == ann and logins.who(others[-1]).name == "bob"
    with pytest.raises(dpsql.ServerError):
        logins.who(others[0])


KEY, OTHER = ECKey.generate_key("P-256", {"kid": "1"}), ECKey.generate_key("P-256", {"kid": "1"})
CLAIMS: dict[str, Any] = {"iss": "https://id.example", "aud": "dpsql", "sub": "ann"}


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    keys = str(tmp_path / "jwks.json")
    return Issuer(Oidc("https://id.example", "dpsql", keys, ("ES256",), stewards=("steve",)))


def signed(key: Any, algorithm: str = "ES256", **claims: Any) -> str:
    lasting = {"exp": int(time.time()) + 600}
    return jwt.encode({"alg": algorithm, "kid": "1"}, {**CLAIMS, **lasting, **claims}, key, algorithms=[algorithm])


def test_an_issuers_token_names_the_analyst(issuer: Issuer) -> None:
    assert issuer.who(signed(KEY)) == Who("ann", "analyst")
    assert issuer.who(signed(KEY, sub="steve")) == Who("steve", "steward")


def test_no_other_token_is_believed(issuer: Issuer) -> None:
    public = json.dumps(KEY.as_dict(private=False))
    unsigned = ".".join([*signed(KEY).split(".")[:2], ""])
    bad = [
        signed(OTHER),
        signed(KEY, iss="https://evil.example"),
        signed(KEY, aud="another"),
        signed(KEY, exp=int(time.time()) - 3600),
        signed(KEY, exp=None),
        signed(KEY, sub="*"),
        signed(KEY, sub=["ann"]),
        signed(KEY, sub=None),  # nobody would be whoever asks without a name
        signed(KEY, sub=" steve "),  # a steward
        signed(OctKey.import_key(public), "HS256"),  # the public key as a shared secret
        unsigned,
        "a.b.c",
        "",
    ]
    for token in bad:
        with pytest.raises(dpsql.ServerError) as refused:
            issuer.who(token)
        assert refused.value.code == "unauthorized"


def test_an_issuer_that_does_not_answer_is_not_asked_again_by_every_request(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def loaded() -> Any:
        asked.append(1)
        raise dpsql.PolicyError("oidc.keys can't be read", code="oidc-keys", hint="…")

    monkeypatch.setattr(issuer, "_loaded", loaded)
    for _ in range(5):
        with pytest.raises(dpsql.ServerError) as refused:
            issuer.who(signed(KEY))
        assert refused.value.code == "unauthorized"
    assert len(asked) == 1


def test_tokens_never_travel_in_the_clear_to_other_machines(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    assert read_settings(None, policy, {}).is_local
    with pytest.raises(dpsql.PolicyError) as refused:
        read_settings(None, policy, {"DPSQL_SERVER_HOST": "0.0.0.0"})
    assert refused.value.code == "server-tls"
    assert read_settings(
        None, policy, {"DPSQL_SERVER_HOST": "0.0.0.0", "DPSQL_SERVER_BEHIND_PROXY": "true"}
    ).behind_proxy
    (tmp_path / "server.toml").write_text('[server]\nreply_after = "5s"\nshare = "all"\n[oidc]\nissuer = "i"\n')
    with pytest.raises(dpsql.PolicyError, match=r"oidc\.audience"):
        read_settings(tmp_path / "server.toml", policy, {})
    (tmp_path / "server.toml").write_text('[server]\nreply_after = "5s"\nshare = "all"\nport = 1\n')
    found = read_settings(tmp_path / "server.toml", policy, {"DPSQL_SERVER_PORT": "2"}, {"port": "3"})
    assert (found.seconds, found.share, found.port) == (5.0, "all", 3)
