"""ANY_VALUE(x), of what has one value in each group."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates.form import Form


class AnyValue(Form):
    """What depends on the keys alone has one value in a group, which is public or was selected: it reads no row."""

    name = "ANY_VALUE"
    description = "ANY_VALUE(k): of what depends on the keys of GROUP BY alone: no noise, and no FILTER"
    nodes = (exp.AnyValue,)
    words = ("ARBITRARY",)
    nulls_spelt = True
    of_keys = True
    shows_rows = True
    instead = "it can be taken of what depends on the keys alone: ANY_VALUE(UPPER(k)) … GROUP BY k"


AGGREGATES = (AnyValue(),)
