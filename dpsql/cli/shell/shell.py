"""dpsql shell: the command, what is done with one statement, the price that is shown before, statements from a pipe.

A statement ends with a semicolon that isn't in a quote. In a pipe the first error ends everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import given, opened, policy_option, request_options, strict_option
from dpsql.cli.output import choose, progress
from dpsql.cli.query import tell
from dpsql.cli.stop import watch
from dpsql.core.errors import Error, PrivacyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

    from dpsql.answer.model import Answer
    from dpsql.cli.output import Target
    from dpsql.core.cost import Cost
    from dpsql.explain.explanation import Explanation
    from dpsql.quote.model import Quote
    from dpsql.session import Session


FORMATS = ("table", "csv", "json")  # which hold one answer after the other


@click.command()
@partial(request_options, but=("params",))  # each statement would need all of them
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: table on a terminal, else csv.")
@strict_option
@policy_option
def shell(policy: str, format_: str | None, analyst: str | None, strict: bool, **options: Any) -> None:
    """Ask one statement after the other, and see the price of each before it is paid.

    At a terminal statements end with ; or an empty line, Tab completes, and nothing is spent before you press y. From
    a pipe (dpsql shell < questions.sql) nobody can be asked: every query must name its ε, by --epsilon or --accuracy,
    by a line like \\epsilon 0.5, or in its SQL. The first error ends it then. \\help lists the commands.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if terminal:
        from dpsql.cli.shell.terminal import require

        require()  # before anything is opened
    with choose(None, format_) as target, opened(policy, analyst, strict=strict) as session:
        one = Shell(session, target, given(options))
        if terminal:
            from dpsql.cli.shell.terminal import converse

            converse(one)
        else:
            if sys.stdin.isatty():
                click.echo("statements are read without prompts, as no terminal shows the answers", err=True)

            read(one, sys.stdin.buffer)


Confirm = Callable[[str], str]
"""Shows a question and returns the key that was pressed."""


class Shell:
    """A session with what was set for its queries, the last statement and the last answer."""

    def __init__(
        self, session: Session, target: Target, settings: dict[str, Any], confirm: Confirm | None = None
    ) -> None:
        """confirm: asks whoever sits there; None: nobody does, and each query must name its ε."""
        self.session = session
        self.target = target
        self.settings = settings
        self.confirm = confirm
        self.last: str | None = None
        self.answer: Answer | None = None
        self._answered = 0

    def do(self, text: str) -> bool:
        """Do what a text says: a command, or one statement after the other. False: it was the last one."""
        if is_command(text):
            from dpsql.cli.shell.commands import run

            return run(self, text.strip())
        if leaves(text):
            click.echo("a statement has no end: it was not asked", err=True)
            return False
        from dpsql.sql.statements import statements

        for statement in statements(text):
            if statement.strip():
                self.ask(statement.strip())
        return True

    def ask(self, sql: str) -> None:
        """Answer a statement; one that costs something only after its price was agreed to."""
        from dpsql.sql.inspection import inspection

        watch(self.session)
        self.last = sql
        if inspection(sql) is not None:
            self.show(self.session.query(sql, **self.settings))
            return
        answer = None if self._named(sql) else self._free(sql)
        if answer is None and self.agreed(sql):
            with progress(quiet=self.confirm is None):
                answer = self.session.query(sql, **self.settings)
        if answer is not None:
            self.answer = answer
            self.show(answer)
            tell([answer], self.session)

    def show(self, answer: Answer) -> None:
        """Write an answer, apart from the one before it."""
        if self._answered and self.target.format == "csv":
            click.echo()
        self._answered += 1
        self.target.write(answer)

    # ---------------------------------------------------------------- before anything is spent

    def agreed(self, sql: str) -> bool:
        """Whether what a query costs was agreed to: by whoever was shown the price, else by the ε that it names."""
        if self.confirm is None:
            if not self._named(sql):
                raise _unnamed()
            return True
        quote = self.explained(sql)
        if quote is None:
            return False

        if is_free(quote, self.session, fresh=bool(self.settings.get("fresh"))):
            return True
        for line in preview(quote, self.session.budget.remaining):
            click.echo(line)
        return fits(quote) and self._confirmed(sql, quote)

    def _confirmed(self, sql: str, quote: Explanation) -> bool:
        assert self.confirm is not None
        while True:
            match self.confirm("spend it? [y]es  [n]o  [e]xplain  [p]rices "):
                case "y":
                    return True
                case "e":
                    click.echo(str(quote))
                case "p":
                    self.prices(sql)
                case _:
                    click.echo("nothing was spent")
                    return False

    def explained(self, sql: str) -> Explanation | None:
        """A query's quote; None, with a table of prices, where nobody has named an ε yet."""
        try:
            return self.session.explain(sql, **self.settings)
        except PrivacyError as error:
            if error.code != "no-epsilon":
                raise
            click.echo("nobody has named an ε yet. What accuracy costs:")
            self.prices(sql)
            click.echo(r"choose one: \epsilon 0.1, or the error that you can bear: \accuracy 100; then \g")
            return None

    def prices(self, sql: str) -> None:
        """A table of ε, expected errors and how often each fits."""
        from dpsql.cli.explain import lines

        settings = {name: value for name, value in self.settings.items() if name not in ("accuracy", "confidence")}
        for line in lines(self.session.prices(sql, **settings)):
            click.echo(line)

    def _named(self, sql: str) -> bool:
        """Whether a price was named: by a setting or in the SQL; at a terminal, which shows it, also by the policy."""
        from dpsql.sql.parse import parse

        if "epsilon" in self.settings or "accuracy" in self.settings:
            return True
        if self.confirm is not None and self.session.policy.budget.query_epsilon is not None:
            return True
        try:
            return "epsilon" in parse(sql).options
        except Error as error:
            raise error.locate(sql) from None

    def _free(self, sql: str) -> Answer | None:
        """The answer to a query without a price, where it costs nothing."""
        settings = {name: value for name, value in self.settings.items() if name != "fresh"}
        return None if "fresh" in self.settings else self.session.free(sql, **settings)


def _unnamed() -> PrivacyError:
    return PrivacyError(
        "nobody can be asked here, so the query must name what it may cost",
        code="no-epsilon",
        hint="dpsql shell --epsilon 0.5, a line \\epsilon 0.5 before it, or in the SQL:\n"
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) …",
    )


def is_free(quote: Quote, session: Session, *, fresh: bool) -> bool:
    """Whether asking costs nothing: nothing is measured, or stored releases answer."""
    return quote.price.epsilon == 0 or (not fresh and session.is_stored(quote))


def fits(quote: Quote) -> bool:
    """Whether what is left can pay for it."""
    return quote.fits is None or quote.fits.more is None or quote.fits.more > 0


def preview(quote: Quote, left: Cost) -> list[str]:
    """What a query would cost and how far off it would be; left: what the account still holds."""
    from dpsql.answer.render import guarantee

    price, rest = guarantee(quote.price, up=True), guarantee(left, up=False)
    if not fits(quote):
        return [f"it would cost {price}, and {rest} is left: nothing was spent"]
    return [f"it costs {price} of the {rest} that is left{_more(quote)}", *error_lines(quote)]


def _more(quote: Quote) -> str:
    more = None if quote.fits is None else quote.fits.more
    return "" if more is None else " (for the last time)" if more == 1 else f" (fits {more:,} times)"


def error_lines(quote: Quote) -> list[str]:
    """The errors to expect: of all groups at once, with 95%."""
    from dpsql.answer.render import printable
    from dpsql.explain.text import LATER, expected

    known, unknown, rows = [], [], 0
    for one in expected(quote):
        if one.text == LATER:
            unknown.append(printable(one.name))
        else:
            known.append(f"{printable(one.name)} ± {one.text}")
            rows = one.rows or rows
    lines = []
    if known:
        about = f", where a group has {rows:,} rows" if rows else ""
        lines.append(f"expected (95%{about}): {', '.join(known)}")
    if unknown:
        lines.append(f"the error of {', '.join(unknown)} comes with the answer")
    return lines


def read(shell: Shell, source: Iterable[bytes]) -> None:
    """Do what each statement and command says.

    Nobody can be asked here, so a query must name its ε. What follows an error isn't asked any more: it may rest on
    what failed, and would be paid for.
    """
    for line, text in pieces(source):
        try:
            if not shell.do(text):
                return
        except Error:
            click.echo(f"in the statement of line {line}; what follows was not asked", err=True)
            raise


def pieces(source: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Each statement or command with the number of its first line; the last one needs no semicolon."""
    kept, first = "", 1
    for number, line in enumerate(source, 1):
        text = _decoded(line, number)
        if not kept.strip():
            kept, first = "", number
        kept += text
        if not kept.strip():
            continue
        if is_command(kept) or leaves(kept) or (";" in text and is_whole(kept)):
            yield first, kept.strip()
            kept = ""
    if kept.strip():
        yield first, kept.strip()


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"line {number} is not UTF-8 text") from None


LEAVE = ("q", "quit", "exit")


def is_command(text: str) -> bool:
    r"""Is it a command of the shell, like \d?"""
    return text.lstrip().startswith("\\")


def leaves(text: str) -> bool:
    r"""Is its last line \q, behind a statement that hasn't ended? In a quote or a comment it is a part of that."""
    before, _, last = text.rstrip().rpartition("\n")
    if not before.strip() or not is_command(last) or last.strip()[1:].lower() not in LEAVE:
        return False
    return _tokens(before) is not None


def is_whole(text: str) -> bool:
    r"""Does the text end where a statement ends: with a semicolon that isn't in a quote? A command is one line.

    A line of \q is the end of everything.
    """
    if is_command(text) or leaves(text):
        return True
    from sqlglot.tokenizer_core import TokenType

    tokens = _tokens(text)
    return tokens is not None and (not tokens or tokens[-1].token_type is TokenType.SEMICOLON)


def _tokens(text: str) -> Sequence[Token] | None:
    """The tokens of a text; None where a quote or a comment is still open."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import TokenError

    from dpsql.sql.dialect import DIALECT

    try:
        return Dialect.get_or_raise(DIALECT).tokenize(text)
    except TokenError:
        return None
