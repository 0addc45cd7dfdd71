"""Golden files: SQL, and what binding, planning, explaining or refusing it says (golden_files.py says how to read it).

A file is read with policy.toml, or with the policy of its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_files import FOLDER, Case, golden

import dpsql
from dpsql.analyze.ownership import rows_promise
from dpsql.explain.relation_text import described
from dpsql.plan.build import build
from dpsql.plan.nodes import Expr, Plan
from dpsql.sql.bind import bind
from dpsql.sql.parse import parse

PLACELESS = {"empty", "one-statement", "not-a-query", "too-deep"}  # the whole text is to blame

PEOPLE = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("age", pa.int32()),
        ("income", pa.decimal128(9, 2)),
        ("height", pa.float64()),
        ("region", pa.string()),
        ("code", pa.string()),
        ("born", pa.date32()),
        ("seen", pa.timestamp("us")),
        ("member", pa.bool_()),
        ("debt", pa.float64()),
        ("secret", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
TABLES = {
    "people": PEOPLE.empty_table(),
    "survey": pa.table({c: pa.array([], pa.int32()) for c in ("answer", "wide", "n1", "n2")}),
    "visits": pa.table({"id": pa.array([], pa.int64()), "age": pa.array([], pa.int64())}),
    "orders": pa.table(
        {"id": pa.array([], pa.int64()), "order_id": pa.array([], pa.int64()), "kind": pa.array([], "string")}
    ),
    "items": pa.table({"order_id": pa.array([], pa.int64())}),
    "codes": pa.table({"code": ["x1", "x2"], "label": ["one", "two"]}),
}
POLL = pa.schema(
    [
        ("yes", pa.bool_()),
        ("choice", pa.string()),
        ("grade", pa.int32()),
        ("age", pa.int32()),
        ("single", pa.string()),
        ("hidden", pa.bool_()),
    ]
)
OWN = {"randomized_response": {"poll": POLL.empty_table()}}  # tables of the policy of that name alone


@pytest.fixture(scope="module")
def sessions() -> Iterator[Callable[[Path], dpsql.Session]]:
    """A session for each policy, opened when it is first asked for."""
    opened: dict[Path, dpsql.Session] = {}

    def open_policy(path: Path) -> dpsql.Session:
        if path not in opened:
            tables = {**TABLES, **OWN.get(path.stem, {})}
            opened[path] = dpsql.connect(path, sources=tables, ledger=":memory:")
            engine = opened[path]._engine
            promise = str(rows_promise(engine.policy.tables["people"]))
            engine.ledger.record_promise("people", promise, engine.versions()["people"], True)
        return opened[path]

    yield open_policy
    for session in opened.values():
        session.close()


@pytest.fixture
def session(sessions: Callable[[Path], dpsql.Session], file: str) -> dpsql.Session:
    """policy.toml, or the policy that has the file's own name."""
    own = FOLDER / f"{file}.toml"
    return sessions(own if own.is_file() else FOLDER / "policy.toml")


# ---------------------------------------------------------------- the text of each stage


def planned(session: dpsql.Session, sql: str) -> Plan:
    engine = session._engine
    return build(bind(parse(sql), engine.columns, engine.unlisted), engine.policy)


def shown(node: Expr) -> str:
    return node.sql(dialect="duckdb").replace('"', "")


def plan_text(plan: Plan) -> str:
    lines = []
    for i, release in enumerate(plan.releases):
        lines += [f"r{i}:", *(f"  {line}" for line in described(release.input))]
        lines += [f"  key k{j} = {shown(key)}" for j, key in enumerate(release.keys)]
        lines += [f"  a{j} = {shown(call.node)}" for j, call in enumerate(release.aggregates)]
    for name, rows in plan.responses:
        lines += [f"{name}:", *(f"  {line}" for line in described(rows.input))]
        lines += [f"  a{j} = {shown(call)}" for j, call in enumerate(rows.calls)]
    lines += ["post:", *(f"  {line}" for line in plan.post.sql(dialect="duckdb", pretty=True).splitlines())]
    return "\n".join(lines)


# ---------------------------------------------------------------- the tests


@golden("bind")
def test_a_bound_query_is_canonical(file: str, case: Case, session: dpsql.Session, agree: Any) -> None:
    engine = session._engine
    tree = parse(case.sql)
    bound = bind(tree, engine.columns, engine.unlisted)
    schema = ", ".join(f"{name} {kind}" for name, kind in engine.twin.describe(tree))
    agree("bind", file, case, f"{bound.root.sql(dialect='duckdb', pretty=True)}\n:: {schema}")


@golden("plan")
def test_a_plan_is_releases_and_post_processing(file: str, case: Case, session: dpsql.Session, agree: Any) -> None:
    agree("plan", file, case, plan_text(planned(session, case.sql)))


@golden("explain")
@pytest.mark.sample(3)
def test_a_quote_says_what_is_measured_and_what_it_costs(
    file: str, case: Case, session: dpsql.Session, agree: Any
) -> None:
    agree("explain", file, case, str(session.explain(case.sql, **{"epsilon": 1, **case.options})))


@golden("refuse")
@pytest.mark.sample(3)
def test_a_refusal_says_what_and_where_and_what_to_do_and_costs_nothing(
    file: str, case: Case, session: dpsql.Session, agree: Any
) -> None:
    before = session.budget
    with pytest.raises(dpsql.Error) as refused:
        session.query(case.sql, **{"epsilon": 1, **case.options})
    error = refused.value
    span = f" at {error.span.line}:{error.span.column}+{error.span.length}" if error.span else ""
    agree("refuse", file, case, f"{type(error).__name__} {error.code}{span}\n{error}")
    assert isinstance(error, dpsql.SQLError | dpsql.PrivacyError)
    assert error.code and error.message
    assert error.hint, "a refusal says what to write instead"
    assert error.span or error.code in PLACELESS or file in ("options", "parameters"), "a refusal points at the place"
    assert session.budget == before
    with pytest.raises(type(error)) as again:
        session.explain(case.sql, **{"epsilon": 1, **case.options})
    assert str(again.value) == str(error)
