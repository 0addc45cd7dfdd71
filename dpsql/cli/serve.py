"""dpsql serve: a team can ask, and nobody needs the files."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from dpsql.cli.options import policy_option
from dpsql.cli.progress import progress


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
