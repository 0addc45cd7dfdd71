"""Every aggregate and scalar function that is understood, as `dpsql functions` and the server list them."""

from __future__ import annotations

CHOSEN = (
    ("ORDER BY COUNT(*) DESC LIMIT k", "where only public keys leave, the winners are chosen, by SUM(x), too"),
    ("ARG_MAX(key, n), ARG_MIN(key, n)", "over SELECT key, COUNT(*) AS n … GROUP BY key: the same"),
)
FORMS = (
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)", "options of the whole query, in its SQL"),
    ("SUM(x, contribution_bounds_per_row => (0, 100))", "each row's value is clipped; AVG, VAR… and STDDEV…, too"),
    ("SUM(x, contribution_bounds_per_group => (0, 500))", "what a unit adds to a group is clipped; COUNT, too"),
    ("DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n)", "the 95% interval of COUNT(*) AS n, or of another aggregate"),
)
ROWS = (
    ("RANDOMIZED_RESPONSE(x)", "x, or another of its public values; for BOOLEAN and columns with values"),
    ("RR_COUNT(r [, value])", "how many rows have the value, from randomised ones, without bias"),
    ("RR_FREQUENCY(r [, value])", "the share of rows that have it"),
)


def aggregates() -> list[tuple[str, str]]:
    """The aggregates of private rows: how each is written, and what it is."""
    from dpsql import aggregates

    known = [form for form in aggregates.RECIPES.values() if form.description]
    others = [f for name, f in aggregates.FORMS.items() if name not in aggregates.RECIPES and f.description]
    parted = [one.description.partition(": ") for one in (*known, *others)]
    return [(forms, about) for forms, _, about in parted]


def scalars() -> dict[str, list[tuple[str, str]]]:
    """The scalars of private rows, by kind: their names, and what is known of each."""
    from dpsql.sql.functions import FUNCTIONS

    kinds: dict[str, list[tuple[str, str]]] = {}
    for function in FUNCTIONS:
        facts = f"{function.about} · {function.total} · range: {function.range}"
        kinds.setdefault(function.kind, []).append((", ".join(function.names), facts))
    return kinds


def listed() -> list[dict[str, str]]:
    """All of them, one after another: kind, form, about."""
    found = [("aggregate", *one) for one in (*aggregates(), *CHOSEN)]
    found += [("rows that leave one by one", *one) for one in ROWS]
    found += [("as Google and Snowflake write it", *one) for one in FORMS]
    found += [(f"scalar: {kind}", *one) for kind, rows in scalars().items() for one in rows]
    return [{"kind": kind, "form": form, "about": about} for kind, form, about in found]
