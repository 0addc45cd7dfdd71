"""Ranges of a draft: from the 99.9th percentile, so that a typing error makes no answer worse."""

from __future__ import annotations

import random
import sys
import tomllib
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dpsql
from dpsql.cli.main import cli
from dpsql.steward.init import Answers, Drafted, draft, look_at
from dpsql.steward.ranges import outside_each_end

ROWS = 6000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    return tmp_path


def drafted(**columns: Any) -> Drafted:
    """The steward's draft for one table t with these columns."""
    pq.write_table(pa.table(columns), "t.parquet")
    return draft(look_at(["t.parquet"], Path.cwd(), steward=True), Answers())


def column(made: Drafted, name: str) -> dict[str, Any]:
    """What the draft says of a column of t."""
    found: dict[str, Any] = tomllib.loads(made.text, parse_float=Decimal)["tables"]["t"]["columns"][name]
    return found


def test_typing_errors_of_a_few_rows_make_no_average_wrong(folder: Path) -> None:
    draw = random.Random(27)
    zones = ["Centre", "East", "West"]
    rows = [(n // 5, zones[n % 3], round(draw.gammavariate(4, 4.15), 2)) for n in range(3 * ROWS)]
    typos = set(draw.sample(range(len(rows)), 12))
    fares = [9999.0 if n in typos else fare for n, (_, _, fare) in enumerate(rows)]
    pq.write_table(
        pa.table({"rider_id": [r for r, _, _ in rows], "zone": [z for _, z, _ in rows], "fare": fares}), "trips.parquet"
    )
    done = CliRunner().invoke(cli, ["init", "trips.parquet", "--steward"])
    assert done.exit_code == 0, done.output
    told = [line for line in done.stderr.splitlines() if " of fare " in line]
    assert len(told) == 1 and "the largest is 9,999" in told[0]
    text = Path("policy.toml").read_text(encoding="utf-8")
    assert "9999" not in text and "9,999" not in text
    assert tomllib.loads(text)["tables"]["trips"]["columns"]["fare"]["max"] <= 70
    with dpsql.connect("policy.toml", ledger=":memory:") as session:
        found = dict(session.query("SELECT zone, AVG(fare) AS fare FROM trips GROUP BY zone", epsilon=1).rows)
    clean = {zone: [fare for _, z, fare in rows if z == zone] for zone in zones}
    for zone, truth in clean.items():
        assert found[zone] == pytest.approx(sum(truth) / len(truth), abs=3), found


def test_the_rows_outside_are_counted_for_the_terminal_and_absent_from_the_file(folder: Path) -> None:
    made = drafted(x=[float(n % 100) for n in range(ROWS - 9)] + [12345.0] * 5 + [-678.0] * 4)
    assert column(made, "x") == {"nullable": False, "min": 0, "max": 100}
    assert (
        "t: 9 rows of x lie outside of 0 to 100, the drafted range: the largest is 12,345 and the smallest is -678"
        in (made.findings)
    )
    assert not any(number in made.text for number in ("12345", "12,345", "678", " 9 "))


@pytest.mark.parametrize(("count", "beyond"), [(0, 0), (99, 0), (100, 1), (499, 4), (500, 5), (6000, 6), (10**6, 1000)])
def test_a_thousandth_may_lie_outside_and_of_few_rows_a_few(count: int, beyond: int) -> None:
    assert outside_each_end(count) == beyond


def test_one_row_more_than_may_lie_outside_moves_the_range(folder: Path) -> None:
    for typos, high in ((6, 9), (7, 5000)):  # a thousandth of the rows, and one more
        made = drafted(x=[float(n % 10) for n in range(ROWS - typos)] + [5000.0] * typos)
        assert column(made, "x")["max"] == high


@pytest.mark.parametrize(
    ("unknown", "low", "high"), [(999, 0, 100), (-1, 0, 100), (-9, 0, 100), (9999, 0, 100), (150, 0, 160)]
)
def test_a_number_that_means_unknown_is_left_out_and_asked_about(
    folder: Path, unknown: int, low: int, high: int
) -> None:
    values = [n % 96 for n in range(ROWS)] + [unknown] * (ROWS // 50)
    made = drafted(age=values)
    assert (column(made, "age")["min"], column(made, "age")["max"] <= high) == (low, True)
    said = any(f"WHERE age <> {unknown}" in line for line in made.findings)
    assert said is (unknown != 150)


def test_a_large_share_of_such_a_number_is_a_value_like_any_other(folder: Path) -> None:
    made = drafted(price=[9.5, 17.0, 999.0] * (ROWS // 3))
    assert column(made, "price")["max"] == 1000 and not any("WHERE" in line for line in made.findings)


def test_values_below_zero_are_rounded_away_from_it(folder: Path) -> None:
    made = drafted(delay=[n % 400 - 57 for n in range(ROWS)], loss=[-(n % 90) / 10 for n in range(ROWS)])
    assert column(made, "delay") == {"nullable": False, "min": -100, "max": 350}
    assert column(made, "loss") == {"nullable": False, "min": -9, "max": 0}


def test_days_that_are_near_stay_inside_and_days_of_another_century_do_not(folder: Path) -> None:
    first = date(2023, 2, 1)
    days = [first + timedelta(days=n % 300) for n in range(ROWS)]
    made = drafted(a=[*days, date(2023, 12, 24)], b=[*days, date(9999, 12, 31)], c=[*days, date(1900, 1, 1)])
    assert column(made, "a")["max"] == date(2023, 12, 31)
    assert (
        column(made, "b")
        == column(made, "c")
        == column(made, "b")
        | {
            "min": date(2023, 2, 1),
            "max": date(2023, 11, 30),
        }
    )


def test_moments_with_a_zone_need_no_other_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytz", None)  # an import of it fails
    at = [datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=n % 2000) for n in range(ROWS)]
    made = drafted(
        at=pa.array(at, pa.timestamp("us", tz="Europe/Berlin")),
        two=pa.array(at[:1] * ROWS, pa.timestamp("s", tz="UTC")),
    )
    assert column(made, "at")["min"] == datetime(2025, 1, 1) and column(made, "at")["max"].month == 3
    Path("policy.toml").write_text(made.text, encoding="utf-8")
    assert CliRunner().invoke(cli, ["check", "--steward"]).exit_code == 0


def test_columns_without_a_value_and_columns_of_one_value(folder: Path) -> None:
    made = drafted(
        nothing=pa.nulls(ROWS, pa.float64()),
        nan=[float("nan")] * ROWS,
        infinite=[float("inf")] * 100 + [float(n % 7) for n in range(ROWS - 100)],
        three=[3.5] * ROWS,
        x=[n % 5 for n in range(ROWS)],
    )
    columns = tomllib.loads(made.text)["tables"]["t"]["columns"]
    assert "nothing" not in columns and "min" not in columns["nan"]
    assert (columns["infinite"]["min"], columns["infinite"]["max"]) == (0, 6)
    assert (columns["three"]["min"], columns["three"]["max"]) == (0, 3.5)
    assert "t: nothing has no value in any row" in made.findings


def test_codes_get_no_range_and_empty_tables_promise_nothing(folder: Path) -> None:
    made = drafted(postcode=[10115 + n % 700 for n in range(ROWS)], n=[n % 50 for n in range(ROWS)])
    assert column(made, "postcode") == {"nullable": False} and "min" in column(made, "n")
    empty = drafted(x=pa.array([], pa.float64()))
    assert not any(word in empty.text for word in ("\nx =", "{ nullable"))
