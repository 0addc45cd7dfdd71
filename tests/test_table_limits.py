"""Limits of a table's own: where a query names none, the smallest of its tables; then the policy's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.explain.text import as_dict

VISITS = pa.table({"id": [1, 1, 2], "ward": ["a", "b", "a"]})
NOTES = pa.table({"id": [1, 2, 2], "n": [1, 2, 3]})
TABLES = {"visits": VISITS, "notes": NOTES, "bare": VISITS}


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect(
        TABLES,
        {
            "privacy": {"max_rows": 50, "max_groups": 9},
            "tables": {
                "visits": {"unit": "id", "max_rows": 7, "max_groups": 3},
                "notes": {"unit": "id", "max_rows": 5},
                "bare": {"unit": "id"},
            },
        },
        delta=1e-6,
    )


def enforced(session: dpsql.Session, sql: str, **options: Any) -> dict[str, int | None]:
    found = as_dict(session.explain(sql, epsilon=1, **options))["releases"][0]["enforced"]
    return {name: value for name, value in found.items() if value is not None}


def test_a_table_has_its_own_limit_and_others_have_the_policys(session: dpsql.Session) -> None:
    assert enforced(session, "SELECT COUNT(*) FROM visits") == {"max_rows": 7}
    assert enforced(session, "SELECT COUNT(*) FROM bare") == {"max_rows": 50}


def test_each_limit_is_looked_up_by_itself(session: dpsql.Session) -> None:
    assert enforced(session, "SELECT ward, COUNT(*) FROM visits GROUP BY ward") == {"max_rows": 7, "max_groups": 3}
    assert enforced(session, "SELECT n, COUNT(*) FROM notes GROUP BY n") == {"max_rows": 5, "max_groups": 9}


def test_of_several_tables_the_largest_limit_holds(session: dpsql.Session) -> None:
    joined = "SELECT COUNT(*) FROM visits JOIN notes USING (id)"
    assert enforced(session, joined) == {"max_rows": 7}
    assert enforced(session, "SELECT COUNT(*) FROM bare JOIN visits USING (id)") == {"max_rows": 7}
    assert enforced(session, "SELECT COUNT(*) FROM visits WHERE id IN (SELECT id FROM notes)") == {"max_rows": 7}


def test_names_of_ctes_and_aliases_are_not_tables(session: dpsql.Session) -> None:
    assert enforced(session, "WITH notes AS (SELECT * FROM visits) SELECT COUNT(*) FROM notes") == {"max_rows": 7}
    assert enforced(session, "SELECT COUNT(*) FROM bare AS notes") == {"max_rows": 50}


def test_what_a_query_names_comes_first(session: dpsql.Session) -> None:
    assert enforced(session, "SELECT COUNT(*) FROM visits", max_rows=11) == {"max_rows": 11}
    google = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_contributed = 12) COUNT(*) FROM visits"
    assert enforced(session, google) == {"max_rows": 12}


def test_explain_shows_it(session: dpsql.Session) -> None:
    assert "enforced  max_rows = 7" in str(session.explain("SELECT COUNT(*) FROM visits", epsilon=1))
