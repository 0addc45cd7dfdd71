"""dpsql serve: a team can ask, and nobody needs the files. dpsql token: who may ask."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.cli.options import policy_option
from dpsql.cli.output import progress

if TYPE_CHECKING:
    from dpsql.server.tokens import Role, Tokens


@click.command()
@click.option(
    "--config", metavar="FILE", help="The server's settings (default: server.toml beside the policy, if any)."
)
@click.option(
    "--host", metavar="ADDRESS", help="Where it listens (default: 127.0.0.1, which only this machine reaches)."
)
@click.option("--port", metavar="N", help="The port (default: 8642; 0: any that is free).")
@click.option("--open/--no-open", "browser", default=None, help="Open the page in a browser (default: on a terminal).")
@policy_option
def serve(policy: str, config: str | None, host: str | None, port: str | None, browser: bool | None) -> None:
    """Serve a policy: a web page and an HTTP API for people who must not see the data.

    On a loopback address it prints a link that logs in once. Others are let in by tokens: `dpsql token add NAME`.
    """
    from dpsql.core.extras import extra

    for module in ("uvicorn", "starlette", "joserfc", "httpx"):
        extra(module, "server", "dpsql serve")
    from dpsql.server.page import ensure_built
    from dpsql.server.serve import serve as run
    from dpsql.server.settings import read_settings
    from dpsql.server.tokens import Who
    from dpsql.session import Engine

    beside = Path(policy).absolute().parent / "server.toml"
    file = Path(config) if config is not None else beside if beside.exists() else None
    settings = read_settings(file, Path(policy), os.environ, {"host": host, "port": port})

    def ready(address: str, secret: str | None, postgres: int | None) -> None:
        click.echo(f"dpsql serves {policy} at {address}", err=True)
        link = f"{address}/#login={secret}"
        if secret is not None:
            click.echo(f"log in once as {who.name}, a steward: {link}", err=True)
        if postgres is not None:
            click.echo(f"Postgres clients: psql -h {settings.host} -p {postgres} -U NAME dpsql", err=True)
        if secret is not None and (browser or (browser is None and os.isatty(2) and os.environ.get("DISPLAY"))):
            click.launch(link)

    say = partial(click.echo, err=True)
    if (trouble := ensure_built(say)) is not None:
        say(trouble)
    who = Who(_user(), "steward")
    with progress(quiet=False):
        engine = Engine.open(policy)
    run(
        engine,
        settings,
        ready=ready,
        link=who if settings.is_local and not settings.behind_proxy else None,
    )


def _user() -> str:
    """The name of whoever started it: he can read the files anyway."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return "steward"


@click.command()
@click.argument("act", type=click.Choice(("add", "list", "revoke")))
@click.argument("name", required=False)
@click.option("--role", type=click.Choice(("analyst", "steward")), help="add: what he may see (default: analyst).")
@click.option("--expires", metavar="TIME", help="add: after this time it is worth nothing: 90d, 12h.")
@click.option("--json", "as_json", is_flag=True, help="list: as JSON.")
@policy_option
def token(act: str, name: str | None, role: Role | None, expires: str | None, as_json: bool, policy: str) -> None:
    """Say who may ask a server.

    dpsql token add NAME: make a token and print it, once; only its hash is kept.

    dpsql token list: ids, names and roles, never the secrets.

    dpsql token revoke NAME: or an id; a running server knows at its next request.
    """
    if (name is None) != (act == "list"):
        raise click.UsageError(f"dpsql token {act} {'takes no name' if act == 'list' else 'NAME: name somebody'}")
    if act != "add" and (role or expires):
        raise click.UsageError("--role and --expires go with add")
    if act != "list" and as_json:
        raise click.UsageError("--json goes with list")
    tokens = _tokens(policy)
    if name is None:
        _list(tokens, as_json)
    elif act == "add":
        _add(tokens, name, role or "analyst", None if expires is None else _span(expires))
    else:
        _revoke(tokens, name)


def _add(tokens: Tokens, name: str, role: Role, expires: timedelta | None) -> None:
    secret, made = tokens.add(name, role, expires)
    click.echo(secret)
    until = f"until {made.expires[:10]}" if made.expires else "until it is revoked"
    click.echo(f"token {made.id} of {made.name}, {made.role}, {until}. It is shown this once", err=True)


def _list(tokens: Tokens, as_json: bool) -> None:
    found = tokens.all()
    if as_json:
        kept = ("id", "name", "role", "made", "expires")
        click.echo(json.dumps([{key: getattr(one, key) for key in kept} for one in found], indent=2))
        return
    for one in found:
        click.echo(f"{one.id}  {one.role:<7}  {one.made[:10]}  {(one.expires or 'never')[:10]:<10}  {one.name}")
    click.echo(f"{len(found)} token{'' if len(found) == 1 else 's'}: id, role, made, expires, name", err=True)


def _revoke(tokens: Tokens, name: str) -> None:
    gone = tokens.revoke(name)
    if not gone:
        raise click.UsageError(f"there is no token {name}")
    click.echo(f"revoked {', '.join(f'{one.id} of {one.name}' for one in gone)}", err=True)


def _tokens(policy: str) -> Tokens:
    from dpsql.server.settings import read_settings
    from dpsql.server.tokens import Tokens

    beside = Path(policy).absolute().parent / "server.toml"
    return Tokens(read_settings(beside if beside.exists() else None, Path(policy), os.environ).tokens)


def _span(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,5})([mhd])", text)
    if found is None or not int(found[1]):
        raise click.UsageError(f"--expires {text}: write a time like 90d, 12h or 30m")
    return timedelta(**{{"m": "minutes", "h": "hours", "d": "days"}[found[2]]: int(found[1])})
