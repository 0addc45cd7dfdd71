"""The price of a query and the error to expect, in two or three lines: what is shown before anything is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsql.core.cost import Cost
    from dpsql.quote.model import Quote
    from dpsql.session import Session


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
    from dpsql.explain.expected import LATER, expected

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
