"""dpsql init: a policy is drafted for data that have none. dpsql check: is it right, and (for the steward) do the data
keep its promises?
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.cli.options import policy_option, steward_option, strict_option
from dpsql.cli.output import progress
from dpsql.cli.stop import careful

if TYPE_CHECKING:
    from dpsql.steward.init import Answers, Prospect


@click.command()
@click.argument("data", nargs=-1, required=True, metavar="DATA…")
@click.option("--unit", metavar="NAME", help='Who is protected: a column that names them, or "row". Default: a guess.')
@click.option("--public", metavar="TABLE", multiple=True, help="Everybody may see all of this table. May be repeated.")
@click.option("--epsilon", metavar="E", help="The total ε that may ever be spent.")
@click.option("--delta", metavar="D", help="The total δ.")
@steward_option
@click.option("--yes", is_flag=True, help="Ask nothing: the safe answer to every question.")
@click.option("--force", is_flag=True, help="Replace a policy that is there already.")
@click.option(
    "-o",
    "--output",
    "--policy",
    "policy",
    metavar="PATH",
    envvar="DPSQL_POLICY",
    default="policy.toml",
    show_default=True,
    show_envvar=True,
    help="Where to write the policy; - is standard output.",
)
def init(
    data: tuple[str, ...],
    unit: str | None,
    public: tuple[str, ...],
    epsilon: str | None,
    delta: str | None,
    steward: bool,
    yes: bool,
    force: bool,
    policy: str,
) -> None:
    """Draft a policy for files, globs, folders and .duckdb databases.

    From names and types alone; CSV columns are text then. With --steward rows are read, too, and what they show is
    proposed: types, ranges, lists of values. What lies outside of a range stands on the terminal alone. Every decision
    is a question in a comment, with the safe answer below it: all tables are private, and a column that is an id by its
    name, or repeats as people's ids do, is protected with all its rows; where there is none, each row is.
    """
    from dpsql.core.errors import PolicyError
    from dpsql.policy.reader import parse_delta, parse_epsilon
    from dpsql.steward.draft import questions
    from dpsql.steward.init import EPSILON, Answers, draft, look_at
    from dpsql.steward.question_budget import learning_line

    target = None if policy == "-" else Path(policy)
    if target is not None and target.exists() and not force:
        raise click.UsageError(f"{policy} is there already: --force replaces it, -o names another file")
    if epsilon is not None:
        parse_epsilon(epsilon, where="--epsilon")
    if delta is not None:
        parse_delta(delta, where="--delta")
    if steward:
        click.echo("this reads rows of all tables; what it prints and writes is not private", err=True)
    careful()
    prospect = look_at(data, (Path() if target is None else target.parent).absolute(), steward=steward)
    answers = Answers(unit, frozenset(name.lower() for name in public), epsilon or EPSILON, delta)
    if not yes and interactive():
        answers = ask(prospect, answers, asked_epsilon=epsilon is None)
    drafted = draft(prospect, answers)
    text = drafted.text
    for note in prospect.inputs.notes:
        click.echo(f"note: {note}", err=True)
    for finding in drafted.findings:
        click.echo(finding, err=True)
    if target is None:
        click.echo(text, nl=False)
        return
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise PolicyError(f"{policy}: can't be written: {error.strerror}", code="no-policy") from None
    count, asked = len(prospect.inputs.tables), questions(text)
    tables = "1 table" if count == 1 else f"{count} tables"
    click.echo(f"wrote {policy}: {tables}, and {asked} questions in comments for you to decide", err=True)
    if (line := learning_line(drafted.policy)) is not None:
        click.echo(line, err=True)
    click.echo('next: dpsql check --steward, then dpsql query "SELECT COUNT(*) FROM …"', err=True)


def interactive() -> bool:
    """Is somebody there to ask?"""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(prospect: Prospect, answers: Answers, *, asked_epsilon: bool) -> Answers:
    """The few questions that decide most, on a terminal; ENTER is the safe answer."""
    from dataclasses import replace

    from dpsql.core.errors import PolicyError
    from dpsql.policy.reader import parse_epsilon
    from dpsql.steward.unit_guess import ROW

    if answers.unit is None:
        for one in prospect.candidates:
            columns = ", ".join(f"{table}.{column}" for table, column in one.columns)
            why = f" (it repeats as people's ids do: {prospect.repetition(one)})" if one.repeats else ""
            click.echo(f"  {one.entity}: {columns}{why}", err=True)
        best = prospect.protected(None)
        click.echo("  row: each row for itself", err=True)
        while True:
            said = click.prompt("Who is protected?", default=best.entity if best else ROW, err=True)
            try:
                prospect.protected(said)
                break
            except PolicyError as error:
                click.echo(str(error), err=True)
        answers = replace(answers, unit=said)
    answers = _ask_about_repetition(prospect, answers)
    for name, why in prospect.lookups.items():
        if name not in answers.public and click.confirm(f"May everybody see all of {name} ({why})?", err=True):
            answers = replace(answers, public=answers.public | {name})
    while asked_epsilon:
        said = click.prompt("Total ε (1 is strict, 3 usual, above 10 little)", default=answers.epsilon, err=True)
        try:
            parse_epsilon(said, where="ε")
            return replace(answers, epsilon=said)
        except PolicyError as error:
            click.echo(str(error), err=True)
    return answers


def _ask_about_repetition(prospect: Prospect, answers: Answers) -> Answers:
    """Whether columns that repeat as people's ids do name people, for tables in which nothing else says it."""
    from dataclasses import replace

    asked: set[str] = set()
    while doubtful := [c for c in prospect.doubtful(answers.unit, answers.declined) if c.entity not in asked]:
        one = doubtful[0]
        asked.add(one.entity)
        question = f"Does {one.entity} name people, to be protected with all their rows ({prospect.repetition(one)})?"
        if not click.confirm(question, default=True, err=True):
            answers = replace(answers, declined=answers.declined | {one.entity})
    return answers


@click.command()
@steward_option
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of policy files, for editors, and nothing else.")
@strict_option
@policy_option
def check(policy: str, steward: bool, as_json: bool, schema: bool, strict: bool) -> None:
    """Validate the policy against the data's schemas, and advise.

    With --steward, also verify the policy's promises (rows_per_unit, key, nullable = false) against the rows, and
    record what was found: a promise counts only after that, and only for the data as it is now. What rows show besides
    (NULLs, values outside of ranges, how many rows units have, what limits cut) is said, too. Where a server.toml lies
    beside the policy, a few queries are timed, and a reply_after is suggested.
    """
    if schema:
        from dpsql.policy.reference import json_schema

        click.echo(json.dumps(json_schema(), ensure_ascii=False, indent=2))
        return
    from dpsql.core.errors import DataError
    from dpsql.policy.model import Policy
    from dpsql.steward.check import check as run
    from dpsql.steward.question_budget import learning_line

    if steward:
        click.echo("this reads rows of private tables; what it prints is not private", err=True)
    careful()
    with progress(quiet=False):
        report = run(policy, steward, strict)
    click.echo(json.dumps(report.as_dict(), ensure_ascii=False, indent=2) if as_json else str(report))
    if steward and (line := learning_line(Policy.load(policy))) is not None:
        click.echo(f"\n{line}", err=True)
    if steward and (Path(policy).absolute().parent / "server.toml").exists():
        from dpsql.steward.reply_times import reply_times

        click.echo(str(reply_times(Policy.load(policy))), err=True)
    if report.broken:
        raise DataError(
            f"{len(report.broken)} promise{'s' if len(report.broken) > 1 else ''} of the policy "
            f"{'are' if len(report.broken) > 1 else 'is'} broken: {'; '.join(report.broken)}",
            code="broken-promise",
            hint="correct the policy or the data; until then the promise isn't relied on",
        )
