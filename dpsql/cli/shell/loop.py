"""What the shell does with one statement or command, whoever reads it from wherever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.progress import progress
from dpsql.cli.query import tell
from dpsql.cli.shell.reading import is_command, leaves
from dpsql.cli.stop import watch
from dpsql.core.errors import Error, PrivacyError

if TYPE_CHECKING:
    from dpsql.answer.model import Answer
    from dpsql.cli.output import Target
    from dpsql.explain.explanation import Explanation
    from dpsql.session import Session

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
        from dpsql.cli.shell.preview import fits, is_free, preview

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
        from dpsql.cli.price import lines

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
