"""The SQLAlchemy dialect: engines from a URL, reflection from the policy, pandas, and ε that no pool hands on."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

from dpsql import dbapi
from dpsql.dbapi.dialect import Dialect

ROOT = Path(__file__).parents[1]
POLICY = """
[budget]
epsilon = 100

[tables.Visits]
source = "visits.parquet"
unit = "person"
max_rows = 3

[tables.Visits.columns]
city = { references = "cities.name" }
minutes = { min = 0, max = 60, nullable = false }
paid = { min = 0, max = 100 }

[tables.notes]
source = "notes.csv"
unit = "row"

[tables.notes.columns]
kind = { type = "VARCHAR", values = ["good", "bad"] }

[tables.cities]
source = "cities.csv"
public = true
"""
registry.register("dpsql", "dpsql.dbapi.dialect", "Dialect")  # as the entry point does in an installation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [(p, ("Bern", "Lima")[p % 2], (7 * p + i) % 60) for p in range(50) for i in range(3)]
    table = pa.table(
        {
            "person": [p for p, _, _ in rows],
            "city": [city for _, city, _ in rows],
            "minutes": pa.array([m for _, _, m in rows], pa.int32()),
            "paid": pa.array([None if m % 2 else m for _, _, m in rows], pa.decimal128(8, 2)),
            "at": pa.array([1_700_000_000_000_000 + m for _, _, m in rows], pa.timestamp("us")),
            "tags": [["a"] for _ in rows],
        }
    )
    pq.write_table(table, tmp_path / "visits.parquet")
    (tmp_path / "cities.csv").write_text("name,country\nBern,Switzerland\nLima,Peru\n")
    (tmp_path / "notes.csv").write_text("kind,text\ngood,x\nbad,y\n")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def engine(folder: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"dpsql:///{folder}/policy.toml?epsilon=1")
    yield made
    made.dispose()


@pytest.fixture
def plain(folder: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"dpsql:///{folder}/policy.toml")
    yield made
    made.dispose()


def spent(connection: sa.Connection) -> Fraction:
    opened: Any = connection.connection.dbapi_connection
    found: Fraction = opened.session.budget.spent.epsilon
    return found


def test_the_entry_point_names_the_dialect() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert found["project"]["entry-points"]["sqlalchemy.dialects"] == {"dpsql": "dpsql.dbapi.dialect:Dialect"}
    assert Dialect.import_dbapi() is dbapi


def test_text_with_parameters_is_answered(engine: sa.Engine) -> None:
    sql = sa.text("SELECT city, COUNT(*) AS n FROM visits WHERE minutes > :least AND city IN :cities GROUP BY city")
    with engine.connect() as connection:
        found = connection.execute(
            sql.bindparams(sa.bindparam("cities", expanding=True)), {"least": -1, "cities": ["Bern", "Lima"]}
        )
        assert list(found.keys()) == ["city", "n"]
        assert {row.city for row in found} == {"Bern", "Lima"} and spent(connection) == 1
        placed = connection.exec_driver_sql("SELECT $2, $1", (1, "x")).all()
        assert [tuple(row) for row in placed] == [("x", 1)]
        assert connection.exec_driver_sql("SELECT $x", {"x": 5}).scalar() == 5


def test_expressions_over_reflected_tables_are_answered(engine: sa.Engine) -> None:
    visits = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    query = (
        sa.select(visits.c.city, sa.func.count().label("n"), sa.func.avg(sa.cast(visits.c.minutes, sa.Float)))
        .where(visits.c.minutes.between(0, 60), visits.c.city != "Rome")
        .group_by(visits.c.city)
        .order_by(sa.desc("n"))
        .limit(1)
        .offset(1)
    )
    with engine.connect() as connection:
        assert len(connection.execute(query).all()) == 1 and spent(connection) == 1
        assert len(connection.execute(query.limit(None)).all()) >= 1 and spent(connection) == 1
    assert "DOUBLE" in str(query.compile(engine))


def test_tables_and_columns_are_reflected_from_the_policy(plain: sa.Engine) -> None:
    found = sa.inspect(plain)
    assert found.get_table_names() == ["Visits", "notes", "cities"] and found.get_view_names() == []
    assert found.get_schema_names() == ["main"] and found.default_schema_name == "main"
    assert found.has_table("visits") and found.has_table("CITIES", schema="main")
    assert not found.has_table("none") and not found.has_table("visits", schema="other")
    columns = {column["name"]: column for column in found.get_columns("visits")}
    kinds = {name: type(column["type"]) for name, column in columns.items()}
    assert kinds == {
        "person": sa.BigInteger, "city": sa.String, "minutes": sa.Integer, "paid": sa.Numeric, "at": sa.DateTime,
        "tags": sa.types.NullType,
    }  # fmt: skip
    assert columns["minutes"]["comment"] == "from 0 to 60" and columns["minutes"]["nullable"] is False
    assert columns["city"]["comment"] == "one of cities.name" and columns["city"]["nullable"] is True
    assert [(c["name"], c["comment"]) for c in found.get_columns("notes")] == [("kind", "one of good, bad")]
    assert [c["name"] for c in found.get_columns("cities")] == ["name", "country"]
    assert found.get_table_comment("cities")["text"] == "public"
    assert str(found.get_table_comment("visits")["text"]).startswith("private")
    assert found.get_pk_constraint("visits")["constrained_columns"] == []
    assert not found.get_foreign_keys("visits") and not found.get_indexes("visits")
    assert not found.get_unique_constraints("visits") and not found.get_check_constraints("visits")
    with pytest.raises(sa.exc.NoSuchTableError):
        found.get_columns("none")
    metadata = sa.MetaData()
    metadata.reflect(plain)
    assert set(metadata.tables) == {"Visits", "notes", "cities"}
    with plain.connect() as connection:
        assert spent(connection) == 0


def test_pandas_reads_answers(engine: sa.Engine) -> None:
    sql = "SELECT city, AVG(minutes) AS minutes FROM visits WHERE city IS NOT NULL GROUP BY city ORDER BY city"
    frame = pd.read_sql(sql, engine)
    assert list(frame.columns) == ["city", "minutes"] and list(frame.city) == ["Bern", "Lima"]
    again = pd.read_sql(sa.text(sql.replace("IS NOT NULL", "IS NOT NULL AND minutes >= :m")), engine, params={"m": 0})
    assert len(again) == 2
    with pytest.raises((pd.errors.DatabaseError, sa.exc.ProgrammingError), match="rows of a private table"):
        pd.read_sql("SELECT minutes FROM visits", engine)


def test_no_epsilon_is_assumed_and_a_setting_lasts_as_long_as_the_connection(plain: sa.Engine) -> None:
    sql = sa.text("SELECT COUNT(*) FROM visits")
    with plain.connect() as connection:
        with pytest.raises(sa.exc.ProgrammingError, match="no ε was named"):
            connection.execute(sql)
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
        connection.execute(sa.text("SET dpsql.epsilon = 0.5"))
        bought = connection.execute(sql).scalar()
        assert spent(connection) == Fraction(1, 2)
    with plain.connect() as connection:  # from the pool: it is the same one, and has no ε any more
        assert connection.execute(sql).scalar() == bought
        with pytest.raises(sa.exc.ProgrammingError, match="no ε was named"):
            connection.execute(sa.text("SELECT COUNT(*) FROM visits WHERE minutes > 30"))
        assert spent(connection) == Fraction(1, 2)


def test_there_are_no_transactions(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT COUNT(*) FROM visits"))
        connection.rollback()
        assert spent(connection) == 1 and connection.get_isolation_level() == "AUTOCOMMIT"
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.commit()


def test_options_in_the_url_are_those_of_a_query(folder: Path) -> None:
    made = sa.create_engine(f"dpsql:///{folder}/policy.toml?epsilon=0.5&max_rows=2&fresh=true&analyst=me")
    with made.connect() as connection:
        opened: Any = connection.connection.dbapi_connection
        assert (opened.request.epsilon, opened.request.max_rows, opened.request.fresh) == ("0.5", 2, True)
        connection.execute(sa.text("SELECT COUNT(*) FROM visits"))
        assert opened.session.budget.analysts["me"].epsilon == Fraction(1, 2)
    made.dispose()


@pytest.mark.parametrize("url", ["dpsql://policy.toml", "dpsql:///policy.toml?epsilon=1&epsilon=2"])
def test_a_url_that_is_wrong_is_refused(url: str) -> None:
    with pytest.raises(sa.exc.ArgumentError):
        sa.create_engine(url).connect()


def test_an_option_that_is_wrong_is_refused(folder: Path) -> None:
    with pytest.raises(sa.exc.ProgrammingError, match="did you mean epsilon"):
        sa.create_engine(f"dpsql:///{folder}/policy.toml?epsilom=1").connect()
