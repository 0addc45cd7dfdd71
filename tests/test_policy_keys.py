"""Every key of a policy is declared once: the reader, docs/policy.md and the JSON Schema agree on all of them."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.cli.main import cli
from dpsql.core.errors import PolicyError
from dpsql.policy import keys
from dpsql.policy.model import (
    LIMITS,
    Budget,
    Column,
    ColumnUnit,
    Data,
    LinkedUnit,
    Policy,
    Privacy,
    Table,
)
from dpsql.policy.reference import json_schema, reference
from dpsql.policy.settings import BackendSettings, EngineSettings

ROOT = Path(__file__).parents[1]
BASE: dict[str, Any] = {"budget": {"epsilon": 1}, "tables": {"t": {"source": "t.parquet", "unit": "u"}}}
EVERYTHING = """
[budget]
epsilon = 3
delta = 1e-6
query_epsilon = 0.3
max_query_epsilon = 1
accountant = "zcdp"
ledger = "x.sqlite"
anchor = { command = ["a", "b"] }
must_exist = true
analysts = { a = 0.5, "*" = 0.2 }
renew = "monthly"
[privacy]
adjacency = "replace_one"
max_rows = 20
max_rows_per_group = 5
max_groups = 4
min_units = 10
limits_share = 0.1
keys_share = 0.6
mechanism = "laplace"
[data]
on_change = "accept"
[engine]
timeout = "10m"
memory = "75%"
threads = 4
spill = "64GB"
folder = "/var/tmp"
untested = "refuse"
[backend]
kind = "spark"
url = "sc://spark.example:15002"
skewed = true
[tables.o]
source = "o.duckdb"
table = "main.o"
unit = { column = "c", domain = "d" }
rows_per_unit = 3
key = ["a", "b"]
max_rows = 2
max_rows_per_group = 1
max_groups = 1
[tables.l]
source = "l.csv"
separator = ";"
unit = { through = "o", on = { x = "a", y = "b" } }
[tables.l.columns]
a = { type = "INTEGER", min = 0, max = 5, nullable = false }
b = { type = "VARCHAR", values = ["p", "q"], private = true }
c = { type = "DOUBLE", bounds = "auto", share = 0.2 }
d = { type = "INTEGER", references = "n.k" }
e = { type = "DATE", min = 2024-01-01, max = 2024-12-31 }
[tables.n]
source = "n.csv"
public = true
"""


def sections() -> list[tuple[keys.Part, keys.Key]]:
    return [(part, key) for part in keys.PARTS for key in part.keys]


def placed(part: keys.Part, key: str, value: object) -> dict[str, Any]:
    """A policy that has one more key, in its section."""
    where = part.path.replace("<table>", "t").replace("<column>", "c").split(".")
    policy: dict[str, Any] = json.loads(json.dumps(BASE))
    inner = policy
    for step in where:
        if not isinstance(inner.get(step), dict):
            inner[step] = {}
        inner = inner[step]
    inner[key] = value
    return policy


def problems(policy: Mapping[str, Any]) -> str:
    try:
        Policy.from_dict(policy)
    except PolicyError as error:
        return error.message
    return ""


@pytest.mark.parametrize(("part", "key"), sections(), ids=lambda one: getattr(one, "path", getattr(one, "name", "")))
def test_the_reader_knows_every_key_and_takes_its_example(part: keys.Part, key: keys.Key) -> None:
    example = tomllib.loads(f"x = {key.example}", parse_float=Decimal)["x"]
    said = problems(placed(part, key.name, example))
    assert "unknown key" not in said
    assert f".{key.name}: must" not in said, said
    assert "unknown key" in problems(placed(part, "zzz", 1))


@pytest.mark.parametrize(("part", "key"), sections(), ids=lambda one: getattr(one, "path", getattr(one, "name", "")))
def test_every_key_is_documented_in_a_sentence_with_an_example(part: keys.Part, key: keys.Key) -> None:
    assert key.text.endswith(".") and len(key.text) > 15 and key.example
    assert key.needed or key.default or part in (keys.TABLE,), "say what holds without it"
    shown = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8").split(f"## `[{part.path}]`", 1)[1]
    assert f"| `{key.name}` | {key.text}" in shown


MADE = (  # without a value of its own: ANCHOR, whose value is the command
    (keys.BUDGET, Budget), (keys.PRIVACY, Privacy), (keys.ENGINE, EngineSettings), (keys.BACKEND, BackendSettings),
    (keys.DATA, Data), (keys.TABLE, Table), (keys.UNIT_COLUMN, ColumnUnit), (keys.UNIT_LINK, LinkedUnit),
    (keys.COLUMN, Column), (keys.POLICY, Policy),
)  # fmt: skip


@pytest.mark.parametrize(("part", "made"), MADE, ids=lambda one: getattr(one, "__name__", getattr(one, "path", "")))
def test_every_key_is_a_field_of_the_model(part: keys.Part, made: type[Any]) -> None:
    """So that a new key needs a line and a field, and no code that carries it from one to the other."""
    elsewhere = {
        Table: ({*LIMITS}, {"name", "limits"}),
        Column: ({"bounds"}, {"name"}),
        Policy: (set(), {"path", "base", "digest"}),
    }
    kept, given = elsewhere.get(made, (set(), set()))
    assert set(part.names) - kept == {field.name for field in fields(made)} - given
    assert sorted(part.path for part in (*keys.PARTS, keys.POLICY)) == sorted(
        part.path for part in (*(part for part, _ in MADE), keys.ANCHOR)
    )


@pytest.mark.parametrize(("part", "key"), sections(), ids=lambda one: getattr(one, "path", getattr(one, "name", "")))
def test_a_default_that_is_a_value_is_what_holds_without_the_key(part: keys.Part, key: keys.Key) -> None:
    try:
        default = tomllib.loads(f"x = {key.default}", parse_float=Decimal)["x"]
    except tomllib.TOMLDecodeError:
        assert not key.default or re.search(r"[a-z]", key.default), key.default  # in words
        return
    beside = {"share": {"bounds": "auto"}, "skewed": {"kind": "spark", "url": "local[2]"}}.get(key.name, {})
    without = placed(part, key.name, default)
    within = without
    for step in part.path.replace("<table>", "t").replace("<column>", "c").split("."):
        within = within[step]
    within |= beside
    written = Policy.from_dict(without)
    del within[key.name]
    assert written == Policy.from_dict(without)


def test_the_reader_asks_for_no_key_that_is_not_declared() -> None:
    """The literal keys that the readers ask a section for; an undeclared one could never be written."""
    declared = {key.name for _, key in sections()} | set(keys.POLICY.names)
    asking = {"text", "flag", "count", "choice", "parsed", "attempt", "names", "section", "missing", "wrong", "get"}
    for file in ("keys.py", "checks.py"):
        tree = ast.parse((ROOT / "dpsql" / "policy" / file).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in asking:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    assert first.value in declared, (file, first.value)


def test_the_reference_is_up_to_date() -> None:
    shown = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    assert shown == reference(), "python -m dpsql.policy.reference > docs/policy.md"


# ---------------------------------------------------------------- the JSON Schema


def fits(value: Any, form: Mapping[str, Any]) -> bool:
    """Whether a value fits a schema: the words that ours uses, and no others."""
    known = {
        "$schema", "title", "description", "type", "enum", "minimum", "maximum", "exclusiveMaximum", "minLength",
        "pattern", "items", "minItems", "uniqueItems", "properties", "required", "additionalProperties",
        "minProperties", "anyOf",
    }  # fmt: skip
    assert set(form) <= known, set(form) - known
    types = [form["type"]] if isinstance(form.get("type"), str) else form.get("type")
    if types and not any(is_a(value, type_) for type_ in types):
        return False
    if "anyOf" in form and not any(fits(value, one) for one in form["anyOf"]):
        return False
    if "enum" in form and value not in form["enum"]:
        return False
    if isinstance(value, str):
        return len(value) >= form.get("minLength", 0) and bool(re.search(form.get("pattern", ""), value))
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        under = form.get("exclusiveMaximum", float("inf"))
        return bool(form.get("minimum", -float("inf")) <= value <= form.get("maximum", float("inf")) and value < under)
    if isinstance(value, list):
        return len(value) >= form.get("minItems", 0) and all(fits(one, form.get("items", {})) for one in value)
    if isinstance(value, dict):
        properties, others = form.get("properties", {}), form.get("additionalProperties", True)
        if not set(form.get("required", ())) <= set(value) or len(value) < form.get("minProperties", 0):
            return False
        rest = {key: one for key, one in value.items() if key not in properties}
        if rest and (others is False or (others is not True and not all(fits(one, others) for one in rest.values()))):
            return False
        return all(fits(one, properties[key]) for key, one in value.items() if key in properties)
    return True


def is_a(value: Any, type_: str) -> bool:
    match type_:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str | date | datetime)  # editors take TOML's dates for strings
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    raise AssertionError(type_)


def toml(text: str) -> dict[str, Any]:
    return tomllib.loads(text, parse_float=Decimal)


POLICIES = [*(ROOT / "examples").glob("*/policy.toml"), *(ROOT / "tests").rglob("policy.toml")]


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.parent.name)
def test_policies_that_the_reader_takes_fit_the_schema(path: Path) -> None:
    assert fits(toml(path.read_text(encoding="utf-8")), json_schema())


def test_a_policy_with_every_key_is_read_and_fits_the_schema() -> None:
    policy = toml(EVERYTHING)
    assert problems(policy) == "" and fits(policy, json_schema())
    for part, key in sections():
        assert re.search(rf"\b{key.name} = |\[tables\.l\.{key.name}\]", EVERYTHING), (part.path, key.name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("epsilon = 3", "epsilom = 3"),
        ("epsilon = 3", 'epsilon = "3"'),
        ("epsilon = 3", "epsilon = 0"),
        ("delta = 1e-6", "delta = 0.1"),
        ("max_rows = 20", "max_rows = 0"),
        ("max_rows = 20", "max_rows = 1.5"),
        ('adjacency = "replace_one"', 'adjacency = "other"'),
        ('unit = { column = "c", domain = "d" }', 'unit = { domain = "d" }'),
        ("nullable = false", 'nullable = "no"'),
        ('values = ["p", "q"]', "values = []"),
        ('references = "n.k"', 'references = "k"'),
        ('memory = "75%"', 'memory = "much"'),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses_too(before: str, after: str) -> None:
    assert before in EVERYTHING
    policy = toml(EVERYTHING.replace(before, after, 1))
    assert problems(policy) and not fits(policy, json_schema())


def test_check_prints_the_schema_without_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["check", "--schema"])
    assert done.exit_code == 0 and json.loads(done.stdout) == json_schema()
