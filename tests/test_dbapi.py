"""dpsql.dbapi is what PEP 249 says, claim by claim; and no ε is assumed on it."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql import dbapi
from dpsql.dbapi import Connection, Cursor

TABLE = pa.table({"k": ["a", "b", "c"] * 20, "w": [i % 7 for i in range(60)], "v": [float(i % 50) for i in range(60)]})
POLICY = """
[budget]
epsilon = 100

[tables.t]
source = "t.parquet"
unit = "row"

[tables.t.columns]
k = { values = ["a", "b", "c"], nullable = false }
w = { min = 0, max = 7 }
v = { min = 0, max = 50 }
"""
COUNT = "SELECT COUNT(*) AS n FROM t"
BY_KEY = "SELECT k, COUNT(*) AS n FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path / "policy.toml"


@pytest.fixture
def connection(policy: Path) -> Iterator[Connection]:
    with dbapi.connect(policy, epsilon=1) as opened:
        yield opened


@pytest.fixture
def plain(policy: Path) -> Iterator[Connection]:
    """A connection without ε, to a policy without query_epsilon."""
    with dbapi.connect(policy) as opened:
        yield opened


def spent(connection: Connection) -> Fraction:
    return connection.session.budget.spent.epsilon


# ---------------------------------------------------------------- the module


def test_the_module_says_what_it_is() -> None:
    assert dbapi.apilevel == "2.0" and dbapi.paramstyle == "qmark" and dbapi.threadsafety == 2
    assert callable(dbapi.connect) and all(hasattr(dbapi, name) for name in dbapi.__all__)


def test_exceptions_are_the_tree_of_pep_249_and_attributes_of_a_connection() -> None:
    below = {
        "InterfaceError": "Error", "DatabaseError": "Error", "DataError": "DatabaseError",
        "OperationalError": "DatabaseError", "IntegrityError": "DatabaseError", "InternalError": "DatabaseError",
        "ProgrammingError": "DatabaseError", "NotSupportedError": "DatabaseError",
    }  # fmt: skip
    for name, base in below.items():
        assert getattr(dbapi, name).__base__ is getattr(dbapi, base)
        assert getattr(Connection, name) is getattr(dbapi, name)
    for top in ("Warning", "Error"):
        assert issubclass(getattr(dbapi, top), builtins.Exception) and getattr(Connection, top) is getattr(dbapi, top)


def test_constructors_make_what_parameters_can_be() -> None:
    assert dbapi.Date(2024, 1, 31) == date(2024, 1, 31) and dbapi.Time(5, 30, 0).minute == 30
    assert dbapi.Timestamp(2024, 1, 31, 5, 30, 0) == datetime(2024, 1, 31, 5, 30)
    moment = dbapi.TimestampFromTicks(1_000_000_000)
    assert moment == datetime.fromtimestamp(1_000_000_000)
    assert (dbapi.DateFromTicks(1_000_000_000), dbapi.TimeFromTicks(1_000_000_000)) == (moment.date(), moment.time())
    assert dbapi.Binary(b"x") == b"x"
    assert len({dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.ROWID}) == 5


# ---------------------------------------------------------------- connections


def test_commit_and_rollback_do_nothing_and_what_is_paid_stays_paid(connection: Connection) -> None:
    connection.cursor().execute(COUNT)
    connection.commit()
    connection.rollback()
    assert spent(connection) == 1


USES: dict[str, Callable[[Connection, Cursor], object]] = {
    "cursor": lambda connection, _: connection.cursor(),
    "commit": lambda connection, _: connection.commit(),
    "rollback": lambda connection, _: connection.rollback(),
    "session": lambda connection, _: connection.session,
    "engine": lambda connection, _: connection.engine,
    "execute": lambda _, cursor: cursor.execute(COUNT),
    "executemany": lambda _, cursor: cursor.executemany(COUNT, []),
    "fetchone": lambda _, cursor: cursor.fetchone(),
    "fetchmany": lambda _, cursor: cursor.fetchmany(2),
    "fetchall": lambda _, cursor: cursor.fetchall(),
    "nextset": lambda _, cursor: cursor.nextset(),
}


def test_nothing_can_be_done_with_a_closed_connection(policy: Path) -> None:
    connection = dbapi.connect(policy, epsilon=1)
    cursor = connection.cursor().execute("SELECT 1")
    connection.close()
    connection.close()  # once more does no harm
    for use in USES.values():
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            use(connection, cursor)


def test_nothing_can_be_done_with_a_closed_cursor(connection: Connection) -> None:
    cursor = connection.cursor().execute("SELECT 1")
    cursor.close()
    for name in ("execute", "executemany", "fetchone", "fetchmany", "fetchall", "nextset"):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            USES[name](connection, cursor)
    assert connection.cursor().execute("SELECT 1").fetchone() == (1,)


def test_a_connection_to_an_open_engine_leaves_it_open(policy: Path) -> None:
    with dpsql.Engine.open(policy) as engine:
        with dbapi.connect(engine, epsilon=1, analyst="me") as connection:
            connection.cursor().execute(COUNT)
        with engine.session() as session:
            assert session.query(COUNT, epsilon=1).receipt.reused


def test_threads_share_a_connection(connection: Connection) -> None:
    found: list[Any] = []

    def ask(limit: int) -> None:
        found.append((limit, connection.cursor().execute("SELECT COUNT(*) + ? AS n FROM t", [limit]).fetchone()))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({row[0] - limit for limit, row in found}) == 1  # one release, which all of them show
    assert spent(connection) == 1


# ---------------------------------------------------------------- cursors


def test_before_a_query_there_is_nothing(connection: Connection) -> None:
    cursor = connection.cursor()
    assert cursor.description is None and cursor.rowcount == -1 and cursor.rownumber is None and cursor.answer is None
    assert cursor.arraysize == 1 and cursor.lastrowid is None and cursor.connection is connection
    for fetch in ("fetchone", "fetchmany", "fetchall"):
        with pytest.raises(dbapi.Error):
            getattr(cursor, fetch)()


def test_description_has_seven_items_for_each_column(connection: Connection) -> None:
    cursor = connection.cursor().execute(
        "SELECT 1 AS i, 1.5 AS d, 'x' AS s, DATE '2024-01-31' AS day, TRUE AS b, 1e0 AS f, 'x'::BLOB AS raw, "
        "TIMESTAMP '2024-01-31 05:00:00' AS m"
    )
    assert cursor.description is not None and all(len(column) == 7 for column in cursor.description)
    number, text, moment = dbapi.NUMBER, dbapi.STRING, dbapi.DATETIME
    assert [(column[0], column[1]) for column in cursor.description] == [
        ("i", number), ("d", number), ("s", text), ("day", moment), ("b", number), ("f", number),
        ("raw", dbapi.BINARY), ("m", moment),
    ]  # fmt: skip
    assert cursor.description[1][4:6] == (2, 1)
    assert cursor.fetchall() == [(1, Decimal("1.5"), "x", date(2024, 1, 31), True, 1.0, b"x", datetime(2024, 1, 31, 5))]


def test_rows_are_fetched_one_by_one_several_at_once_and_all(connection: Connection) -> None:
    cursor = connection.cursor().execute("SELECT * FROM (VALUES (1), (2), (3), (4), (5), (6)) AS x(i) ORDER BY i")
    assert cursor.rowcount == 6 and cursor.fetchone() == (1,) and cursor.rownumber == 1
    assert cursor.fetchmany() == [(2,)] and cursor.fetchmany(2) == [(3,), (4,)]
    cursor.arraysize = 10
    assert cursor.fetchmany() == [(5,), (6,)] and cursor.fetchmany() == [] and cursor.fetchone() is None
    assert cursor.fetchall() == []
    assert list(cursor.execute("SELECT * FROM (VALUES (1), (2)) AS x(i) ORDER BY i")) == [(1,), (2,)]
    assert cursor.execute("SELECT 7").fetchall() == [(7,)]  # the earlier answer is gone


def test_a_refused_query_leaves_no_rows_of_the_one_before(connection: Connection) -> None:
    cursor = connection.cursor().execute("SELECT 1")
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELECT nothing FROM t")
    assert cursor.description is None and cursor.rowcount == -1


def test_parameters_are_bound_by_place_and_by_name(connection: Connection) -> None:
    cursor = connection.cursor()
    assert cursor.execute("SELECT ?, ?", (1, "it's")).fetchall() == [(1, "it's")]
    assert cursor.execute("SELECT $2, $1", [1, None]).fetchall() == [(None, 1)]
    assert cursor.execute("SELECT $x", {"x": date(2024, 1, 31)}).fetchall() == [(date(2024, 1, 31),)]
    with pytest.raises(dbapi.ProgrammingError, match="no value was given"):
        cursor.execute("SELECT ?")
    with pytest.raises(dbapi.ProgrammingError, match="2 values were given"):
        cursor.execute("SELECT ?", [1, 2])


def test_executemany_asks_once_for_each_set_of_values_and_each_costs(connection: Connection) -> None:
    cursor = connection.cursor().executemany(
        "SELECT ? AS w, COUNT(*) AS n FROM t WHERE w = ?", [(1, 1), (2, 2), (1, 1)]
    )
    first = cursor.fetchall()
    assert first[0][0] == 1 and cursor.nextset()
    assert cursor.fetchone()[0] == 2 and cursor.nextset()  # type: ignore[index]  # there is a row
    assert cursor.fetchall() == first and cursor.nextset() is None
    assert cursor.description is None and spent(connection) == 2


def test_sizes_may_be_named_and_change_nothing(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.setinputsizes([dbapi.NUMBER])
    cursor.setoutputsize(1000)
    cursor.setoutputsize(1000, 0)
    with cursor:
        assert cursor.execute("SELECT ?", [1]).fetchone() == (1,)


def test_the_answer_itself_has_error_bars_and_its_price(connection: Connection) -> None:
    answer = connection.cursor().execute(COUNT).answer
    assert answer is not None and answer.cost.epsilon == 1 and answer.intervals()["n"] is not None


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("sql", "kind", "code"),
    [
        ("SELECT COUNT(* FROM t", dbapi.ProgrammingError, "syntax"),
        ("DELETE FROM t", dbapi.ProgrammingError, "not-a-query"),
        ("SELECT v FROM t", dbapi.ProgrammingError, None),
        ("SELECT 1; SELECT 2", dbapi.ProgrammingError, "one-statement"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000) COUNT(*) FROM t", dbapi.OperationalError, None),
    ],
)
def test_a_refusal_is_an_exception_of_pep_249_with_all_that_dpsql_says(
    connection: Connection, sql: str, kind: type[dbapi.Error], code: str | None
) -> None:
    with pytest.raises(kind) as refused:
        connection.cursor().execute(sql)
    refusal = refused.value.refusal
    assert refusal is not None and str(refused.value) == str(refusal) and refused.value.__cause__ is refusal
    assert code in (None, refusal.code) and spent(connection) == 0


def test_what_cannot_be_opened_is_an_operational_error(tmp_path: Path) -> None:
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(tmp_path / "none.toml")


def test_unknown_options_of_a_connection_are_refused(policy: Path) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="did you mean epsilon"):
        dbapi.connect(policy, epsilom=1)
    with pytest.raises(dbapi.ProgrammingError, match="max_rows can't be 'many'"):
        dbapi.connect(policy, max_rows="many")


# ---------------------------------------------------------------- ε


def test_no_epsilon_is_assumed_and_the_refusal_says_how_to_name_one(plain: Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError) as refused:
        plain.cursor().execute(COUNT)
    assert refused.value.refusal is not None and refused.value.refusal.code == "no-epsilon"
    for way in ("epsilon=0.5", "?epsilon=0.5", "SET dpsql.epsilon = 0.5", "OPTIONS(epsilon = 0.5)", "query_epsilon"):
        assert way in str(refused.value)
    assert plain.session._engine.ledger.history() == []


def test_what_is_free_or_stored_is_answered_without_epsilon(plain: Connection) -> None:
    cursor = plain.cursor()
    assert cursor.execute("SELECT 1 + 1").fetchall() == [(2,)]
    bought = cursor.execute("SET dpsql.epsilon = 2; " + BY_KEY).fetchall()
    cursor.execute("RESET dpsql.epsilon")
    assert cursor.execute(BY_KEY).fetchall() == bought
    assert cursor.execute("SELECT SUM(n) AS n FROM (SELECT k, COUNT(*) AS n FROM t WHERE k IS NOT NULL GROUP BY k)")
    assert (
        cursor.execute("SELECT k, 2 * COUNT(*) AS n FROM t WHERE k IS NOT NULL GROUP BY k LIMIT ?", [1]).rowcount == 1
    )
    assert cursor.answer is not None and cursor.answer.receipt.reused and spent(plain) == 2
    with pytest.raises(dbapi.ProgrammingError, match="no ε was named"):
        cursor.execute("SELECT AVG(v) FROM t")
    with pytest.raises(dbapi.ProgrammingError, match="no ε was named"):
        cursor.execute("SET dpsql.fresh = true; " + BY_KEY)  # fresh noise costs
    assert spent(plain) == 2


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DESCRIBE t", f"DESCRIBE {COUNT}"])
def test_what_there_is_is_told_without_epsilon(plain: Connection, sql: str) -> None:
    assert plain.cursor().execute(sql).fetchall()
    assert plain.session._engine.ledger.history() == []


def test_of_several_stored_releases_the_best_one_answers_without_epsilon(plain: Connection) -> None:
    session = plain.session
    for epsilon in ("0.1", "5", "0.2"):
        session.query(COUNT, epsilon=epsilon, fresh=True)
    best = session.query(COUNT, epsilon=5).rows
    assert plain.cursor().execute(COUNT).fetchall() == best


def test_a_wrong_query_is_told_so_before_it_is_asked_for_epsilon(plain: Connection) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="there is no column nothing"):
        plain.cursor().execute("SELECT SUM(nothing) FROM t")


def test_epsilon_is_the_querys_the_settings_or_the_connections_in_this_order(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(COUNT)
    assert spent(connection) == 1
    cursor.execute("SET dpsql.epsilon = '0.25'")
    assert cursor.description is None
    cursor.execute("SELECT COUNT(*) FROM t WHERE w = 1")
    assert spent(connection) == Fraction(5, 4)
    cursor.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = ?) COUNT(*) FROM t WHERE w = 2", [0.5])
    assert spent(connection) == Fraction(7, 4)
    cursor.execute("RESET ALL; SELECT COUNT(*) FROM t WHERE w = 3")
    assert spent(connection) == Fraction(11, 4)
    connection.request = connection.start
    cursor.execute("SET dpsql.epsilon TO 2")
    connection.reset()
    cursor.execute("SELECT COUNT(*) FROM t WHERE w = 4")
    assert spent(connection) == Fraction(15, 4)


def test_the_policys_query_epsilon_is_what_the_steward_named(policy: Path) -> None:
    policy.write_text(POLICY.replace("epsilon = 100", "epsilon = 100\nquery_epsilon = 0.5"))
    with dbapi.connect(policy) as connection:
        connection.cursor().execute(COUNT)
        assert spent(connection) == Fraction(1, 2)


def test_an_accuracy_takes_the_place_of_epsilon_and_the_other_way_round(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("SET dpsql.accuracy = 30")
    assert connection.request.epsilon is None
    cursor.execute(COUNT)
    assert 0 < spent(connection) < 1
    cursor.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM t WHERE w = 2")
    cursor.execute("SET dpsql.epsilon = 3")
    assert connection.request.accuracy is None and connection.request.epsilon == "3"
    cursor.execute("SET dpsql.accuracy = DEFAULT")
    assert connection.request.epsilon == 1


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SET x = 1", "SET is for dpsql's own options"),
        ("SET dpsql.epsilon", "SET is for dpsql's own options"),
        ("RESET x", "RESET is for dpsql's own options"),
        ("SET dpsql.epsilom = 1", "did you mean epsilon"),
        ("SET dpsql.params = 1", "there is no option params"),
        ("RESET dpsql.epsilom", "did you mean epsilon"),
        ("SET dpsql.epsilon = 0", "ε must be a number"),
        ("SET dpsql.epsilon = -1", "an option takes one constant"),
        ("SET dpsql.epsilon = ?", "an option takes one constant"),
        ("SET dpsql.delta = 2", "δ"),
        ("SET dpsql.max_groups = 'x'", "max_groups can't be 'x'"),
        ("SET dpsql.mechanism = magic", "mechanism can't be 'magic'"),
        ("SET dpsql.fresh = maybe", "fresh can't be 'maybe'"),
        ("SET dpsql.confidence = x", "confidence can't be 'x'"),
    ],
)
@pytest.mark.sample(3)
def test_a_setting_that_is_wrong_is_refused_and_changes_nothing(connection: Connection, sql: str, said: str) -> None:
    with pytest.raises(dbapi.ProgrammingError) as refused:
        connection.cursor().execute(sql)
    assert said in str(refused.value) and connection.request == connection.start


def test_every_option_of_a_query_can_be_set(connection: Connection) -> None:
    cursor = connection.cursor()
    for setting in (
        "delta = 0", "max_rows = 3", "max_rows_per_group = 2", "max_groups = auto", "mechanism = laplace",
        "fresh = on",
    ):  # fmt: skip
        cursor.execute(f"SET dpsql.{setting}")
    request = connection.request
    assert (request.max_rows, request.max_rows_per_group, request.max_groups) == (3, 2, "auto")
    assert request.fresh is True and request.mechanism == "laplace"
    cursor.execute(COUNT)
    cursor.execute(COUNT)
    assert spent(connection) == 2  # each of them fresh
