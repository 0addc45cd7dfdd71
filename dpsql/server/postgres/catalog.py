"""The catalogs that clients ask about tables and columns: what the policy says, in the shape of Postgres' own.

They are rows of an engine of its own that holds no row of any table, so that whatever is asked there is free and tells
nothing of the data. Rows are the same for all analysts: nobody's name, query or connection is among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.backends.choose import small_database
from dpsql.backends.small import Relation, SmallDatabase
from dpsql.policy.model import Policy
from dpsql.server.postgres.functions import FIRST_MACROS, MACROS
from dpsql.server.postgres.information_schema import information_schema
from dpsql.server.postgres.pg_catalog import Row, definitions, pg_catalog, shown_types
from dpsql.server.postgres.relations import INFORMATION_SCHEMA, PG_CATALOG
from dpsql.server.postgres.rewrite import INFO, PG
from dpsql.server.postgres.tables import Schema, tables_of

_ZEROS: Mapping[str, object] = {
    "BOOLEAN": False, "UINTEGER": 0, "SMALLINT": 0, "INTEGER": 0, "BIGINT": 0, "FLOAT": 0.0
}  # fmt: skip


def catalogs(schema: Schema, policy: Policy, settings: Mapping[str, str]) -> SmallDatabase:
    """An engine that holds the catalogs. settings: those of Postgres' that are known, as they are at first."""
    known = tables_of(schema, policy)
    shown = (("oid", "UINTEGER"), ("shown", "VARCHAR"))
    return small_database(
        [
            *_relations(PG, PG_CATALOG, pg_catalog(known, settings), _ZEROS),
            *_relations(INFO, INFORMATION_SCHEMA, information_schema(known), {}),
            Relation(PG, "dpsql_types", shown, list(shown_types())),
            Relation(PG, "dpsql_definitions", shown, list(definitions(known))),
        ],
        {**FIRST_MACROS, **MACROS},
    )


def _relations(
    schema: str,
    known: Mapping[str, tuple[tuple[str, str], ...]],
    rows: Mapping[str, Sequence[Row]],
    empty: Mapping[str, object],
) -> Iterator[Relation]:
    """Each relation with its rows: what a row doesn't say is `empty` by its type, or NULL."""
    assert rows.keys() <= known.keys()
    for name, columns in known.items():
        told = rows.get(name, ())
        assert all(row.keys() <= {column for column, _ in columns} for row in told), name
        yield Relation(schema, name, columns, [[r.get(c, empty.get(kind)) for c, kind in columns] for r in told])
