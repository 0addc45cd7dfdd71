"""dpsql check: schemas for everybody, promises for the steward."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dpsql.analyze.ownership import SCAN
from dpsql.cli.main import cli
from dpsql.core.errors import PolicyError
from dpsql.engine import Shared
from dpsql.policy.model import Policy
from dpsql.steward.check import check

COUNT = "SELECT COUNT(*) FROM visits"
BUDGET = "[budget]\nepsilon = 10\ndelta = 0\nquery_epsilon = 1\n"


class Folder:
    """A policy with one table, and commands run on it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def visits(self, **columns: object) -> None:
        pq.write_table(pa.table(columns), self.path / "visits.parquet")

    def policy(self, table: str, columns: str = "", source: str = "visits.parquet") -> None:
        text = f'{BUDGET}[tables.visits]\nsource = "{source}"\n{table}\n[tables.visits.columns]\n{columns}\n'
        (self.path / "policy.toml").write_text(text)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, [*arguments, "--policy", str(self.path / "policy.toml")])

    def verified(self) -> frozenset[str]:
        engine = Shared(Policy.load(self.path / "policy.toml"), {}, None)
        try:
            found = engine.promises()["visits"]
            # Without what opening the data finds out.
            return frozenset(p.removesuffix(f", {SCAN}") for p in found if not p.startswith(SCAN))
        finally:
            engine.close()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_plain_check_says_what_is_declared_and_verifies_nothing(folder: Folder) -> None:
    folder.visits(id=[1, 2], cost=[1.0, 2.0], ward=["a", "b"], note=["x", "y"], weight=[1, 2], ok=[True, False])
    folder.policy('unit = "id"\nrows_per_unit = 1', 'cost = { min = 0, max = 9 }\nward = { values = ["a", "b"] }')
    done = folder.run("check")
    assert done.exit_code == 0 and done.stderr == ""
    for piece in (
        "visits: private, from visits.parquet",
        "unit     id, rows_per_unit = 1 (not verified: dpsql check --steward)",
        "ranges   cost 0 to 9",
        "keys     ward (2 values), ok (true, false)",
        "no SUM or AVG of weight",
        "GROUP BY note: not public",
    ):
        assert piece in done.stdout, done.stdout
    assert folder.verified() == frozenset()


def test_a_promise_counts_after_the_stewards_check_and_only_then(folder: Folder) -> None:
    folder.visits(id=[1, 2, None, None], cost=[1.0, 2.0, 3.0, 4.0])
    folder.policy('unit = "id"\nrows_per_unit = 1')
    assert "enforced  max_rows = 1" in folder.run("explain", COUNT).stdout
    done = folder.run("check", "--steward")
    assert done.exit_code == 0 and "not private" in done.stderr
    assert "(verified)" in done.stdout and "2 rows with no id: they belong to nobody" in done.stdout
    assert folder.verified() == {"rows_per_unit=1:id"}
    assert "enforced  nothing" in folder.run("explain", COUNT).stdout


def test_a_broken_promise_exits_with_6_and_is_not_relied_on(folder: Folder) -> None:
    folder.visits(id=[1, 1, 1, 2])
    folder.policy('unit = "id"\nrows_per_unit = 2')
    done = folder.run("check", "--steward")
    assert done.exit_code == 6
    assert "BROKEN   rows_per_unit = 2: the most rows of one id are 3, and 1 have more" in done.stdout
    assert "1 promise of the policy is broken" in done.stderr
    assert folder.verified() == frozenset()
    assert "enforced  max_rows = 2" in folder.run("explain", COUNT).stdout


def test_a_promise_does_not_outlive_the_data_it_was_verified_for(folder: Folder) -> None:
    folder.visits(id=[1, 2])
    folder.policy('unit = "id"\nrows_per_unit = 1')
    assert folder.run("check", "--steward").exit_code == 0
    folder.visits(id=[1, 1])
    assert folder.run("check", "--steward").exit_code == 5
    assert folder.run("budget", "--accept-data-change", "--steward").exit_code == 6
    assert folder.verified() == frozenset()
    assert folder.run("check", "--steward").exit_code == 6


@pytest.mark.parametrize(
    ("a", "b", "holds"),
    [
        ([1, 1, 2], [1, 2, 1], True),
        ([1, 1, 2], [1, 1, 1], False),
        ([1, 1, 2], [None, 2, 1], True),
        ([1, 1, 2], [None, None, 1], False),
        ([None, None, 2], [None, None, 1], False),
    ],
)
def test_a_composite_key_is_unique_as_a_whole_and_two_nulls_are_one_key(
    folder: Folder, a: list[int | None], b: list[int | None], holds: bool
) -> None:
    folder.visits(id=[1, 2, 3], A=a, b=b)
    folder.policy('unit = "id"\nkey = ["a", "B"]')
    done = folder.run("check", "--steward")
    assert done.exit_code == (0 if holds else 6)
    assert folder.verified() == ({"key=a,b"} if holds else frozenset())


@pytest.mark.parametrize("holds", [True, False])
def test_nullable_false_means_that_no_row_is_null(folder: Folder, holds: bool) -> None:
    folder.visits(ward=["a", "b" if holds else None])
    folder.policy('unit = "row"', 'ward = { values = ["a", "b"], nullable = false }')
    done = folder.run("check", "--steward")
    assert done.exit_code == (0 if holds else 6)
    assert folder.verified() == ({"nullable=false:ward"} if holds else frozenset())


def test_all_broken_promises_are_reported_at_once(folder: Folder) -> None:
    folder.visits(id=[1, 1], ward=["a", None])
    folder.policy('unit = "id"\nrows_per_unit = 1\nkey = "id"', "ward = { nullable = false }")
    done = folder.run("check", "--steward")
    assert done.exit_code == 6 and "3 promises of the policy are broken" in done.stderr


def test_values_outside_a_range_or_a_list_are_information_and_no_broken_promise(folder: Folder) -> None:
    folder.visits(cost=[-1.0, 5.0, 50.0, float("nan"), float("inf"), None], ward=["a", "z", "z", None, "b", "a"])
    folder.policy('unit = "row"', 'cost = { min = 0, max = 9 }\nward = { values = ["a", "b"] }')
    done = folder.run("check", "--steward")
    assert done.exit_code == 0
    assert "2 rows with cost outside its min and max: those values are clipped" in done.stdout
    assert "2 rows with cost not finite: it counts as NULL" in done.stdout
    assert "2 rows with ward not among its values" in done.stdout
    assert "rows with" not in folder.run("check").stdout


def test_malformed_csv_lines_and_misfits_are_counted(folder: Folder) -> None:
    (folder.path / "visits.csv").write_text('cost,ward\n1,a\nabc,b\n2\n3,a,x\n4,"a"\n,\n')
    columns = 'cost = { type = "INTEGER", min = 0, max = 9 }\nward = { type = "VARCHAR" }'
    folder.policy('unit = "row"', columns, "visits.csv")
    shown = folder.run("check", "--steward").stdout
    assert "2 rows of visits.csv malformed: they are left out" in shown
    assert "1 row with cost not of type INTEGER: it counts as NULL" in shown


def test_two_listed_values_that_are_one_in_the_columns_type_are_a_mistake(folder: Folder) -> None:
    folder.visits(size=pa.array([1, 2], pa.int32()))
    folder.policy('unit = "row"', "size = { values = [1, 1.2] }")
    with pytest.raises(PolicyError) as refused:
        check(folder.path / "policy.toml", steward=False)
    assert "tables.visits.columns.size.values: 1 and 1.2 are the same INTEGER" in refused.value.message


def test_a_listed_value_that_does_not_fit_the_columns_type_is_a_mistake(folder: Folder) -> None:
    folder.visits(size=pa.array([1, 2], pa.int32()))
    folder.policy('unit = "row"', 'size = { values = ["small"] }')
    done = folder.run("check")
    assert done.exit_code == 5 and "small is no INTEGER" in done.stderr


def test_a_column_that_the_data_does_not_have_is_a_mistake_with_a_suggestion(folder: Folder) -> None:
    folder.visits(cost=[1.0])
    folder.policy('unit = "row"', "costs = { min = 0, max = 1 }")
    done = folder.run("check")
    assert done.exit_code == 5 and "did you mean cost?" in done.stderr


def test_names_with_quotes_and_keywords_are_checked_like_any_other(folder: Folder) -> None:
    folder.visits(**{'x"; DROP TABLE t; --': [1, 1], "select": [1, None]})
    folder.policy("unit = 'x\"; DROP TABLE t; --'\nrows_per_unit = 2", "select = { nullable = false }")
    done = folder.run("check", "--steward")
    assert done.exit_code == 6 and "1 promise of the policy is broken: visits: select" in done.stderr


def test_duckdb_tables_and_public_tables_are_checked(folder: Folder) -> None:
    import duckdb

    with duckdb.connect(str(folder.path / "shop.duckdb")) as shop:
        shop.execute("CREATE TABLE orders AS SELECT range AS id, 'a' AS kind FROM range(5)")
    (folder.path / "kinds.csv").write_text("kind\na\nb\n")
    (folder.path / "policy.toml").write_text(
        BUDGET + '[tables.orders]\nsource = "shop.duckdb"\ntable = "main.orders"\nunit = "id"\nrows_per_unit = 1\n'
        '[tables.orders.columns]\nkind = { references = "kinds.kind" }\n'
        '[tables.kinds]\nsource = "kinds.csv"\npublic = true\n'
    )
    shown = folder.run("check", "--steward")
    assert shown.exit_code == 0
    assert "orders: private, from shop.duckdb, table main.orders" in shown.stdout
    assert "keys     kind (those of kinds.kind)" in shown.stdout and "kinds: public, from kinds.csv" in shown.stdout


def test_the_account_is_described(folder: Folder) -> None:
    folder.visits(id=[1, 2])
    folder.policy('unit = "id"')
    policy = folder.path / "policy.toml"
    budget = 'delta = 1e-6\naccountant = "zcdp"\nrenew = "monthly"\nanalysts = { ada = 2, "*" = 1 }\n'
    policy.write_text(policy.read_text().replace("delta = 0\n", budget))
    shown = folder.run("check").stdout
    for piece in ("by zcdp   ρ = 1.4", "each month", "no theorem", "quotas    ada 2, everybody else 1 (of ε"):
        assert piece in shown
