"""What is asked: one query, of which data, with which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

EPSILON, DELTA = 1, 1e-7
NAMED: Mapping[str, Any] = {"max_rows": 50, "max_groups": 50}
"""Limits worth 50 rows for each unit, as other systems are measured with."""

BY_USER = "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM events GROUP BY user_id)"


@dataclass(frozen=True, slots=True)
class Case:
    """A query that is measured. Aggregates have names in capitals, keys in small letters.

    unit: "user_id" or "row" for events, "customer" for TPC-H. limits: options of the query; none leaves them to dpsql.
    floor: the one GROUP BY unit over the query's own table that any answer about people needs, as plain SQL; "" where
    rows are units. up_to: at more rows than that it isn't measured. peers: whether other systems are asked it, too.
    """

    name: str
    title: str
    sql: str
    unit: str = "user_id"
    limits: Mapping[str, Any] = field(default_factory=dict)
    floor: str = BY_USER
    up_to: int = 50_000_000
    peers: bool = False
    quick: bool = False
    """Whether it is part of a quick run."""


def _sums(many: int) -> str:
    return f"SELECT {', '.join(f'SUM(LEAST(amount, {10 * i})) AS S{i}' for i in range(1, many + 1))} FROM events"


Q3 = "SELECT category, COUNT(*) AS COUNT, SUM(amount) AS SUM, AVG(amount) AS AVG FROM events GROUP BY category"
TEN = 10_000_000
EVENTS = (
    Case("Q1", "COUNT(*)", "SELECT COUNT(*) AS COUNT FROM events", limits=NAMED, peers=True),
    Case(
        "Q2",
        "COUNT(DISTINCT user)",
        "SELECT COUNT(DISTINCT user_id) AS COUNT FROM events",
        limits=NAMED,
        up_to=TEN,
        peers=True,
    ),
    Case("Q3", "COUNT, SUM, AVG by 20 public keys", Q3, limits=NAMED, peers=True, quick=True),
    Case("Q3 auto", "the same, no limit named", Q3, up_to=TEN),
    Case(
        "Q3 per group", "the same, max_rows_per_group = 10", Q3, limits={**NAMED, "max_rows_per_group": 10}, up_to=TEN
    ),
    Case(
        "Q4",
        "COUNT, SUM by 73,000 private keys",
        "SELECT country, day, COUNT(*) AS COUNT, SUM(amount) AS SUM FROM events GROUP BY country, day",
        limits=NAMED,
        peers=True,
        quick=True,
    ),
    Case(
        "Q5",
        "MEDIAN by 20 public keys",
        "SELECT category, MEDIAN(amount) AS MEDIAN FROM events GROUP BY category",
        limits=NAMED,
        up_to=TEN,
        peers=True,
    ),
    Case(
        "Q6",
        "COUNT, SUM by 20 public keys, unit = row",
        "SELECT category, COUNT(*) AS COUNT, SUM(amount) AS SUM FROM events GROUP BY category",
        unit="row",
        floor="",
        peers=True,
        quick=True,
    ),
    Case(
        "Q7",
        "SUM by 8 keys of a joined table",
        "SELECT segment, SUM(amount) AS SUM FROM events JOIN users USING (user_id) GROUP BY segment",
        limits=NAMED,
        up_to=TEN,
        peers=True,
    ),
    Case(
        "Q6 filtered",
        "AVG by 20 public keys, a half of the rows, unit = row",
        "SELECT category, AVG(amount) AS AVG FROM events WHERE day < DATE '2023-07-01' GROUP BY category",
        unit="row",
        floor="",
        up_to=TEN,
    ),
    Case(
        "Q6 computed",
        "SUM of a product by a computed key, unit = row",
        "SELECT MONTH(day) AS month, SUM(amount * qty) AS SUM FROM events GROUP BY MONTH(day)",
        unit="row",
        floor="",
        up_to=TEN,
    ),
    Case("5 sums", "5 sums in one SELECT", _sums(5), limits=NAMED, up_to=TEN),
    Case("50 sums", "50 sums in one SELECT", _sums(50), limits=NAMED, up_to=TEN),
    Case(
        "medians",
        "MEDIAN by 10,000 public keys",
        "SELECT (user_id % 10000 + 10000) % 10000 AS bucket, MEDIAN(amount) AS MEDIAN FROM events GROUP BY 1",
        limits=NAMED,
        up_to=TEN,
    ),
    Case(
        "distinct",
        "COUNT(DISTINCT amount), 50,000 values",
        "SELECT COUNT(DISTINCT amount) AS COUNT FROM events",
        limits=NAMED,
        up_to=TEN,
    ),
    Case(
        "distinct triples",
        "COUNT(DISTINCT country, day and category together)",
        "SELECT COUNT(DISTINCT country || day || category) AS COUNT FROM events",
        limits=NAMED,
        up_to=1_000_000,
    ),
)
"""Q1 to Q7 are the queries that other systems were measured with, on the same data."""

ACCURACY = (
    *(replace(case, limits={}) for case in EVENTS if case.peers),
    Case("Q3 COUNT", "COUNT alone", "SELECT category, COUNT(*) AS COUNT FROM events GROUP BY category"),
    Case("Q3 SUM", "SUM alone", "SELECT category, SUM(amount) AS SUM FROM events GROUP BY category"),
    Case("Q4 COUNT", "COUNT alone", "SELECT country, day, COUNT(*) AS COUNT FROM events GROUP BY country, day"),
    *(replace(case, name=f"{case.name} named") for case in EVENTS if case.name in ("Q1", "Q3", "5 sums")),
)
"""What an analyst gets who says nothing but ε; then some where a limit is named that cuts 4% of the rows."""
