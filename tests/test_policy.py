"""The policy file: what it says is read whole and exactly, and each mistake is named with its key path."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

from dpsql.core.errors import PolicyError, PrivacyError
from dpsql.policy import model
from dpsql.policy.keys import from_environment
from dpsql.policy.model import Budget, ColumnUnit, LinkedUnit, Policy, Reference, RowUnit, source_kind
from dpsql.policy.reader import TYPES, column_type, parse_delta, parse_epsilon
from dpsql.policy.settings import EngineSettings

EXAMPLE = """
[budget]
epsilon = 3
delta = 1e-6
query_epsilon = 0.5
max_query_epsilon = 1
accountant = "basic"
ledger = "ledger.sqlite"

[privacy]
adjacency = "add_remove"
max_rows = 20
max_rows_per_group = 5
max_groups = 4
min_units = 10
mechanism = "auto"

[tables.customer]
source = "customer.parquet"
unit = "c_custkey"
rows_per_unit = 1

[tables.customer.columns]
c_acctbal    = { min = -1000, max = 10000 }
c_mktsegment = { values = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"] }
c_nationkey  = { references = "nation.n_nationkey" }

[tables.orders]
source = "shop.duckdb"
table = "main.orders"
unit = "o_custkey"
key = "o_orderkey"

[tables.lineitem]
source = "lineitem/*.parquet"
unit = { through = "orders", on = { l_orderkey = "o_orderkey" } }

[tables.nation]
source = "nation.csv"
public = true

[tables.survey]
source = "survey.csv"
unit = "row"
[tables.survey.columns]
age = { type = "INTEGER", min = 0, max = 120 }
"""

BUDGET = "[budget]\nepsilon = 1\ndelta = 1e-6\n"
PEOPLE = BUDGET + '[tables.people]\nsource = "p.parquet"\nunit = "id"\n'
NATION = '[tables.nation]\nsource = "n.csv"\npublic = true\n'
ORDERS = '[tables.orders]\nsource = "o.parquet"\nunit = "cust"\nkey = ["a", "b"]\n'


def read(toml: str, sources: tuple[str, ...] | None = ()) -> Policy:
    return Policy.from_dict(tomllib.loads(toml, parse_float=Decimal), sources=sources)


def column(written: str) -> str:
    return PEOPLE + f"[tables.people.columns]\nx = {{ {written} }}\n"


def items(unit: str) -> str:
    return f'{BUDGET}{ORDERS}{NATION}[tables.items]\nsource = "i.parquet"\nunit = {unit}\n'


def test_the_example_of_the_design_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(EXAMPLE)
    policy = Policy.load(path)
    assert policy.path == path
    assert policy.folder == tmp_path
    assert policy.ledger_path == tmp_path / "ledger.sqlite"

    budget, privacy = policy.budget, policy.privacy
    assert (budget.epsilon, budget.delta) == (Fraction(3), Fraction(1, 10**6))
    assert (budget.query_epsilon, budget.max_query_epsilon) == (Fraction(1, 2), Fraction(1))
    assert (budget.accountant, budget.ledger) == ("basic", "ledger.sqlite")
    assert (privacy.adjacency, privacy.mechanism) == ("add_remove", "auto")
    assert (privacy.max_rows, privacy.max_rows_per_group, privacy.max_groups, privacy.min_units) == (20, 5, 4, 10)

    assert list(policy.tables) == ["customer", "orders", "lineitem", "nation", "survey"]
    customer, orders, lineitem, nation, survey = policy.tables.values()
    assert (customer.source, customer.unit, customer.rows_per_unit) == ("customer.parquet", ColumnUnit("c_custkey"), 1)
    balance, segment, home = customer.columns.values()
    assert (balance.min, balance.max, balance.nullable, balance.private) == (
        Decimal(-1000),
        Decimal(10000),
        True,
        False,
    )
    assert isinstance(balance.min, Decimal)
    assert segment.values == ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
    assert home.references == Reference("nation", "n_nationkey")
    assert (orders.source, orders.table, orders.key) == ("shop.duckdb", "main.orders", ("o_orderkey",))
    assert lineitem.unit == LinkedUnit("orders", (("l_orderkey", "o_orderkey"),))
    assert (nation.public, nation.unit) == (True, None)
    assert survey.unit == RowUnit()
    assert survey.columns["age"].type == "INTEGER"
    assert [table.kind for table in policy.tables.values()] == ["parquet", "duckdb", "parquet", "csv", "csv"]


def test_a_dict_and_a_file_of_the_same_content_are_the_same_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(EXAMPLE)
    loaded = Policy.load(tmp_path / "policy.toml")
    given_ = Policy.from_dict(tomllib.loads(EXAMPLE), folder=tmp_path)
    assert dataclasses.replace(loaded, path=None, base=tmp_path) == given_


MISTAKES = [
    # budget
    ('[tables.t]\nsource = "t.parquet"\nunit = "u"\n[budget]\ndelta = 0', "budget.epsilon", "epsilon = 3"),
    (PEOPLE.replace("epsilon = 1", "epsilon = 0"), "budget.epsilon", "smaller is more private"),
    (PEOPLE.replace("epsilon = 1", "epsilon = -1"), "budget.epsilon", "smaller is more private"),
    (PEOPLE.replace("epsilon = 1", "epsilon = nan"), "budget.epsilon", "smaller is more private"),
    (PEOPLE.replace("epsilon = 1", "epsilon = inf"), "budget.epsilon", "smaller is more private"),
    (PEOPLE.replace("epsilon = 1", "epsilon = 1e13"), "budget.epsilon", "smaller is more private"),
    (PEOPLE.replace("epsilon = 1", "epsilon = 1e-999999999"), "budget.epsilon", "smaller is more private"),
    (PEOPLE.replace("epsilon = 1", "epsilon = true"), "budget.epsilon", "smaller is more private"),
    (PEOPLE.replace("epsilon = 1", 'epsilon = "1"'), "budget.epsilon", "without quotes"),
    (PEOPLE.replace("1e-6", "1e-3"), "budget.delta", "pure DP"),
    (PEOPLE.replace("1e-6", "1e-301"), "budget.delta", "pure DP"),
    (PEOPLE.replace("1e-6", "-1e-6"), "budget.delta", "pure DP"),
    (PEOPLE.replace("delta", "query_epsilon = 2\ndelta"), "budget.query_epsilon", "raise epsilon"),
    (
        PEOPLE.replace("delta", "query_epsilon = 0.5\nmax_query_epsilon = 0.4\ndelta"),
        "budget.query_epsilon",
        "raise max_query_epsilon",
    ),
    (PEOPLE.replace("delta", 'accountant = "zdcp"\ndelta'), "budget.accountant", 'did you mean "zcdp"'),
    (PEOPLE.replace("delta", 'ledger = ":memory:"\ndelta'), "budget.ledger", "x.sqlite"),
    (PEOPLE.replace("delta", "ledger = 3\ndelta"), "budget.ledger", 'ledger = "..."'),
    (PEOPLE.replace("delta", "anchor = 3\ndelta"), "budget.anchor", 'anchor = "..."'),
    (PEOPLE.replace("delta", "anchor = { command = [] }\ndelta"), "budget.anchor.command", "program"),
    (PEOPLE.replace("delta", "anchor = { command = 'x' }\ndelta"), "budget.anchor.command", "program"),
    (PEOPLE.replace("delta", "anchor = { command = ['x', 3] }\ndelta"), "budget.anchor.command", "program"),
    (PEOPLE.replace("delta", "anchor = { comand = ['x'] }\ndelta"), "budget.anchor.comand", "did you mean command?"),
    (PEOPLE.replace("delta", 'must_exist = "yes"\ndelta'), "budget.must_exist", "must_exist = true"),
    (PEOPLE.replace("delta", "epsilom = 3\ndelta"), "budget.epsilom", "did you mean epsilon?"),
    ("budget = 3\n" + PEOPLE.removeprefix(BUDGET), "budget", "section"),
    (PEOPLE.replace("delta = 1e-6", 'delta = 0\naccountant = "zcdp"'), "budget.accountant", "delta = 1e-6"),
    (PEOPLE.replace("delta = 1e-6", 'accountant = "zcdp"'), "budget.accountant", "delta = 1e-6"),
    (PEOPLE + "[budget.analysts]\nann = 2", "budget.analysts.ann", "part of the total"),
    (PEOPLE + "[budget.analysts]\nann = -1", "budget.analysts.ann", "0.1 to 1"),
    (PEOPLE + '[budget.analysts]\nann = "x"', "budget.analysts.ann", "without quotes"),
    (PEOPLE.replace("delta", 'renew = "weekly"\ndelta'), "budget.renew", "monthly"),
    # automatic bounds
    (column('bounds = "automatic"'), "tables.people.columns.x.bounds", 'did you mean "auto"?'),
    (column("bounds = [0, 1]"), "tables.people.columns.x.bounds", '"auto"'),
    (column("share = 0.5"), "tables.people.columns.x.share", 'bounds = "auto"'),
    (column('bounds = "auto", min = 0'), "tables.people.columns.x.bounds", "leave out one of the two"),
    (column('bounds = "auto", max = 9'), "tables.people.columns.x.bounds", "leave out one of the two"),
    (column('bounds = "auto", values = [1, 2]'), "tables.people.columns.x.bounds", "leave bounds out"),
    (column('bounds = "auto", type = "DATE"'), "tables.people.columns.x.bounds", "min and max"),
    (column('bounds = "auto", share = 0'), "tables.people.columns.x.share", "share = 0.1"),
    (column('bounds = "auto", share = 0.51'), "tables.people.columns.x.share", "share = 0.1"),
    (column('bounds = "auto", share = "0.1"'), "tables.people.columns.x.share", "share = 0.1"),
    # privacy
    (PEOPLE + '[privacy]\nadjacency = "replace"', "privacy.adjacency", 'did you mean "replace_one"'),
    (PEOPLE + '[privacy]\nmechanism = "x"', "privacy.mechanism", "laplace"),
    (PEOPLE + "[privacy]\nmax_rows = 0", "privacy.max_rows", "1 or more"),
    (PEOPLE + "[privacy]\nmax_rows_per_group = -1", "privacy.max_rows_per_group", "1 or more"),
    (PEOPLE + "[privacy]\nmax_groups = true", "privacy.max_groups", "1 or more"),
    (PEOPLE + "[privacy]\nmin_units = 1.5", "privacy.min_units", "1 or more"),
    (PEOPLE + "[privacy]\nmax_row = 1", "privacy.max_row", "did you mean max_rows?"),
    (PEOPLE + "[privcy]\nmax_rows = 1", "privcy", "did you mean privacy?"),
    # tables and sources
    (BUDGET, "tables", "name the data"),
    (BUDGET + "[tables]\nx = 3", "tables.x", "section"),
    (PEOPLE + "zzz = 3", "tables.people.zzz", "known keys"),
    (PEOPLE + "rows = 3", "tables.people.rows", "did you mean max_rows?"),
    (PEOPLE + "max_rows = 0", "tables.people.max_rows", "1 or more"),
    (PEOPLE + '[tables.n]\nsource = "n.csv"\npublic = true\nmax_groups = 3', "tables.n.max_groups", "public = true"),
    (PEOPLE + "[tables.People]\npublic = true", "tables.People", "case-insensitive"),
    (PEOPLE.replace('source = "p.parquet"\n', ""), "tables.people.source", "sources={...}"),
    (PEOPLE.replace("p.parquet", "p.xlsx"), "tables.people.source", ".parquet"),
    (PEOPLE.replace('"p.parquet"', '""'), "tables.people.source", 'source = "..."'),
    (PEOPLE.replace("p.parquet", "p.duckdb"), "tables.people.table", "main.orders"),
    (PEOPLE + 'table = "main.p"', "tables.people.table", "leave it out"),
    (PEOPLE + "public = 1", "tables.people.public", "public = true"),
    # units
    (PEOPLE.replace('unit = "id"', ""), "tables.people.unit", "whom to protect"),
    (PEOPLE + "public = true", "tables.people.unit", "leave unit out"),
    (BUDGET + NATION + "rows_per_unit = 1", "tables.nation.rows_per_unit", "leave rows_per_unit out"),
    (PEOPLE.replace('"id"', '"ROW"'), "tables.people.unit", '{ column = "row" }'),
    (PEOPLE.replace('"id"', "7"), "tables.people.unit", 'unit = "person_id"'),
    (PEOPLE.replace('"id"', "{}"), "tables.people.unit.column", "person_id"),
    (PEOPLE.replace('"id"', '{ colum = "id", column = "id" }'), "tables.people.unit.colum", "did you mean column?"),
    (PEOPLE.replace('"id"', '{ column = "id", domain = "" }'), "tables.people.unit.domain", "domain"),
    (PEOPLE + "rows_per_unit = 0", "tables.people.rows_per_unit", "1 or more"),
    (PEOPLE + "rows_per_unit = true", "tables.people.rows_per_unit", "1 or more"),
    (PEOPLE.replace('"id"', '"row"') + "rows_per_unit = 1", "tables.people.rows_per_unit", "leave it out"),
    (PEOPLE + "key = []", "tables.people.key", "name a column"),
    (PEOPLE + 'key = ["a", "A"]', "tables.people.key", "once"),
    (PEOPLE + "key = 3", "tables.people.key", 'key = "..."'),
    # links
    (items('{ through = "order", on = { x = "a", y = "b" } }'), "tables.items.unit.through", "did you mean orders?"),
    (items('{ through = "nation", on = { x = "a" } }'), "tables.items.unit.through", "a table with a unit"),
    (items('{ through = "orders" }'), "tables.items.unit.on", "order_id"),
    (items('{ on = { x = "a" } }'), "tables.items.unit.through", "the table that knows the owner"),
    (items('{ through = "orders", on = { x = "a" } }'), "tables.items.unit.on", "each key column once: a, b"),
    (items('{ through = "orders", on = { x = "a", y = "a" } }'), "tables.items.unit.on", "each key column once"),
    (items('{ through = "orders", on = { x = "a", X = "b" } }'), "tables.items.unit.on", "name each column once"),
    (items('{ through = "orders", on = { x = 3, y = "b" } }'), "tables.items.unit.on.x", '"..."'),
    (items('{ through = "orders", on = { x = "a", y = "b" }, column = "c" }'), "tables.items.unit.column", "through"),
    (items('{ through = "items", on = { x = "a" } }'), "tables.items.unit.through", "needs a unit column"),
    (
        items('{ through = "orders", on = { x = "a", y = "b" } }').replace('key = ["a", "b"]', ""),
        "tables.items.unit.through",
        "its unique columns",
    ),
    (
        items('{ through = "orders", on = { x = "a", y = "b" } }').replace('"cust"', '"row"'),
        "tables.items.unit.through",
        "give orders a unit column",
    ),
    # columns
    (PEOPLE + "[tables.people.columns]\nx = {}\nX = {}", "tables.people.columns.X", "case-insensitive"),
    (PEOPLE + "[tables.people.columns]\nx = 3", "tables.people.columns.x", "section"),
    (PEOPLE + '[tables.people.columns]\n"a b" = { mn = 1 }', 'tables.people.columns."a b".mn', "did you mean min?"),
    (column("min = 1").replace("p.parquet", "p.csv"), "tables.people.columns.x.type", 'type = "INTEGER"'),
    (column("min = 1").replace("p.parquet", "p/*.TSV.gz"), "tables.people.columns.x.type", 'type = "INTEGER"'),
    (column("type = 3"), "tables.people.columns.x.type", 'type = "..."'),
    (column('type = "INTEGR"'), "tables.people.columns.x.type", "did you mean INTEGER?"),
    (column('type = "DECIMAL(39, 2)"'), "tables.people.columns.x.type", "width 1 to 38"),
    (column('type = "DECIMAL(5, 6)"'), "tables.people.columns.x.type", "scale 0 to width"),
    (column('type = "INTEGER[]"'), "tables.people.columns.x.type", "their own columns"),
    (column('type = "STRUCT(a INT)"'), "tables.people.columns.x.type", "their own columns"),
    (column('type = "BLOB"'), "tables.people.columns.x.type", "leave the column out"),
    (column('type = "JSON"'), "tables.people.columns.x.type", "VARCHAR"),
    (column("min = 2, max = 1"), "tables.people.columns.x.min", "swap"),
    (column("min = 2024-02-01, max = 2024-01-01"), "tables.people.columns.x.min", "swap"),
    (column("min = true"), "tables.people.columns.x.min", "without quotes"),
    (column('min = "2024-01-01"'), "tables.people.columns.x.min", "without quotes"),
    (column('type = "DATE", min = "2024-13-01"'), "tables.people.columns.x.min", "2024-01-31"),
    (column('type = "DATE", max = 3'), "tables.people.columns.x.max", "write a date"),
    (column('type = "VARCHAR", max = 3'), "tables.people.columns.x.max", "write a text"),
    (column('type = "VARCHAR", max = "z"'), "tables.people.columns.x.max", "without quotes"),
    (column('type = "INTERVAL", max = 3'), "tables.people.columns.x.max", "leave it out"),
    (column("max = inf"), "tables.people.columns.x.max", "1e308"),
    (column("max = nan"), "tables.people.columns.x.max", "1e308"),
    (column("max = 1e999999"), "tables.people.columns.x.max", "1e308"),
    (column("min = 1, max = 2024-01-01"), "tables.people.columns.x.max", "in one type"),
    (column("min = 12:00:00"), "tables.people.columns.x.min", "plain value"),
    (column("values = []"), "tables.people.columns.x.values", 'values = ["a", "b"]'),
    (column('values = "a"'), "tables.people.columns.x.values", 'values = ["a", "b"]'),
    (column('values = ["a", "a"]'), "tables.people.columns.x.values", "once"),
    (column("values = [1, 1.0]"), "tables.people.columns.x.values", "once"),
    (column('values = ["a", 1]'), "tables.people.columns.x.values", "of one type"),
    (column("values = [true, 1]"), "tables.people.columns.x.values", "of one type"),
    (column("values = [1, nan]"), "tables.people.columns.x.values", "1e308"),
    (column("values = [[1]]"), "tables.people.columns.x.values", "plain value"),
    (column("min = 1, values = [0, 1]"), "tables.people.columns.x.values", "widen the range"),
    (column("max = 1, values = [1, 2]"), "tables.people.columns.x.values", "widen the range"),
    (column('max = 1, values = ["a"]'), "tables.people.columns.x.values", "in one type"),
    (column('type = "INTEGER", values = ["a"]'), "tables.people.columns.x.values", "write a number"),
    (column('type = "INTEGER", values = [1.5]'), "tables.people.columns.x.values", "correct the value or the type"),
    (column('type = "TINYINT", values = [128]'), "tables.people.columns.x.values", "correct the value or the type"),
    (column('type = "DECIMAL(3,1)", values = [0.25]'), "tables.people.columns.x.values", "correct the value"),
    (column('type = "FLOAT", values = [1e39]'), "tables.people.columns.x.values", "correct the value"),
    (column('type = "FLOAT", values = [0.1, 0.1000000001]'), "tables.people.columns.x.values", "once"),
    (column('type = "TIMESTAMP_S", values = [2024-01-01T00:00:00.5]'), "tables.people.columns.x.values", "correct"),
    (column('type = "UUID", values = ["x"]'), "tables.people.columns.x.values", "correct the value"),
    (column('private = "yes"'), "tables.people.columns.x.private", "private = true"),
    (column("nullable = 0"), "tables.people.columns.x.nullable", "nullable = false"),
    (
        BUDGET + NATION + "[tables.nation.columns]\nx = { private = true }",
        "tables.nation.columns.x.private",
        "leave out one",
    ),
    (column('type = "DAT", min = "2024-01-01"'), "tables.people.columns.x.type", "did you mean DATE?"),
    # references
    (column('references = "nation"') + NATION, "tables.people.columns.x.references", "nation.n_nationkey"),
    (column('references = "naton.k"') + NATION, "tables.people.columns.x.references", "did you mean nation?"),
    (column('references = "orders.k"') + ORDERS, "tables.people.columns.x.references", "public = true"),
    (column('references = "nation.k", values = [1]') + NATION, "tables.people.columns.x.references", "one of the two"),
    (PEOPLE + "[backend]\nurl = 'local[2]'\n", "backend.url", "leave it out"),
    (PEOPLE + "[backend]\nskewed = true\n", "backend.skewed", "leave it out"),
    (PEOPLE + "[backend]\nkind = 'spark'\nurl = 'local[2]'\nskewed = 1\n", "backend.skewed", "write skewed = true"),
    (PEOPLE + "[backend]\nkind = 'spark'\n", "backend.url", "sc://"),
    (PEOPLE + 'separator = ";"', "tables.people.separator", "leave it out"),
    (BUDGET + NATION + '[tables.nation.columns]\nx = { bounds = "auto" }', "tables.nation.columns.x.bounds", "leave"),
    (items('{ through = "orders", on = {} }'), "tables.items.unit.on", "columns of its key"),
    (PEOPLE.replace("delta", 'analysts = { "(steward)" = 1 }\ndelta'), 'budget.analysts."(steward)"', "another one"),
    (BUDGET + "[tables]", "tables", "name the data"),
    (PEOPLE + "[privacy]\nmax_rows = 'x'", "privacy.max_rows", 'max_rows = "auto"'),
    (PEOPLE + "[privacy]\nmax_rows = {}", "privacy.max_rows.most", "no more than so many"),
    (PEOPLE + '[privacy]\n"" = 1', "privacy", "NUL"),
    (PEOPLE.replace("delta", "share = 0.5\ndelta"), "budget.share", "leave it out"),
    (column('type = "QQQQ"'), "tables.people.columns.x.type", "say, INTEGER"),
    (column("min = 0001-01-01T00:00:00+05:00"), "tables.people.columns.x.min", "from 1 to 9999"),
    (PEOPLE + "[backend]\nkind = 'spark'\nurl = 'x'", "backend.url", "sc://"),
    (PEOPLE + "[engine]\ntimeout = 'x'", "engine.timeout", "10m"),
    (PEOPLE + "[engine]\nmemory = 'x'", "engine.memory", "75%"),
    (PEOPLE + "[engine]\nthreads = 0", "engine.threads", "threads = 4"),
    (PEOPLE + "[engine]\nspill = 'x'", "engine.spill", "0GB"),
    (PEOPLE + "[engine]\nfolder = 3", "engine.folder", "/var/tmp"),
]


@pytest.mark.parametrize(("toml", "path", "phrase"), MISTAKES, ids=[f"{n}-{m[1]}" for n, m in enumerate(MISTAKES)])
def test_a_mistake_is_reported_once_with_its_key_path_and_what_to_do(toml: str, path: str, phrase: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read(toml)
    assert caught.value.message.startswith(f"{path}: "), caught.value.message
    assert "\n" not in caught.value.message
    assert phrase in (caught.value.hint or "")


ELSEWHERE: tuple[Callable[[], object], ...] = (
    lambda: Policy.from_dict(5),  # type: ignore[arg-type]  # on purpose
    lambda: Policy.from_dict({"budget": None, "tables": {"t": {"source": "t.csv", "unit": "u"}}}),
    lambda: Policy.from_dict(
        {"budget": {"epsilon": 1}, "tables": {"t": {"unit": "u", "columns": {"x": {"values": [0] * 1_000_001}}}}}
    ),
    lambda: read(PEOPLE, sources=("zzz",)),
    lambda: from_environment(EngineSettings(), {"DPSQL_ENGINE_TIMEOUT": "x"}),
)
"""Mistakes that no file makes by itself."""
WORDING = Path(__file__).parent / "golden" / "policy" / "refusals.txt"


def wording() -> str:
    """What is said of every mistake, word for word."""
    lines = []
    files: tuple[Callable[[], object], ...] = tuple(partial(read, toml) for toml, _, _ in MISTAKES)
    for refused in files + ELSEWHERE:
        with pytest.raises(PolicyError) as caught:
            refused()
        lines += [f"{caught.value.message} [{caught.value.code}]", f"    {caught.value.hint}"]
    return "\n".join(lines) + "\n"


def test_mistakes_are_refused_in_the_words_of_the_golden_file(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        WORDING.write_text(wording(), encoding="utf-8")
    assert WORDING.read_text(encoding="utf-8") == wording()


@pytest.mark.parametrize("file", ["checks.py", "keys.py", "reader.py", "settings.py"])
def test_no_sentence_of_a_refusal_is_missing_in_the_golden_file(file: str) -> None:
    """Of every call that refuses something: the longest piece of what it says, and of what it proposes."""
    golden = WORDING.read_text(encoding="utf-8")
    tree = ast.parse((Path(__file__).parents[1] / "dpsql" / "policy" / file).read_text(encoding="utf-8"))
    said: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("wrong", "note", "missing", "Unfit"):
                said += [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "hint")]
        elif isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & {"what", "hint"}:
            said.append(node.value)
    assert said
    for expression in said:
        pieces = [n.value for n in ast.walk(expression) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        longest = max(pieces, key=len, default="")
        assert longest in golden, longest


def test_keys_of_later_versions_are_refused_as_such() -> None:
    with pytest.raises(PolicyError, match="is not supported by this version") as caught:
        read(PEOPLE.replace("delta", "share = 0.5\ndelta"))
    assert caught.value.code == "not-yet"


def test_automatic_bounds_take_a_tenth_unless_the_policy_says_another_share() -> None:
    said = read(column('bounds = "auto"')).tables["people"].columns["x"]
    assert said.share == Fraction(1, 10) and said.min is None and said.max is None
    assert read(column('bounds = "auto", share = 0.25')).tables["people"].columns["x"].share == Fraction(1, 4)
    assert read(column("min = 0")).tables["people"].columns["x"].share is None


def test_all_mistakes_are_reported_at_once_one_a_line() -> None:
    with pytest.raises(PolicyError) as caught:
        read(column("min = 2, max = 1").replace("epsilon = 1", "epsilon = 0") + "[privacy]\nmax_row = 3")
    paths = [line.split(":")[0] for line in caught.value.message.splitlines()]
    assert paths == ["budget.epsilon", "privacy.max_row", "tables.people.columns.x.min"]
    assert "privacy.max_row: did you mean max_rows?" in (caught.value.hint or "").splitlines()


def test_each_table_of_a_circle_of_links_is_reported() -> None:
    toml = BUDGET
    for here, there in ("ab", "bc", "ca"):
        toml += f'[tables.{here}]\nsource = "x.pq"\nkey = "k"\nunit = {{ through = "{there}", on = {{ f = "k" }} }}\n'
    with pytest.raises(PolicyError, match=r"tables\.a\.unit\.through: the links go round") as caught:
        read(toml)
    assert len(caught.value.message.splitlines()) == 3


def test_more_than_a_million_values_are_refused() -> None:
    policy = tomllib.loads(column("min = 0"))
    policy["tables"]["people"]["columns"]["x"] = {"values": list(range(1_000_001))}
    with pytest.raises(PolicyError, match=r"columns\.x\.values: has 1,000,001 values"):
        Policy.from_dict(policy)


@pytest.mark.parametrize("key", ["source", "unit"])
def test_none_is_never_taken_for_something_left_out(key: str) -> None:
    policy = tomllib.loads(PEOPLE)
    policy["tables"]["people"][key] = None
    with pytest.raises(PolicyError, match=rf"tables\.people\.{key}: must not be None"):
        Policy.from_dict(policy)
    with pytest.raises(PolicyError, match=r"budget\.delta: must not be None"):
        Policy.from_dict({**policy, "budget": {"epsilon": 1, "delta": None}})


def test_numbers_are_exactly_what_is_written() -> None:
    policy = read(PEOPLE.replace("epsilon = 1", "epsilon = 0.1") + "[tables.people.columns]\nx = { max = 0.3 }")
    assert policy.budget.epsilon == Fraction(1, 10)
    assert policy.tables["people"].columns["x"].max == Decimal("0.3")
    assert Policy.from_dict({**tomllib.loads(PEOPLE), "budget": {"epsilon": 0.1, "delta": 0}}).budget == (
        dataclasses.replace(policy.budget, delta=Fraction(0))
    )
    for tenth in (0.1, "0.1", " 1e-1 ", Decimal("0.1"), Fraction(1, 10)):
        assert parse_epsilon(tenth, where="--epsilon") == Fraction(1, 10)
    assert parse_delta("1e-300", where="d") == Fraction(1, 10**300)
    assert parse_delta(Decimal("0e-999999999"), where="d") == 0
    assert parse_epsilon("1e12", where="e") == 10**12


NO_NUMBERS = [float("nan"), float("inf"), True, "", "x", "1_0", "1/2", "١", Decimal("sNaN"), None, [1]]
TOO_SMALL = [0, -1, 1e-300, "1e-99999999999999999999", Decimal("1e-999999999"), Fraction(1, 10**7)]
TOO_LARGE = ["1e400", 10**5000, "9" * 5000]


@pytest.mark.parametrize("junk", [*NO_NUMBERS, *TOO_SMALL, *TOO_LARGE], ids=lambda junk: type(junk).__name__)
def test_no_epsilon_outside_its_range_gets_through(junk: object) -> None:
    with pytest.raises(PrivacyError, match=r"^error: --epsilon: ε must be") as caught:
        parse_epsilon(junk, where="--epsilon", error=PrivacyError)  # type: ignore[arg-type]
    assert caught.value.code == "bad-epsilon"


@pytest.mark.parametrize("junk", [-1e-9, 1e-3, "0.001", 1, float("nan"), "1e-301", False, "zero"])
def test_no_delta_outside_its_range_gets_through(junk: object) -> None:
    with pytest.raises(PolicyError, match=r"^error: --delta: δ must be"):
        parse_delta(junk, where="--delta")  # type: ignore[arg-type]


def test_a_private_table_without_a_unit_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads units: without one, a table would count as public."""
    monkeypatch.setattr(model, "ColumnUnit", lambda *_: None)
    with pytest.raises(AssertionError, match="people: a table is public, or its rows have owners"):
        read(PEOPLE)


def test_names_are_found_in_any_case_and_keep_their_spelling() -> None:
    policy = read(column("min = 0").replace("people", "People").replace("x =", "Age ="))
    table = policy.table("PEOPLE")
    assert table is not None
    assert table.name == "People"
    found = table.column("aGE")
    assert found is not None
    assert found.name == "Age"
    assert policy.table("nobody") is None
    assert table.column("nothing") is None


def test_a_unit_is_a_row_a_column_a_column_called_row_or_a_link() -> None:
    def unit(written: str) -> object:
        return read(PEOPLE.replace('"id"', written)).tables["people"].unit

    assert unit('"row"') == RowUnit()
    assert unit('"id"') == ColumnUnit("id", "")
    assert unit('{ column = "row" }') == ColumnUnit("row", "")
    assert unit('{ column = "d_id", domain = "Doctor" }') == ColumnUnit("d_id", "doctor")
    linked = read(items('{ through = "Orders", on = { x = "B", y = "a" } }')).tables["items"].unit
    assert linked == LinkedUnit("Orders", (("x", "B"), ("y", "a")))


def test_half_open_ranges_are_allowed() -> None:
    found = read(column("min = 0")).tables["people"].columns["x"]
    assert (found.min, found.max) == (Decimal(0), None)


def test_dates_and_timestamps_are_read_from_toml_and_from_iso_text() -> None:
    def low(written: str) -> object:
        return read(column(written)).tables["people"].columns["x"].min

    assert low("min = 2024-01-31") == date(2024, 1, 31)
    assert low('type = "DATE", min = "2024-01-31"') == date(2024, 1, 31)
    assert low('type = "TIMESTAMP", min = 2024-01-31') == datetime(2024, 1, 31)
    assert low('type = "DATETIME", min = "2024-01-31 12:00"') == datetime(2024, 1, 31, 12)
    assert low("min = 2024-01-31T12:00:00+02:00") == datetime(2024, 1, 31, 10)
    values = read(column('type = "DATE", values = [2024-01-01, "2024-01-02"]')).tables["people"].columns["x"].values
    assert values == (date(2024, 1, 1), date(2024, 1, 2))


def test_values_are_kept_as_the_column_holds_them() -> None:
    def values(written: str) -> object:
        return read(column(written)).tables["people"].columns["x"].values

    assert repr(values('type = "INTEGER", values = [1.0, 2]')) == "(1, 2)"
    assert repr(values("values = [0.1, 2]")) == "(Decimal('0.1'), 2)"
    assert repr(values('type = "FLOAT", max = 0.1, values = [0.1]')) == "(Decimal('0.1'),)"
    assert values("values = [true, false]") == (True, False)
    assert values('type = "UUID", values = ["00000000-0000-0000-0000-0000000000AB"]') == (
        "00000000-0000-0000-0000-0000000000ab",
    )


@pytest.mark.parametrize("alias", [*TYPES, "VARCHAR(20)", "DECIMAL", "NUMERIC(5)", "dec ( 9 , 2 )", "timestamptz"])
@pytest.mark.sample(3)
def test_types_are_called_what_duckdb_calls_them(alias: str) -> None:
    described = duckdb.connect().execute(f"SELECT CAST(NULL AS {alias}) AS x").description
    assert described is not None
    assert column_type(alias) == str(described[0][1])


def test_tables_passed_from_python_need_no_source() -> None:
    toml = PEOPLE.replace('source = "p.parquet"\n', "")
    assert read(toml, sources=("PEOPLE",)).tables["people"].source is None
    assert read(toml, sources=None).tables["people"].source is None
    with pytest.raises(PolicyError, match=r"sources\.poeple: the policy has no such table") as caught:
        read(PEOPLE, sources=("poeple",))
    assert caught.value.hint == "did you mean people?"


def test_the_kind_of_a_source_comes_from_the_end_of_its_name() -> None:
    kinds = {"a/*.parquet": "parquet", "A.CSV.GZ": "csv", "x.tsv": "csv", "y.db": "duckdb", "z.parquet.gz": None}
    assert {source: source_kind(source) for source in kinds} == kinds


def test_the_ledger_lies_beside_the_policy_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.toml").write_text(PEOPLE)
    monkeypatch.chdir(tmp_path)
    loaded = Policy.load("shop.toml")
    monkeypatch.chdir("/")
    assert loaded.ledger_path == tmp_path / "shop.ledger.sqlite"
    assert read(PEOPLE).folder == Path("/")
    assert Policy.from_dict(tomllib.loads(PEOPLE), folder=tmp_path).ledger_path == tmp_path / "policy.ledger.sqlite"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[budget]\nepsilon = = 3", r"is not valid TOML: .*line 2, column 11"),
        (b"\xff", "is not UTF-8"),
        (b"x = 1e99999999999999999999", "is not usable TOML"),
        (b"x = " + b"9" * 5000, "is not usable TOML"),
        (b"x = " + b"[" * 100_000, "is not usable TOML"),
    ],
)
def test_a_file_that_is_no_toml_says_where(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "policy.toml").write_bytes(content)
    with pytest.raises(PolicyError, match=message):
        Policy.load(tmp_path / "policy.toml")


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"there is no such policy file") as caught:
        Policy.load(tmp_path / "policy.toml")
    assert "dpsql init" in (caught.value.hint or "")
    with pytest.raises(PolicyError, match="can't be read"):
        Policy.load(tmp_path)


def test_the_relation_is_the_same_whatever_the_spelling_and_the_order() -> None:
    one = read(items('{ through = "orders", on = { x = "a", y = "b" } }'))
    other = read(
        BUDGET
        + '[tables.ITEMS]\nsource = "j.csv"\nunit = { through = "ORDERS", on = { Y = "B", X = "A" } }\n'
        + '[tables.Orders]\nsource = "k.pq"\nunit = { column = "CUST" }\nkey = ["A", "B"]\n'
    )
    assert one.relation() == other.relation()
    assert json.loads(one.relation()) == {
        "adjacency": "add_remove",
        "tables": {
            "items": {"unit": "link", "through": "orders", "on": [["x", "a"], ["y", "b"]]},
            "orders": {"unit": "column", "column": "cust", "domain": ""},
        },
    }


def test_another_unit_domain_or_adjacency_is_another_relation() -> None:
    relations = {
        read(toml).relation()
        for toml in (
            PEOPLE,
            PEOPLE.replace('"id"', '"row"'),
            PEOPLE.replace('"id"', '{ column = "row" }'),
            PEOPLE.replace('"id"', '{ column = "id", domain = "d" }'),
            PEOPLE + '[privacy]\nadjacency = "replace_one"',
        )
    }
    assert len(relations) == 5


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.text(max_size=5)
    | st.dates()
    | st.builds(datetime.replace, st.datetimes(), tzinfo=st.sampled_from([None, UTC, timezone(timedelta(hours=14))]))
    | st.times()
    | st.sampled_from([10**400, -(10**4000), Decimal("sNaN"), Decimal("1e-999999999"), "row", "DATE", "t.c", "a.csv"])
)
words = st.sampled_from(
    sorted(
        set(re.findall(r"[a-z_]+", EXAMPLE)) | {"type", "private", "nullable", "bounds", "share", "domain", "column"}
    )
)
names = words | st.text(max_size=3) | st.integers()
junk = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
table = st.dictionaries(st.sampled_from(["source", "table", "public", "unit", "rows_per_unit", "key", "columns"]), junk)
columns = st.dictionaries(
    words, st.dictionaries(st.sampled_from(["type", "min", "max", "values", "references", "private"]), junk)
)


@settings(max_examples=examples(80), deadline=None)
@given(
    junk
    | st.fixed_dictionaries(
        {"budget": st.dictionaries(words, junk), "privacy": junk, "tables": st.dictionaries(words, table)}
    )
    | st.fixed_dictionaries(
        {
            "budget": st.just({"epsilon": 1, "delta": 0}),
            "tables": st.fixed_dictionaries(
                {"t": st.fixed_dictionaries({"unit": st.just("u"), "columns": columns}), "u": table}
            ),
        }
    )
)
def test_junk_raises_nothing_but_a_policy_error(policy: object) -> None:
    try:
        read_ = Policy.from_dict(policy)  # type: ignore[arg-type]
    except PolicyError as error:
        assert ": " in error.message
        assert str(error)
    else:
        json.loads(read_.relation())


def test_an_anchor_is_a_path_or_a_command_and_nothing_by_default() -> None:
    def budget(line: str) -> Budget:
        return Policy.from_dict(tomllib.loads(PEOPLE.replace("delta", f"{line}\ndelta", 1))).budget

    assert (budget("").anchor, budget("").must_exist) == (None, False)
    assert budget('anchor = "note"').anchor == "note"
    assert budget('anchor = { command = ["keep", "it"] }').anchor == ("keep", "it")
    assert budget("must_exist = true").must_exist


def test_a_missing_delta_is_zero() -> None:
    assert read(PEOPLE.replace("delta = 1e-6\n", "")).budget.delta == 0


def test_a_table_may_have_limits_of_its_own() -> None:
    table = read(PEOPLE + "max_rows = 7\nmax_groups = 2").tables["people"]
    assert table.limits == {"max_rows": 7, "max_groups": 2}


def test_csv_columns_without_types_are_one_mistake_that_names_the_way_out() -> None:
    columns = "".join(f"c{n} = {{ min = 0 }}\n" for n in range(20))
    with pytest.raises(PolicyError) as caught:
        read(PEOPLE.replace("p.parquet", "p.csv") + "[tables.people.columns]\n" + columns)
    assert caught.value.message.startswith("tables.people.columns: the types of c0, c1, ")
    assert caught.value.message.endswith("c11 and 8 more are missing")
    assert "dpsql init p.csv --steward" in (caught.value.hint or "")
