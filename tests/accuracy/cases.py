"""The cases of the corpus: shapes with what is asked of them, and kinds of policies, joins, filters and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from accuracy.questions import A, Column, N, Question, Range, S, V
from accuracy.shapes import (
    EVEN,
    GROUPS,
    NAMED,
    SHAPES,
    Set,
    Shape,
    after,
    constant,
    near_top,
    poisson,
    together,
    uniform,
)

Tables = Mapping[str, pa.Table]

TOTAL = 10**6
"""The budget in epsilon of each ledger, which is new for each answer: more than anything costs."""


@dataclass(frozen=True, eq=False)
class Case:
    """Data, a policy, and questions, each of which is asked in a new ledger."""

    name: str
    set: Set
    tables: Callable[[], Tables]
    policy: Mapping[str, Any]
    """What `Policy.from_dict` takes, without the budget."""
    ranges: Mapping[str, Range]
    questions: tuple[Question, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of `Session.query`."""
    epsilons: tuple[float, ...] = ()
    """Asked at these epsilons, whatever is asked for elsewhere."""
    accountant: str = "basic"
    batch: bool = False
    """Are all questions asked at once, for one epsilon?"""
    apart: int | None = None
    """How many units have far more rows than all others, where there are such units."""

    @property
    def private_keys(self) -> bool:
        return bool(self.options.get("delta"))

    @property
    def delta(self) -> float:
        """The budget's: none where nothing needs it, so that no question has another kind of noise for it."""
        return 1e-5 if self.private_keys or self.accountant == "zcdp" else 0

    @property
    def replaces(self) -> bool:
        return bool(self.policy.get("privacy", {}).get("adjacency") == "replace_one")


GROUPED = {"values": list(GROUPS), "nullable": False}
QUESTIONS = (
    Question((N,)),
    Question((S,)),
    Question((N, S, A), "g"),
    Question((A, V)),
)
"""What each shape is asked."""


def policy_of(shape: Shape, **privacy: Any) -> dict[str, Any]:
    """A policy that names no limit, for the table t of a shape."""
    columns = {"g": GROUPED, "v": {"min": shape.least, "max": shape.most}}
    return {"privacy": privacy, "tables": {"t": {"unit": "id", "columns": columns}}}


def range_of(shape: Shape) -> dict[str, Range]:
    return {"v": Range(shape.least, shape.most)}


def case_of(shape: Shape, questions: tuple[Question, ...] = QUESTIONS, **given: Any) -> Case:
    """A case with one table, as it comes."""
    named: dict[str, Any] = {"name": shape.name, "policy": policy_of(shape), "apart": shape.apart, **given}
    return Case(
        set=shape.set, tables=lambda: {"t": shape.table()}, ranges=range_of(shape), questions=questions, **named
    )


def shape_called(name: str) -> Shape:
    return next(shape for shape in (*SHAPES, *NAMED) if shape.name == name)


# ---------------------------------------------------------------- the first table of ACCURACY


def known() -> tuple[Case, ...]:
    """What is known to have been wrong."""
    by_group, named = Question((A,), "g"), {"max_rows": 40}
    return (
        case_of(shape_called("twelve at most"), (Question((N, S)), *QUESTIONS)),
        case_of(shape_called("values of d"), (by_group, Question((A,))), epsilons=(1,)),
        case_of(
            shape_called("plans"),
            (Question((S, A), "g"), Question((S, A), condition="g = 'c'"), by_group),
            epsilons=(1,),
        ),
        case_of(shape_called("thirty heavy"), (Question((N,)), Question((N,), "g")), epsilons=(10,)),
        case_of(shape_called("thirty heavy"), (Question((N,)),), name="thirty heavy, unseen", epsilons=(1,)),
        case_of(shape_called("visits"), (Question((A,)),), name="visits, 40 named", options=named, epsilons=(1,)),
        case_of(shape_called("visits"), (Question((N,), "g"),), epsilons=(0.2,)),
        *(_named_limit(rows) for rows in (17, 22, 24, 26, 28, 30, 32, 40, 45, 60)),
    )


def _named_limit(rows: int) -> Case:
    """3,000 units that all have this many rows, of which a named limit of 16 keeps 16."""
    set: Set = "judge" if rows in (24, 28, 32, 40, 60) else "build"
    shape = Shape(f"16 of {rows}", set, constant(3_000, rows), EVEN, near_top)
    return case_of(shape, (Question((N,)), Question((S,))), options={"max_rows": 16}, epsilons=(1,))


# ---------------------------------------------------------------- filters


def filters() -> tuple[Case, ...]:
    """WHERE that keeps few people or few rows, and a FILTER that all aggregates share."""
    shared = tuple(Question(columns, key, kept="v > 90") for columns, key in (((N,), ""), ((N, S), "g")))
    return (
        _plans("few pro people", "build", 60_000, (1_600, 50)),
        _plans("few gold people", "judge", 25_000, (700, 18)),
        case_of(shape_called("clicks"), _kept("v > 99"), name="one row in twenty"),
        case_of(shape_called("payments"), _kept("v > 25"), name="few large payments"),
        case_of(shape_called("pareto 2.0"), (Question((N,), "g", condition="v < 10"),), name="a tenth of a tail"),
        case_of(shape_called("pareto 1.7"), _kept("v > 70"), name="rows of the heavy alone"),
        case_of(shape_called("pareto 2.0"), shared, name="shared filter"),
        case_of(shape_called("sessions"), shared, name="shared filter of the heavy"),
    )


def _kept(condition: str) -> tuple[Question, ...]:
    return tuple(Question(columns, condition=condition) for columns in ((N,), (N, S, A)))


def _plans(name: str, set: Set, units: int, plan: tuple[int, int]) -> Case:
    """Few people have another plan, and many rows: (how many people, about how many rows each)."""
    people, rows = plan
    counts = together(poisson(units, 1), poisson(people, rows - 1))
    asked = tuple(Question(columns, condition="g = 'b'") for columns in ((N,), (S,), (N, S, A)))
    return case_of(Shape(name, set, counts, after(units), uniform), asked)


# ---------------------------------------------------------------- policies and options


def kinds() -> tuple[Case, ...]:
    """Neighbours that are replaced, zero-concentrated privacy, batches, several values, keys that aren't public."""
    some = (Question((N,)), Question((S,)), Question((N, S, A), "g"))
    clicks, contacts, orders, mixture = map(shape_called, ("clicks", "contacts", "orders", "mixture"))
    counts = (Question((N, Column("u", "distinct", "id"))), Question((N, Column("u", "distinct", "id")), "g"))
    medians = (Question((N, Column("m", "median", "v"))),)
    replaced = {"adjacency": "replace_one"}
    return (
        case_of(orders, some, name="orders, replaced", policy=policy_of(orders, **replaced)),
        case_of(contacts, some, name="contacts, replaced", policy=policy_of(contacts, **replaced)),
        case_of(clicks, some, name="clicks, zcdp", accountant="zcdp"),
        case_of(mixture, some, name="mixture, zcdp", accountant="zcdp"),
        case_of(orders, some, name="orders in a batch", batch=True),
        case_of(shape_called("loyal"), some, name="loyal in a batch", batch=True),
        case_of(clicks, counts, name="distinct beside rows"),
        case_of(shape_called("posts"), counts, name="distinct beside posts"),
        case_of(shape_called("logins"), medians, name="median beside rows"),
        case_of(shape_called("stretched"), medians, name="median of a stretched"),
        _two_values(shape_called("nulls")),
        _two_values(shape_called("tickets")),
        _keys(shape_called("logins"), 400, 0.8),
        _keys(shape_called("pareto 2.5"), 60, 0.3),
    )


def _two_values(shape: Shape) -> Case:
    """A second value w in a range of its own, near its top where v is far from it."""

    def tables() -> Tables:
        table = shape.table()
        w = 2_000 + 8 * np.random.default_rng(1).uniform(0, 1_000, len(table))
        return {"t": table.append_column("w", pa.array(w))}

    policy = policy_of(shape)
    policy["tables"]["t"]["columns"]["w"] = {"min": 0, "max": 10_000}
    both = (N, S, Column("x", "sum", "w"), Column("y", "avg", "w"))
    ranges = {**range_of(shape), "w": Range(0, 10_000)}
    return Case(f"{shape.name}, two values", shape.set, tables, policy, ranges, (Question(both), Question(both, "g")))


def _keys(shape: Shape, keys: int, home: float) -> Case:
    """Keys that aren't public: each unit has one of its own, where a share of its rows lies, and any others."""

    def tables() -> Tables:
        random, table = np.random.default_rng(2), shape.table()
        unit = table["id"].to_numpy()
        own, anywhere = random.random(unit.max() + 1)[unit], random.random(len(unit))
        k = keys * np.where(random.random(len(unit)) < home, own, anywhere) ** 2.5  # a few keys have most rows
        return {"t": table.append_column("k", pa.array([f"k{number}" for number in k.astype(int).tolist()]))}

    asked = Question((N,), "k"), Question((N, S), "k")
    name, ranges = f"{shape.name}, private keys", range_of(shape)
    return Case(name, shape.set, tables, policy_of(shape), ranges, asked, {"delta": 1e-6}, epsilons=(1, 3))


# ---------------------------------------------------------------- joins


def joins() -> tuple[Case, ...]:
    """Rows that belong to the owner of another table's row, and a table of people beside their rows."""
    return (
        _linked(shape_called("orders"), 3),
        _linked(shape_called("pareto 2.5"), 2),
        _people(shape_called("logins")),
        _people(shape_called("stretched")),
    )


def _linked(shape: Shape, items: float) -> Case:
    """Orders of a shape, each with this many items in the mean: a unit's rows are its items."""

    def tables() -> Tables:
        random, orders = np.random.default_rng(3), shape.table().drop_columns(["v"])
        number = np.arange(len(orders))
        order = np.repeat(number, random.geometric(1 / items, len(orders)))
        price = np.minimum(random.lognormal(2, 0.8, len(order)), 100)
        return {
            "orders": orders.append_column("oid", pa.array(number)),
            "items": pa.table({"oid": order, "v": price}),
        }

    policy = {
        "tables": {
            "orders": {"unit": "id", "key": "oid", "columns": {"g": GROUPED}},
            "items": {
                "unit": {"through": "orders", "on": {"oid": "oid"}},
                "columns": {"v": {"min": 0, "max": 100}},
            },
        }
    }
    source = "items JOIN orders USING (oid)"
    asked = Question((N,), "", source), Question((N, S, A), "g", source)
    return Case(f"{shape.name}, linked", shape.set, tables, policy, {"v": Range(0, 100)}, asked)


def _people(shape: Shape) -> Case:
    """A table with one row for each person, joined to the rows of a shape; the group is the person's."""

    def tables() -> Tables:
        random, rows = np.random.default_rng(4), shape.table().drop_columns(["g"])
        ids = np.arange(rows["id"].to_numpy().max() + 1)
        g = np.array(GROUPS)[random.choice(5, len(ids), p=[0.5, 0.3, 0.1, 0.08, 0.02])]
        return {"t": rows, "people": pa.table({"id": ids, "g": g})}

    policy = {
        "tables": {
            "t": {"unit": "id", "columns": {"v": {"min": shape.least, "max": shape.most}}},
            "people": {"unit": "id", "rows_per_unit": 1, "columns": {"g": GROUPED}},
        }
    }
    source = "t JOIN people USING (id)"
    asked = Question((N,), "g", source), Question((N, S, A), "g", source), Question((S,), "", source, "g = 'd'")
    return Case(f"{shape.name}, people", shape.set, tables, policy, range_of(shape), asked)


# ---------------------------------------------------------------- the common workload


def _events() -> Case:
    """A million rows of 50,000 users by 20 categories: the data on which other systems were measured."""

    def tables() -> Tables:
        random, rows = np.random.default_rng(20240607), 10**6
        amount = np.minimum(np.round(random.lognormal(3, 1, rows), 2), 500)
        category = (20 * random.random(rows) ** 1.3).astype(int)
        return {
            "t": pa.table(
                {
                    "id": (rows // 20 * random.random(rows) ** 1.6).astype(int),
                    "g": np.array(CATEGORIES)[category],
                    "v": amount,
                }
            )
        }

    columns = {"g": {"values": CATEGORIES, "nullable": False}, "v": {"min": 0, "max": 500}}
    asked = Question((N, S, A), "g"), Question((N,), "g"), Question((S,), "g")
    policy = {"tables": {"t": {"unit": "id", "columns": columns}}}
    return Case("events", "build", tables, policy, {"v": Range(0, 500)}, asked, epsilons=(1,))


CATEGORIES = [f"cat{number:02}" for number in range(20)]

CASES: tuple[Case, ...] = (
    *(case_of(shape) for shape in SHAPES),
    *known(),
    *filters(),
    *kinds(),
    *joins(),
    _events(),
)
