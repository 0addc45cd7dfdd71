"""What the command line and its functions make for readers: docs/sql.md and docs/commands.md.

`python -m dpsql.cli.reference sql > docs/sql.md`; the same with commands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from dpsql.cli.main import __doc__ as exit_codes
from dpsql.cli.main import cli
from dpsql.core.frozen import dataclass
from dpsql.explain.schema import CHOSEN, GOOGLE_FORMS, ROWS, aggregates, scalars


@dataclass(frozen=True, slots=True)
class JoinKind:
    """A way to combine rows: how it is written, when it is answered, and a query over people, visits and cities."""

    form: str
    when: str
    example: str
    answered: bool = True


JOINS = (
    JoinKind(
        "private JOIN public",
        "any condition",
        "SELECT c.country, COUNT(*) AS n FROM visits v JOIN cities c ON v.city = c.city GROUP BY c.country",
    ),
    JoinKind(
        "private LEFT JOIN public",
        "any condition",
        "SELECT COUNT(*) AS n FROM visits v LEFT JOIN cities c ON v.city = c.city WHERE c.country IS NULL",
    ),
    JoinKind(
        "public LEFT JOIN private",
        "where only private columns are aggregated; RIGHT JOIN likewise",
        "SELECT c.city, COUNT(v.person) AS n FROM cities c LEFT JOIN visits v ON v.city = c.city GROUP BY c.city",
    ),
    JoinKind(
        "private JOIN private",
        "where the condition says that both rows are one unit's: unit = unit, or along the policy's links",
        "SELECT COUNT(*) AS n FROM visits v JOIN people p USING (person) WHERE p.age < 30",
    ),
    JoinKind(
        "private LEFT JOIN private",
        "the same",
        "SELECT COUNT(*) AS n FROM people p LEFT JOIN visits v USING (person) WHERE v.person IS NULL",
    ),
    JoinKind(
        "private SEMI JOIN, ANTI JOIN",
        "with public rows, or those of the same unit; so are IN, NOT IN, EXISTS and NOT EXISTS",
        "SELECT COUNT(*) AS n FROM people WHERE person NOT IN (SELECT person FROM visits)",
    ),
    JoinKind(
        "UNION ALL of private rows",
        "of one kind of unit",
        "SELECT COUNT(*) AS n FROM (SELECT person FROM people UNION ALL SELECT person FROM visits)",
    ),
    JoinKind(
        "UNION, INTERSECT, EXCEPT of private rows",
        "where the rows hold the unit",
        "SELECT COUNT(*) AS n FROM (SELECT person FROM people EXCEPT SELECT person FROM visits)",
    ),
    JoinKind(
        "joins of results",
        "any kind: results are public",
        "SELECT a.city, a.n, b.m FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city) a FULL JOIN "
        "(SELECT city, SUM(minutes) AS m FROM visits GROUP BY city) b ON a.city = b.city",
    ),
    JoinKind(
        "private rows of two units",
        "refused: one person would change the rows of others",
        "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.city = b.city",
        answered=False,
    ),
    JoinKind(
        "FULL JOIN with private rows",
        "refused: use JOIN, or LEFT JOIN with the private table on the left",
        "SELECT COUNT(*) AS n FROM people p FULL JOIN visits v ON p.person = v.person",
        answered=False,
    ),
)


def sql_reference() -> str:
    """docs/sql.md."""
    return "\n".join(_sql()) + "\n"


def _sql() -> Iterator[str]:
    yield from (
        "# SQL reference",
        "",
        "Made from the registries by which queries are read, by `python -m dpsql.cli.reference sql > docs/sql.md`: not "
        "to be edited. `dpsql functions` prints the same. [What can be asked](asking.md) tells it as a story; here is "
        "the list.",
        "",
        "The dialect is DuckDB's. What isn't listed is refused over private rows, with a hint; over results, which are "
        "public, all of DuckDB's aggregates and window functions work.",
        "",
        "## Aggregates of private rows",
        "",
        "Each may have `FILTER (WHERE …)`.",
        "",
    )
    yield from _table(("aggregate", "what it is"), ((_code(a), _text(b)) for a, b in (*aggregates(), *CHOSEN)))
    yield from ("", "## Joins", "")
    shown = ((one.form, one.when, _code(one.example)) for one in JOINS)
    yield from _table(("rows", "answered", "for instance"), shown)
    yield from ("", "## As Google and Snowflake write it", "")
    yield from _table(("form", "what it is"), ((_code(a), _text(b)) for a, b in GOOGLE_FORMS))
    yield from ("", "## Rows that leave one by one", "")
    yield from ('Each value is randomised by itself; for `unit = "row"` and `adjacency = "replace_one"`.', "")
    yield from _table(("function", "what it is"), ((_code(a), _text(b)) for a, b in ROWS))
    yield from ("", "## Scalar functions of private rows", "")
    yield (
        "They never fail, whatever a row holds. NULL gives NULL, unless they say otherwise. A range is what SUM and "
        "AVG need: it follows from those of the columns."
    )
    for kind, found in scalars().items():
        yield from ("", f"### {kind.capitalize()}", "")
        rows = ((_code(one.spelled), _text(one.about), _text(one.total), _text(one.range)) for one in found)
        yield from _table(("names", "what it is", "never fails", "range"), rows)


def command_reference() -> str:
    """docs/commands.md."""
    return "\n".join(_commands()) + "\n"


def _commands() -> Iterator[str]:
    yield from (
        "# Command reference",
        "",
        "Made from the commands themselves by `python -m dpsql.cli.reference commands > docs/commands.md`: not to be "
        "edited. `dpsql COMMAND --help` says the same.",
        "",
    )
    shown = {name: command for name, command in cli.commands.items() if not command.hidden}
    first = {name: (command.help or "").split("\n")[0] for name, command in shown.items()}
    yield from _table(("command", "what it does"), ((f"[`dpsql {n}`](#dpsql-{n})", _text(first[n])) for n in shown))
    yield from ("", "## Exit codes", "")
    listed = (exit_codes or "").split("\n\n")[1].strip().split("\n")[0]
    yield from _table(("code", "meaning"), (one.strip().split(" ", 1) for one in listed.split(" · ")))
    for name, command in shown.items():
        yield from ("", f"## dpsql {name}", "", *_command(name, command))


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=f"dpsql {name}")
    yield f"`{' '.join([context.command_path, *command.collect_usage_pieces(context)])}`"
    for paragraph in (command.help or "").split("\n\n"):
        yield from ("", _text(" ".join(paragraph.replace("\b", "").split())))
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]  # all but --help
    yield ""
    yield from _table(("option", "what it does", "environment"), (_option(one, context) for one in options))


def _option(option: click.Option, context: click.Context) -> Sequence[str]:
    form = ", ".join([*option.opts, *option.secondary_opts])
    if not option.is_flag:
        form += f" {option.make_metavar(context)}"
    name: Any = option.envvar
    return _code(form), _text(option.help or ""), _code(name) if isinstance(name, str) else ""


def _table(head: Sequence[str], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _code(text: str) -> str:
    """Code in a cell of a table, where a bar would end it."""
    return f"`{text}`" if "|" not in text else f"<code>{text.replace('|', '&#124;').replace('<', '&lt;')}</code>"


def _text(text: str) -> str:
    """Text in a cell of a table: nothing in it is markup, but for code."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("[", "\\[")


if __name__ == "__main__":
    print({"sql": sql_reference, "commands": command_reference}[sys.argv[1]](), end="")
