"""`dpsql.connect`: a session on files, or on a server; sessions on servers, and how answers travel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsql.core.errors import ServerError
from dpsql.policy.model import Policy
from dpsql.session import Session


def connect(
    policy: str | Path | Policy = "policy.toml",
    *,
    sources: Mapping[str, Any] | None = None,
    ledger: str | Path | None = None,
    analyst: str | None = None,
    strict_engine: bool = False,
    token: str | None = None,
) -> Session:
    """Open a policy: a path, or a Policy with the tables that it names passed as `sources`; or a server's address.

    strict_engine: refuse a DuckDB that dpsql was not tested with, whatever the policy says.
    token: for a server ("https://…"), which knows by it who asks; the other arguments are for policies.
    """
    if isinstance(policy, str) and policy.startswith(("https://", "http://")):
        from dpsql.remote.session import RemoteSession

        if sources is not None or ledger is not None or analyst is not None or strict_engine:
            raise ServerError(
                "a server has sources and a ledger of its own, and knows who asks by the token",
                code="not-remote",
                hint='dpsql.connect("https://…", token="…") takes nothing else',
            )
        return RemoteSession(policy, token)
    if token is not None:
        raise ServerError("a token is for a server", code="not-remote", hint='dpsql.connect("https://…", token="…")')
    from dpsql.session import connect as connect_to_files  # found at each call: a test may replace it

    return connect_to_files(policy, sources=sources, ledger=ledger, analyst=analyst, strict_engine=strict_engine)
