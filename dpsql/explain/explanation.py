"""A quote that `explain` returns: it prints as what it says to people."""

from __future__ import annotations

from dataclasses import fields

from dpsql.core.frozen import dataclass
from dpsql.quote.model import Quote


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(Quote):
    """Everything that a query will do and cost; print it to read it."""

    def __str__(self) -> str:
        from dpsql.explain.text import show  # when it is read: queries that are only answered don't need it

        return show(self)

    def _repr_html_(self) -> str:
        from dpsql.explain.notebook import html_quote

        return html_quote(self)

    @classmethod
    def of(cls, quote: Quote) -> Explanation:
        """The quote, to be printed."""
        return cls(**{f.name: getattr(quote, f.name) for f in fields(Quote)})
