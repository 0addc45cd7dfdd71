"""dpsql init: a draft that check accepts, from names alone or from rows, and questions for every decision."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.core.errors import DataError, PolicyError
from dpsql.core.types import Type
from dpsql.policy.model import Policy
from dpsql.refresh.promises import AT_ONCE
from dpsql.steward.check import check
from dpsql.steward.init import Answers, Prospect, draft, look_at
from dpsql.steward.ranges import outwards
from dpsql.steward.unit_guess import entity_of, meaning

Write = Callable[..., None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parquet(path: str, **columns: object) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def drafted(*data: str, steward: bool = False, **answers: Any) -> dict[str, Any]:
    """The draft as a policy reads it; check accepts it as it stands, and so do its promises."""
    prospect = look_at(data, Path.cwd(), steward=steward)
    text = draft(prospect, Answers(**answers)).text
    Path("policy.toml").write_text(text, encoding="utf-8")
    assert not check("policy.toml", steward=False).broken
    if steward:
        assert not check("policy.toml", steward=True).broken
    return tomllib.loads(text)


def written(*data: str, steward: bool = False, **answers: Any) -> str:
    drafted(*data, steward=steward, **answers)
    return Path("policy.toml").read_text(encoding="utf-8")


# ---------------------------------------------------------------- who is protected


def test_an_id_in_several_tables_is_the_unit_and_linked_tables_go_through_the_one_that_knows_it(folder: Path) -> None:
    parquet("customer.parquet", c_custkey=[1, 2], c_name=["a", "b"])
    parquet("orders.parquet", o_orderkey=[7, 8], o_custkey=[1, 2], o_totalprice=[1.5, 2.5])
    parquet("lineitem.parquet", l_orderkey=[7, 8], l_quantity=[1, 2])
    tables = drafted(".")["tables"]
    assert tables["customer"]["unit"] == "c_custkey" and tables["orders"]["unit"] == "o_custkey"
    assert tables["lineitem"]["unit"] == {"through": "orders", "on": {"l_orderkey": "o_orderkey"}}
    assert tables["orders"]["key"] == "o_orderkey"


def test_a_chain_of_links_is_followed_to_its_end(folder: Path) -> None:
    parquet("users.parquet", id=[1], country=["x"])
    parquet("orders.parquet", id=[7], user_id=[1])
    parquet("items.parquet", id=[70], order_id=[7])
    parquet("parcels.parquet", item_id=[70], weight=[1.0])
    tables = drafted(".")["tables"]
    assert tables["users"]["unit"] == "id" and tables["orders"]["unit"] == "user_id"
    assert tables["items"]["unit"] == {"through": "orders", "on": {"order_id": "id"}}
    assert tables["parcels"]["unit"] == {"through": "items", "on": {"item_id": "id"}}


def test_without_an_evident_id_each_row_is_protected_and_the_question_is_asked(folder: Path) -> None:
    parquet("survey.parquet", age=[1, 2], children=[0, 3], answer=["x", "y"])
    text = written("survey.parquet")
    assert tomllib.loads(text)["tables"]["survey"]["unit"] == "row"
    assert "# ? Who is protected in survey?" in text


def test_a_link_that_rows_disprove_is_not_proposed(folder: Path) -> None:
    parquet("orders.parquet", order_id=[7, 7], user_id=[1, 2])
    parquet("items.parquet", order_id=[7], n=[1])
    assert drafted(".", steward=False)["tables"]["items"]["unit"] == {
        "through": "orders",
        "on": {"order_id": "order_id"},
    }
    for name in ("policy.toml", "policy.ledger.sqlite", "policy.ledger.sqlite.key"):
        Path(name).unlink()
    assert drafted(".", steward=True)["tables"]["items"]["unit"] == "row"


def test_other_peoples_ids_are_a_domain_apart_and_a_second_id_is_asked_about(folder: Path) -> None:
    parquet("orders.parquet", customer_id=[1], employee_id=[1], total=[1.0])
    parquet("customers.parquet", customer_id=[1])
    parquet("shifts.parquet", employee_id=[1], hours=[8])
    text = written(".")
    tables = tomllib.loads(text)["tables"]
    assert tables["orders"]["unit"] == "customer_id"
    assert tables["shifts"]["unit"] == {"column": "employee_id", "domain": "employee"}
    assert "# ? employee_id names people, too, and this draft does NOT protect them" in text
    assert "dpsql init --unit employee protects each employee instead" in " ".join(text.split("\n# "))


def test_the_steward_may_name_whom_to_protect(folder: Path) -> None:
    parquet("visits.parquet", user_id=[1, 1], ward=["a", "b"])
    assert drafted(".", unit="row")["tables"]["visits"]["unit"] == "row"
    for name in ("policy.toml", "policy.ledger.sqlite", "policy.ledger.sqlite.key"):
        Path(name).unlink()
    assert drafted(".", unit="WARD")["tables"]["visits"]["unit"] == "ward"
    with pytest.raises(PolicyError, match="no table has a column wart") as refused:
        draft(look_at(["."], folder, steward=False), Answers(unit="wart"))
    assert refused.value.hint == "did you mean ward?"


@pytest.mark.parametrize(
    ("column", "table", "prefix", "entity", "is_id"),
    [
        ("c_custkey", "customer", "c_", "customer", True),
        ("userId", "visits", "", "user", True),
        ("id", "patients", "", "patient", True),
        ("patientid", "x", "", "patient", True),
        ("tailnum", "flights", "", "aircraft", True),
        ("uid", "x", "", "user", True),
        ("n_nationkey", "nation", "n_", "nation", True),
        ("paid", "x", "", "paid", False),
        ("children", "x", "", "child", False),
        ("flight", "flights", "", "flight", False),
    ],
)
def test_names_say_what_a_column_is_an_id_of(column: str, table: str, prefix: str, entity: str, is_id: bool) -> None:
    found = meaning(column, table, prefix)
    assert (found.entity, found.is_id) == (entity, is_id)


def test_tables_are_about_one_thing() -> None:
    assert [entity_of(t) for t in ("orders", "companies", "address", "people", "branches", "dim_users")] == [
        "order",
        "company",
        "address",
        "person",
        "branch",
        "user",
    ]


# ---------------------------------------------------------------- what is public


def test_no_table_is_public_unless_the_steward_says_so(folder: Path) -> None:
    parquet("nation.parquet", n_nationkey=[1, 2], n_name=["a", "b"])
    parquet("customer.parquet", c_custkey=[1], c_nationkey=[1])
    text = written(".")
    tables = tomllib.loads(text)["tables"]
    assert not any("public" in table for table in tables.values())
    assert tables["nation"]["unit"] == "row" and "# ? May everybody see all of nation?" in text
    assert '# c_nationkey = { references = "nation.n_nationkey" }' in text
    for name in ("policy.toml", "policy.ledger.sqlite", "policy.ledger.sqlite.key"):
        Path(name).unlink()
    tables = drafted(".", public=frozenset({"nation"}))["tables"]
    assert tables["nation"] == {"source": "nation.parquet", "public": True}
    assert tables["customer"]["columns"]["c_nationkey"] == {"references": "nation.n_nationkey"}


def test_a_public_table_that_is_not_there_is_refused(folder: Path) -> None:
    parquet("nation.parquet", n_nationkey=[1, 2])
    with pytest.raises(PolicyError, match="there is no table nations") as refused:
        draft(look_at(["."], folder, steward=False), Answers(public=frozenset({"nations"})))
    assert refused.value.hint == "did you mean nation?"


def test_the_edit_that_a_comment_proposes_is_one_that_check_accepts(folder: Path) -> None:
    Path("visits.csv").write_text("user_id,ward,n\n" + "".join(f"{n // 2},{'ab'[n % 2]},{n}\n" for n in range(200)))
    Path("wards.csv").write_text("ward,floor\na,1\nb,2\n")
    text = written(".", steward=True)
    line = next(line for line in text.splitlines() if line.startswith("# ward = ") and "values" in line)
    edited = text.replace('ward = { type = "VARCHAR", nullable = false }\n', line.removeprefix("# ") + "\n", 1)
    assert edited != text
    Path("policy.toml").write_text(edited)
    assert check("policy.toml", steward=True).broken == ()


# ---------------------------------------------------------------- without a look at rows


def test_no_row_is_read_without_steward(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet("visits.parquet", user_id=[1, 1], cost=[12345, 67890])
    Path("notes.csv").write_text("user_id,text\n1,secret\n")
    monkeypatch.setattr("dpsql.steward.init.see", None)
    monkeypatch.setattr("dpsql.steward.init.unit_rows", None)
    text = written(".")
    assert not any(word in text for word in ("12345", "67890", "secret", "nullable = false", "WARNING"))
    columns = tomllib.loads(text)["tables"]
    assert columns["visits"]["columns"] == {"cost": {"bounds": "auto"}}
    assert columns["notes"]["columns"] == {"user_id": {"type": "VARCHAR"}, "text": {"type": "VARCHAR"}}
    assert "# ? What do the columns hold?" in text


def test_epsilon_and_delta_have_defaults_and_a_question_each(folder: Path) -> None:
    parquet("t.parquet", x=[1])
    text = written(".")
    assert tomllib.loads(text, parse_float=Decimal)["budget"] == {
        "epsilon": 3,
        "delta": Decimal("1e-6"),
        "query_epsilon": Decimal("0.05"),
    }
    lines = text.splitlines()
    for key in ("epsilon = 3", "delta = 1e-6"):
        before = lines[: lines.index(key)]
        assert next(line for line in reversed(before) if line.startswith(("# ?", "["))).startswith("# ?")


# ---------------------------------------------------------------- what rows show


CSV = """user_id,day,at,price,flag,kind,zip,code
1,2024-01-03,2024-01-03T10:00:00Z,1.5,true,a,01234,7
1,2024-02-05,2024-01-05 11:00:00,NA,false,b,20095,NA
2,2024-03-30,2024-01-05T11:30:00,99.25,true,a,80331,8
,,,,,,,
"""


def test_types_of_csv_columns_are_those_of_all_rows(folder: Path) -> None:
    Path("v.csv").write_text(CSV)
    table = drafted(".", steward=True)["tables"]["v"]
    assert {name: column["type"] for name, column in table["columns"].items()} == {
        "user_id": "INTEGER",
        "day": "DATE",
        "at": "TIMESTAMP",
        "price": "DOUBLE",
        "flag": "BOOLEAN",
        "kind": "VARCHAR",
        "zip": "VARCHAR",  # 01234 is no number
        "code": "INTEGER",
    }


def test_one_row_far_down_decides_a_type(folder: Path) -> None:
    Path("v.csv").write_text("a,b\n" + "1,1\n" * 5000 + "x,1.5\n")
    columns = drafted(".", steward=True)["tables"]["v"]["columns"]
    assert columns["a"]["type"] == "VARCHAR" and columns["b"]["type"] == "DOUBLE"


def test_what_rows_show_is_proposed_with_a_warning(folder: Path) -> None:
    parquet(
        "visits.parquet",
        user_id=[n // 3 for n in range(1200)],
        cost=[3.25, 17.0, 999.0, None] * 300,
        ward=["a", "b"] * 600,
        day=[date(2024, 1, 5), date(2024, 3, 9)] * 600,
    )
    parquet("people.parquet", user_id=list(range(400)), height=[1.5] * 400)
    text = written(".", steward=True)
    tables = tomllib.loads(text)["tables"]
    assert "WARNING: rows were read" in text
    assert tables["people"]["rows_per_unit"] == 1 and "rows_per_unit" not in tables["visits"]
    assert not any(word in text for word in ("max_rows =", "max_groups =", "400", "1,200"))
    visits = tables["visits"]["columns"]
    assert visits["cost"] == {"min": 0, "max": 1000}
    assert visits["day"] == {"nullable": False, "min": date(2024, 1, 1), "max": date(2024, 3, 31)}
    assert visits["ward"] == {"nullable": False}
    assert '# ward = { nullable = false, values = ["a", "b"] }' in text
    told = draft(look_at(["."], folder, steward=True), Answers()).findings
    assert "visits: rows of one user: 50% have at most 3, 90% 3, 99% 3, all of them 3 (400 in all)" in told


def test_delta_shrinks_with_the_number_of_units(folder: Path) -> None:
    parquet("t.parquet", user_id=list(range(1_000_000)))
    assert drafted(".", steward=True)["budget"]["delta"] == 1e-8


@pytest.mark.parametrize(
    ("low", "high", "type_", "name", "expected"),
    [
        (17, 90, "INTEGER", "age", (10, 90)),
        (-43, 1301, "INTEGER", "delay", (-200, 1400)),
        (1, 9, "INTEGER", "month", (1, 12)),
        (2013, 2013, "INTEGER", "year", (2013, 2013)),
        (0.001, 0.1, "DOUBLE", "rate", (0, Decimal("0.1"))),
        (-7.5, -0.5, "DOUBLE", "x", (-8, 0)),
        (5.0, 5.0, "DOUBLE", "x", (0, 5)),
        (-7, -7, "INTEGER", "x", (-7, 0)),
        (0, 0, "INTEGER", "x", (0, 1)),
        (Decimal("0.30"), Decimal("0.30"), "DECIMAL(9,2)", "x", (0, Decimal("0.3"))),
        (date(2024, 2, 3), date(2024, 2, 5), "DATE", "d", (date(2024, 2, 1), date(2024, 2, 29))),
        (date(1992, 2, 3), date(1998, 2, 5), "DATE", "d", (date(1992, 1, 1), date(1998, 12, 31))),
        (
            datetime(2024, 12, 3, 4),
            datetime(2024, 12, 31, 23, 30),
            "TIMESTAMP",
            "t",
            (datetime(2024, 12, 1), datetime(2024, 12, 31, 23, 59, 59)),
        ),
    ],
)
def test_ranges_are_rounded_outwards(low: Any, high: Any, type_: str, name: str, expected: tuple[Any, Any]) -> None:
    found = outwards(low, high, Type.parse(type_), name)
    assert found == expected
    if not isinstance(low, float):
        assert found[0] <= low and high <= found[1]


# ---------------------------------------------------------------- what a source can be


def test_files_globs_folders_and_databases_are_sources(folder: Path) -> None:
    with duckdb.connect("shop.duckdb") as shop:
        shop.execute(
            "CREATE TABLE users AS SELECT 1 AS id; CREATE SCHEMA s; CREATE TABLE s.visits AS SELECT 1 AS user_id"
        )
    parquet("events/part-0.parquet", user_id=[1])
    parquet("events/part-1.parquet", user_id=[2])
    parquet("logs/year=2024/x.parquet", user_id=[2])
    parquet("sales_2023.parquet", user_id=[1])
    parquet("sales_2024.parquet", user_id=[1])
    Path("words.tsv").write_text("user_id\tword\n1\ta b\n")
    import gzip

    Path("zipped.csv.gz").write_bytes(gzip.compress(b"user_id,n\n1,2\n"))
    Path(".hidden.csv").write_text("a\n1\n")
    Path("readme.md").write_text("not data")
    tables = drafted(".")["tables"]
    assert {name: table["source"] for name, table in tables.items()} == {
        "users": "shop.duckdb",
        "visits": "shop.duckdb",
        "events": "events/part-*.parquet",
        "logs": "logs/**/*.parquet",
        "sales": "sales_202*.parquet",
        "words": "words.tsv",
        "zipped": "zipped.csv.gz",
    }
    assert (tables["users"]["table"], tables["visits"]["table"]) == ("main.users", "s.visits")


def test_a_quoted_glob_is_one_table(folder: Path) -> None:
    parquet("v/a.parquet", user_id=[1])
    parquet("v/b.parquet", user_id=[2])
    assert drafted("v/*.parquet")["tables"]["v"]["source"] == "v/*.parquet"


def test_files_of_the_same_columns_that_are_not_numbered_are_tables_of_their_own(folder: Path) -> None:
    parquet("train.parquet", user_id=[1])
    parquet("test.parquet", user_id=[2])
    assert set(drafted("train.parquet", "test.parquet")["tables"]) == {"train", "test"}


def test_strange_names_are_written_so_that_they_can_be_read_back(folder: Path) -> None:
    parquet("2024 [final] é.parquet", **{'a "b"\n#x': [1.5, 2.5], "row": ["p", "q"], "user id": [1, 1]})
    tables = drafted("2024 [final] é.parquet", steward=True)["tables"]
    assert list(tables) == ["t_2024_final_é"] and 'a "b"\n#x' in tables["t_2024_final_é"]["columns"]
    assert tables["t_2024_final_é"]["unit"] == "user id"


def test_two_files_of_one_name_are_two_tables(folder: Path) -> None:
    parquet("a/t.parquet", x=[1])
    parquet("b/t.parquet", y=[1])
    assert set(drafted("a/t.parquet", "b/t.parquet")["tables"]) == {"t", "t_2"}


def test_sources_are_relative_to_the_policy_where_they_lie_below_it(folder: Path) -> None:
    parquet("data/t.parquet", x=[1])
    outside = look_at(["data/t.parquet"], folder / "policies", steward=False)
    assert outside.inputs.tables[0].source == str(folder / "data" / "t.parquet")


def test_a_first_line_that_is_a_row_is_refused_without_being_shown(folder: Path) -> None:
    Path("v.csv").write_text("17.25,Smith\n18,Jones\n")
    with pytest.raises(DataError) as refused:
        look_at(["v.csv"], folder, steward=False)
    assert refused.value.code == "no-header" and "Smith" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.csv", b"", "no-header"),
        ("a.csv", b"\n1,2\n", "no-header"),
        ("a.csv", b"a,A\n1,2\n", "duplicate-column"),
        ("a.parquet", b"not parquet", "unreadable"),
        ("a.duckdb", b"not a database", "unreadable"),
        ("a.txt", b"a", "no-file"),
    ],
)
def test_what_is_no_source_is_refused_with_what_to_do(folder: Path, name: str, content: bytes, code: str) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(DataError) as refused:
        look_at([name], folder, steward=False)
    assert refused.value.code == code and refused.value.hint


@pytest.mark.sample(3)
@pytest.mark.parametrize("steward", [False, True])
@pytest.mark.parametrize(("mark", "name"), [(";", "t.csv"), ("|", "t.csv"), ("\t", "t.csv"), (",", "t.tsv")])
def test_whatever_separates_fields_is_drafted_and_read(folder: Path, mark: str, name: str, steward: bool) -> None:
    rows = [f'{i}{mark}"a{mark}""b"""{mark}{i % 7}' for i in range(200)]
    Path(name).write_text("\n".join([mark.join(["user_id", "what it is", "n"]), *rows, ""]), encoding="utf-8-sig")
    made = drafted(name, steward=steward)["tables"]["t"]
    assert made["separator"] == mark and list(made["columns"]) == ["user_id", "what it is", "n"]
    with dpsql.connect("policy.toml", ledger=":memory:") as session:
        (found,) = session.query("""SELECT COUNT(*) FILTER ("what it is" LIKE 'a_"b"') FROM t""", epsilon=3).rows
    assert found[0] == pytest.approx(200, abs=40)


def test_the_ending_says_what_separates_fields_unless_the_first_line_is_one_name(folder: Path) -> None:
    Path("t.csv").write_text("a;b,c|d\n1,2\n")
    Path("u.tsv").write_text("a,b\tc;d\n1\t2\n")
    Path("v.csv").write_text("only\n1\n")
    tables = drafted(".")["tables"]
    assert not any("separator" in table for table in tables.values())
    assert [list(table["columns"]) for table in tables.values()] == [["a;b", "c|d"], ["a,b", "c;d"], ["only"]]


def test_another_separator_is_another_version_of_the_data(folder: Path) -> None:
    Path("t.csv").write_text("a;b,a\n1,2\n")
    policy = {"budget": {"epsilon": 1}, "tables": {"t": {"source": "t.csv", "unit": "row"}}}
    table: dict[str, Any] = policy["tables"]["t"]  # type: ignore[index]  # a mapping of several kinds
    for separator, column in ((",", "a"), (";", "b,a")):
        table |= {"separator": separator, "columns": {column: {"type": "VARCHAR"}}}
        Policy.from_dict(policy)
        with dpsql.Engine.open(Policy.from_dict(policy, folder=folder), ledger=folder / "l.sqlite") as engine:
            assert (engine.stale is None) == (separator == ",")


def test_a_column_that_is_just_called_id_points_to_no_other_table(folder: Path) -> None:
    parquet("visits.parquet", id=[1, 2], city=["a", "b"])
    parquet("claims.parquet", id=[1, 2], city=["a", "b"])
    assert "May everybody see" not in written("visits.parquet", "claims.parquet", steward=True)


def test_more_columns_than_one_statement_looks_at_are_all_seen(folder: Path) -> None:
    names = [f"col {i}" for i in range(2 * AT_ONCE + 3)]
    Path("t.csv").write_text(",".join(names) + "\n" + "".join(f"{','.join([str(i)] * len(names))}\n" for i in (1, 2)))
    columns = drafted("t.csv", steward=True)["tables"]["t"]["columns"]
    assert {name: column["type"] for name, column in columns.items()} == dict.fromkeys(names, "INTEGER")


def test_an_empty_file_in_a_folder_is_passed_over_and_said(folder: Path) -> None:
    Path("t.csv").write_text("")
    parquet("u.parquet", x=[1])
    prospect = look_at(["."], folder, steward=True)
    assert [one.name for one in prospect.inputs.tables] == ["u"] and "t.csv is empty" in prospect.inputs.notes[0]


def test_rows_that_no_query_could_read_are_refused_before_anything_is_drafted(folder: Path) -> None:
    Path("t.csv").write_bytes("id,city\n1,Köln\n".encode("latin-1"))
    with pytest.raises(DataError) as refused:
        look_at(["t.csv"], folder, steward=True)
    assert refused.value.code == "malformed-csv" and "UTF-8" in str(refused.value)


def test_nothing_there_is_refused(folder: Path) -> None:
    for data in ("nowhere.parquet", "*.parquet", "."):
        with pytest.raises(DataError) as refused:
            look_at([data], folder, steward=False)
        assert refused.value.code == "no-file"


def test_columns_that_nobody_can_use_are_said_and_left_out(folder: Path) -> None:
    parquet("t.parquet", user_id=[1], tags=[["a"]], n=[1])
    for steward in (False, True):
        prospect: Prospect = look_at(["t.parquet"], folder, steward=steward)
        text = draft(prospect, Answers()).text
        assert "# tags is VARCHAR[]: no query can use it" in text
        assert set(Policy.from_dict(tomllib.loads(text, parse_float=Decimal)).tables["t"].columns) - {"user_id"} == {
            "n"
        }


def test_an_empty_table_has_no_ranges_and_no_limits(folder: Path) -> None:
    Path("v.csv").write_text("user_id,n\n")
    parquet("w.parquet", user_id=pa.array([], pa.int64()), n=pa.array([], pa.float64()))
    tables = drafted(".", steward=True)["tables"]
    assert "min" not in tables["v"]["columns"]["n"] and tables["v"]["columns"]["n"]["type"] == "VARCHAR"
    assert "max_rows" not in tables["w"]


@pytest.mark.parametrize("steward", [False, True])
@pytest.mark.parametrize("source", ["ev", "ev/year=2024/*/*.parquet"])
def test_columns_that_names_of_folders_make_are_drafted_with_their_type(
    tmp_path: Path, steward: bool, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for day in ("2024-01-02", "2024-02-03"):
        folder = tmp_path / "ev" / "year=2024" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"user_id": [1, 2, 3], "v": [1, 2, 3]}), folder / "part.parquet")
    (tmp_path / "policy.toml").write_text(draft(look_at([source], tmp_path, steward=steward), Answers()).text)
    columns = Policy.load("policy.toml").tables["ev" if source == "ev" else "year_2024"].columns
    assert (columns["year"].type, columns["day"].type) == ("INTEGER", "DATE")
    assert not check("policy.toml", steward=True).broken
