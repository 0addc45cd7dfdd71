"""dpsql run: the releases that a file writes down, each paid for once."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import click
from click.core import ParameterSource

from dpsql.cli.options import Params, analyst_option, by_environment, given_texts, opened, policy_option, strict_option

BUDGET = 4


@click.command()
@click.argument("job", metavar="JOB")
@click.option(
    "--param",
    "params",
    multiple=True,
    type=Params(),
    metavar="NAME=VALUE",
    help="A value for a parameter of the job, of its declared type.",
    **by_environment("param"),
)
@click.option(
    "--folder", metavar="FOLDER", help="Where outputs go (default: the job's folder).", **by_environment("folder")
)
@click.option("--dry-run", is_flag=True, help="Say what it would cost; spends nothing.", **by_environment("dry_run"))
@click.option(
    "--again",
    is_flag=True,
    help="Ask once more what is finished: free for the same data, paid for another version.",
    **by_environment("again"),
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each event.", **by_environment("json"))
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Say nothing unless it fails, or its next runs can't be paid.",
    **by_environment("quiet"),
)
@analyst_option
@strict_option
@policy_option
@click.pass_context
def run(
    ctx: click.Context,
    job: str,
    params: tuple[str, ...],
    folder: str | None,
    dry_run: bool,
    again: bool,
    as_json: bool,
    quiet: bool,
    analyst: str | None,
    strict: bool,
    policy: str,
) -> None:
    """Run a job: release.toml, or a folder of .sql files.

    A job has queries, what they may spend, parameters, and the files that the answers become, each with its signed
    receipt. What an earlier run finished costs nothing and gets the same bytes; a run that was cut off is finished by
    the next one. Everything that can be refused is refused before anything is paid. What is spent stands in the job.
    """
    if as_json:
        from dpsql.cli.main import as_json_from_now_on

        as_json_from_now_on(ctx)
    given = given_texts(params)
    from dpsql.jobs import read_job
    from dpsql.jobs import run as perform

    found = read_job(job)
    default = ctx.get_parameter_source("policy") is ParameterSource.DEFAULT
    chosen = str(found.policy) if default and found.policy is not None else policy
    opening = partial(opened, chosen, analyst or found.analyst, strict=strict, quiet=quiet)
    with _told(as_json=as_json, quiet=quiet):
        report = perform(
            found, params=given, policy=chosen, folder=folder, opening=opening, dry_run=dry_run, again=again
        )
    if as_json and not quiet:
        click.echo(json.dumps({"event": "priced" if dry_run else "done", **report.as_dict()}, ensure_ascii=False))
    elif not quiet:
        shown = str(report).splitlines()
        last = len(shown) - 1 - bool(report.warning)
        click.echo("\n".join(shown[: last + 1] if dry_run else shown[last : last + 1]))
    if report.warning:
        click.echo(f"warning: {report.warning}", err=True)
    if dry_run and not report.fits:
        ctx.exit(BUDGET)


class _Lines(logging.Handler):
    """Prints what a job tells the logger: a text for people, or the event as a line of JSON.

    No times: how long something takes is outside of the guarantee, and whoever collects lines has a clock.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(logging.INFO)
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event is not None:
            click.echo(json.dumps(event, ensure_ascii=False) if self._as_json else record.getMessage())


@contextmanager
def _told(*, as_json: bool, quiet: bool) -> Iterator[None]:
    """Print the events of a run as they happen."""
    if quiet:
        yield
        return
    log, handler = logging.getLogger("dpsql"), _Lines(as_json=as_json)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
