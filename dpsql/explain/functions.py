"""Every aggregate and scalar function that is understood: for `dpsql functions`, the server and docs/sql.md."""

from __future__ import annotations

from dpsql.core.frozen import dataclass

CHOSEN = (
    ("ORDER BY COUNT(*) DESC LIMIT k", "where only public keys leave, the winners are chosen, by SUM(x), too"),
    ("ARG_MAX(key, n), ARG_MIN(key, n)", "over SELECT key, COUNT(*) AS n … GROUP BY key: the same"),
)
GOOGLE_FORMS = (
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)", "options of the whole query, in its SQL"),
    ("SUM(x, contribution_bounds_per_row => (0, 100))", "each row's value is clipped; AVG, VAR… and STDDEV…, too"),
    ("SUM(x, contribution_bounds_per_group => (0, 500))", "what a unit adds to a group is clipped; COUNT, too"),
    (
        "DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n)",
        "the 95% interval of COUNT(*) AS n, or of another aggregate; NULL is an end that isn't known",
    ),
)
ROWS = (
    ("RANDOMIZED_RESPONSE(x)", "x, or another of its public values; for BOOLEAN and columns with values"),
    ("RR_COUNT(r [, value])", "how many rows have the value, from randomised ones, without bias"),
    ("RR_FREQUENCY(r [, value])", "the share of rows that have it"),
)


@dataclass(frozen=True, slots=True)
class ScalarFacts:
    """What people are told of a scalar function: its names, and how it never fails."""

    spelled: str
    about: str
    total: str
    range: str

    def __str__(self) -> str:
        return f"{self.about} · {self.total} · range: {self.range}"


def aggregates() -> list[tuple[str, str]]:
    """How each aggregate of private rows is written, and what it is."""
    from dpsql.aggregates import FORMS, RECIPES

    known = [*RECIPES.values(), *(form for name, form in FORMS.items() if name not in RECIPES)]
    told = (form.description.partition(": ") for form in known if form.description)
    return [(forms, about) for forms, _, about in told]


def scalars() -> dict[str, list[ScalarFacts]]:
    """The scalar functions by their kinds."""
    from dpsql.sql.functions import FUNCTIONS

    kinds: dict[str, list[ScalarFacts]] = {}
    for one in FUNCTIONS:
        kinds.setdefault(one.kind, []).append(ScalarFacts(", ".join(one.names), one.about, one.total, one.range))
    return kinds


def listed() -> list[dict[str, str]]:
    """All of them, one after another: kind, form, about."""
    found = [("aggregate", *one) for one in (*aggregates(), *CHOSEN)]
    found += [("rows that leave one by one", *one) for one in ROWS]
    found += [("as Google and Snowflake write it", *one) for one in GOOGLE_FORMS]
    found += [(f"scalar: {kind}", one.spelled, str(one)) for kind, facts in scalars().items() for one in facts]
    return [{"kind": kind, "form": form, "about": about} for kind, form, about in found]
