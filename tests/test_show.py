"""What people see: tables that fit, dates, thousands, charts, and answers that behave like collections."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.answer.columns import NARROW, Source, Style
from dpsql.answer.plot import (
    MOST_CHARTS,
    Chart,
    NoChart,
    Point,
    chart_of,
    charts_of,
    encode_chart,
    text_chart,
    text_charts,
)
from dpsql.answer.text_table import cost_text, text_table
from dpsql.core.errors import text_width

ROWS = 4000
TABLE = pa.table(
    {
        "day": [datetime(2013, 1 + i % 12, 1 + i % 28, i % 24) for i in range(ROWS)],
        "carrier": [f"Carrier number {i % 4} Incorporated" for i in range(ROWS)],
        "delay": [float(i % 90) for i in range(ROWS)],
        "dist": [100 + i % 4000 for i in range(ROWS)],
        "year": pa.array([2013 + i % 2 for i in range(ROWS)], pa.int32()),
        "flag": [i % 2 == 0 for i in range(ROWS)],
    }
)
POLICY: dict[str, Any] = {
    "budget": {"epsilon": 1000},
    "tables": {
        "f": {
            "unit": "row",
            "columns": {
                "day": {"min": datetime(2013, 1, 1), "max": datetime(2013, 12, 31)},
                "carrier": {"values": [f"Carrier number {i} Incorporated" for i in range(4)]},
                "delay": {"min": 0, "max": 100},
                "dist": {"min": 0, "max": 5000},
                "year": {"min": 2013, "max": 2014},
            },
        }
    },
}
WIDE = (
    "SELECT year, carrier, COUNT(*) AS flights, AVG(delay) AS delay, SUM(dist) AS total_distance, "
    "STDDEV(delay) AS spread, MEDIAN(dist) AS median_distance FROM f GROUP BY year, carrier"
)
MONTHS = "SELECT date_trunc('month', day) AS month, COUNT(*) AS flights FROM f GROUP BY 1"
CARRIERS = "SELECT carrier, AVG(delay) AS delay FROM f GROUP BY carrier"


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    with dpsql.connect(dpsql.Policy.from_dict(POLICY), sources={"f": TABLE}, ledger=":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def wide(session: dpsql.Session) -> dpsql.Answer:
    return session.query(WIDE, epsilon=1)


@pytest.fixture(scope="module")
def months(session: dpsql.Session) -> dpsql.Answer:
    return session.query(MONTHS, epsilon=1)


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("width", [50, 60, 80, 110, 200])
def test_a_table_is_no_wider_than_the_terminal_and_loses_no_column(wide: dpsql.Answer, width: int) -> None:
    shown = text_table(wide, width=width)
    assert max(text_width(line) for line in shown.splitlines()) <= width
    for name in wide.columns:
        assert name[:8] in shown


def test_digits_go_before_anything_else_does(wide: dpsql.Answer) -> None:
    full = text_table(wide).splitlines()
    narrower = text_table(wide, width=len(full[0]) - 1).splitlines()
    names = [re.split(r"\s{2,}", lines[0]) for lines in (full, narrower)]
    assert names[0] == names[1] and "± 95%" in narrower[0] and "…" not in "".join(narrower)
    assert len(narrower[2]) < len(full[2])


def test_what_does_not_fit_is_turned_round_with_every_digit(wide: dpsql.Answer) -> None:
    lines = text_table(wide, width=50, limit=2).splitlines()
    assert lines[0].startswith("── row 1 ") and "carrier          Carrier number 0 Incorporated" in lines
    assert re.fullmatch(r"total_distance   [\d,]{6,} ± [\d,]{4,}", lines[5])
    assert lines[-3:-1] == ["± with 95% confidence", "in brackets: 95% intervals"]
    assert lines[-1] == f"… {len(wide) - 2} more rows"


def test_a_single_row_becomes_a_list_of_its_columns(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) AS number_of_flights, AVG(delay) AS average_delay FROM f", epsilon=1)
    lines = text_table(answer, width=35).splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["number_of_flights", "average_delay"] and "±" in lines[0]


def test_thousands_are_set_apart_in_what_was_measured_and_not_in_keys(wide: dpsql.Answer) -> None:
    first = text_table(wide).splitlines()[2].split()
    assert first[0] == "2013" and re.search(r"\d,\d{3}", " ".join(first))


def test_months_are_dates_and_times_stay_times(session: dpsql.Session, months: dpsql.Answer) -> None:
    assert text_table(months).splitlines()[2].startswith("2013-01-01   ")
    hours = session.query("SELECT TIMESTAMP '2013-01-01 05:30:00' AS t, COUNT(*) AS n FROM f", epsilon=1)
    assert "2013-01-01 05:30   " in text_table(hours)


def test_programs_get_neither_separators_nor_short_dates(months: dpsql.Answer, tmp_path: Path) -> None:
    months.write(tmp_path / "a.csv")
    line = (tmp_path / "a.csv").read_text().splitlines()[1]
    assert re.fullmatch(r"2013-01-01T00:00:00,-?\d+", line)


def shown(values: list[Any], ends: list[tuple[float, float] | None] | None, style: Style) -> list[list[str]]:
    return [column.cells for column in Source("v", values, ends, True, None).shown(style)]


def test_an_error_in_units_is_no_narrower_than_the_error() -> None:
    assert shown([2_905_714], [(2_864_232.0, 2_947_196.0)], NARROW[-1]) == [["2,906k ± 42k"]]
    assert shown([2_905_714], [(2_864_712.0, 2_906_716.0)], NARROW[-1]) == [["2,906k (2,864k to 2,907k)"]]
    assert shown([1.25], [(1.13, 1.37)], NARROW[-1]) == [["1.2 ± 0.2"]]


def test_columns_of_wide_characters_are_aligned(session: dpsql.Session) -> None:
    answer = session.query("SELECT '東京' AS city, COUNT(*) AS n FROM f", epsilon=1)
    lines = text_table(answer).splitlines()
    assert len({text_width(line) for line in lines}) == 1


# ---------------------------------------------------------------- an answer in Python


def test_an_answer_is_a_collection_of_its_rows(months: dpsql.Answer) -> None:
    assert list(months) == months.rows and len(months) == len(months.rows) == 13
    assert repr(months) == "<Answer: 13 rows of month, flights; cost ε = 1>"


def test_an_answer_without_rows_is_still_an_answer(session: dpsql.Session) -> None:
    answer = session.query("SELECT carrier, COUNT(*) AS n FROM f GROUP BY carrier HAVING COUNT(*) > 1e9", epsilon=1)
    assert len(answer) == 0 and answer
    assert text_table(answer, width=80).splitlines()[0].split() == ["carrier", "n", "±", "95%"]
    assert "carrier" in text_table(answer, width=10)


def test_whoever_reads_arrow_streams_reads_an_answer(months: dpsql.Answer) -> None:
    table = months.to_arrow()
    assert pa.table(months).equals(table) and months.arrow().equals(table)
    assert polars.DataFrame(months).equals(months.pl()) and list(months.df().columns) == months.columns


def test_a_notebook_shows_error_bars_and_all_that_is_to_be_said(connect: Connect) -> None:
    columns = {**POLICY["tables"]["f"]["columns"], "delay": {"min": 0, "max": 50}}  # a third of the values lie above
    session = connect(
        {"f": TABLE}, {"privacy": {"limits_share": 0.2}, "tables": {"f": {"unit": "row", "columns": columns}}}
    )
    html = session.query("SELECT MEDIAN(dist) AS m, AVG(delay) AS d FROM f", epsilon=1)._repr_html_()
    assert "± 95%" in html and re.search(r'title="95%: [\d.]+ to [\d.]+"', html)
    assert "outside of the range of" in html and "the range of AVG(f.delay)" in html and "cost ε = 1" in html


def test_sessions_and_engines_say_what_they_are_and_what_is_left(tmp_path: Path) -> None:
    policy = dpsql.Policy.from_dict(POLICY)
    engine = dpsql.Engine.open(policy, sources={"f": TABLE}, ledger=":memory:")
    session = engine.session("ann")
    assert repr(engine) == "<Engine: a policy with f; left ε = 1000 of ε = 1000>"
    session.query("SELECT COUNT(*) FROM f", epsilon=1)
    assert repr(session) == "<Session: ann, a policy with f; left ε = 999 of ε = 1000>"
    session.close()
    engine.close()
    assert repr(session) == "<Session: closed>" and repr(engine).endswith("with f; closed>")


@pytest.mark.parametrize(
    ("module", "call", "name"),
    [
        ("pandas", lambda a: a.df(), "pandas"),
        ("polars", lambda a: a.pl(), "polars"),
        ("altair", lambda a: a.plot(), "plot"),
        ("vl_convert", lambda a: a.write("x.png"), "plot"),
    ],
)
def test_a_missing_extra_says_what_to_install(
    months: dpsql.Answer, monkeypatch: pytest.MonkeyPatch, module: str, call: Any, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(dpsql.ExtraError, match=module) as caught:
        call(months)
    assert caught.value.hint == f"pip install 'dpsql[{name}]'" and isinstance(caught.value, ImportError)


# ---------------------------------------------------------------- charts


def test_a_notebook_shows_a_chart_without_another_site(session: dpsql.Session) -> None:
    for answer in (session.query(CARRIERS, epsilon=1), session.query(MONTHS, epsilon=1)):
        shown = answer.plot().properties(title="t")._repr_mimebundle_()
        assert shown["image/svg+xml"].startswith("<svg") and "text/html" not in shown
        (spec,) = (value for kind, value in shown.items() if kind.endswith("+json"))
        assert len(spec["layer"]) == 2 and spec["title"] == "t"


def test_dates_and_numbers_make_lines_and_other_keys_bars(session: dpsql.Session, months: dpsql.Answer) -> None:
    chart = chart_of(months)
    assert chart.lines and chart.dated and len(chart.points) == 12, "NULL has no place on an axis"
    bars = chart_of(session.query(CARRIERS, epsilon=1))
    assert not bars.lines and bars.y == "delay" and all(p.low is not None and p.low <= p.y for p in bars.points)


def test_a_second_key_is_a_colour_and_dates_go_below(session: dpsql.Session) -> None:
    sql = "SELECT carrier, date_trunc('month', day) AS month, COUNT(*) AS n FROM f GROUP BY ALL"
    chart = chart_of(session.query(sql, epsilon=1))
    assert (chart.x, chart.by, chart.lines) == ("month", "carrier", True) and len(chart.groups) == 5


def test_columns_may_be_chosen_and_others_are_refused_by_name(wide: dpsql.Answer) -> None:
    assert chart_of(wide, y="spread").y == "spread"
    with pytest.raises(NoChart, match="no column nothing: the answer has year, carrier"):
        chart_of(wide, y="nothing")
    with pytest.raises(NoChart, match="column of numbers"):
        chart_of(wide, y="carrier")


def test_measures_that_are_not_drawn_are_named(session: dpsql.Session) -> None:
    answer = session.query(
        "SELECT carrier, COUNT(*) AS n, MIN(day) AS first, AVG(delay) AS delay FROM f GROUP BY carrier", epsilon=1
    )
    charts = charts_of(answer)
    assert [chart.y for chart in charts.charts] == ["n", "delay"] and charts.left_out == ("first",)
    assert text_charts(charts, 80).splitlines()[-1] == "not drawn: first"
    assert "not drawn: first" in encode_chart(charts, "svg").decode()
    assert charts_of(answer, y="n").missing == ""


def test_of_very_many_measures_some_are_named_only(session: dpsql.Session) -> None:
    measures = ", ".join(f"COUNT(*) FILTER (WHERE delay > {i}) AS n{i}" for i in range(MOST_CHARTS + 2))
    charts = charts_of(session.query(f"SELECT carrier, {measures} FROM f GROUP BY carrier", epsilon=1))
    assert len(charts.charts) == MOST_CHARTS and charts.left_out == (f"n{MOST_CHARTS}", f"n{MOST_CHARTS + 1}")


def test_a_notebook_shows_all_charts(session: dpsql.Session) -> None:
    answer = session.query("SELECT carrier, COUNT(*) AS n, AVG(delay) AS d FROM f GROUP BY carrier", epsilon=1)
    shown = answer.plot()._repr_mimebundle_()
    (spec,) = (value for kind, value in shown.items() if kind.endswith("+json"))
    assert len(spec["vconcat"]) == 2 and shown["image/svg+xml"].startswith("<svg")


def test_without_a_key_there_is_no_chart(session: dpsql.Session) -> None:
    with pytest.raises(NoChart, match="GROUP BY"):
        chart_of(session.query("SELECT COUNT(*) AS n FROM f", epsilon=1))


def bars(count: int) -> Chart:
    return Chart(
        "k",
        "n",
        None,
        False,
        tuple(Point(f"key{i:02}", 10.0 * i, 10.0 * i - 5, 10.0 * i + 5, "") for i in range(count)),
    )


@pytest.mark.parametrize("count", [1, 2, 17, 60])
def test_a_terminal_shows_every_bar_on_a_line_of_its_own_in_order(count: int) -> None:
    lines = text_chart(bars(count), 80).splitlines()
    assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == [f"key{i:02}" for i in range(count)]
    assert all(text_width(line) <= 80 for line in lines) and any("┼" in line for line in lines)


def test_more_bars_than_fit_are_counted() -> None:
    assert text_chart(bars(62), 80).splitlines()[-1] == "n, error bars: 95%; 2 more bars"


def test_lines_without_colour_are_told_apart_by_letters() -> None:
    points = tuple(Point(float(x), float(x * g), None, None, f"g{g}") for g in (1, 2) for x in range(5))
    shown = text_chart(Chart("x", "y", "g", True, points), 80)
    assert "a" in shown and "b" in shown and "\x1b" not in shown


def test_a_chart_is_a_file_that_needs_no_other_and_obeys_no_key(months: dpsql.Answer, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    chart = Chart("k", evil, None, False, (Point(evil, 1.0, 0.5, 1.5, ""),))
    html, svg = (encode_chart(chart, kind).decode() for kind in ("html", "svg"))
    assert "<script>alert" not in html + svg and not re.search(r'<(script|link)[^>]*(src|href)="http', html)
    months.write(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_day_stays_the_day_wherever_the_chart_is_looked_at() -> None:
    chart = Chart("d", "n", None, True, tuple(Point(date(2013, 1, i), 1.0, None, None, "") for i in (1, 2, 3)))
    assert '"2013-01-01T00:00:00"' in encode_chart(chart, "html").decode()


def test_print_shows_a_table_that_fits_the_terminal(wide: dpsql.Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(len, str(wide).splitlines())) > 100
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "90")
    assert max(map(len, str(wide).splitlines())) <= 90


def test_an_answer_of_which_a_part_was_stored_tells_what_the_rest_cost(connect: Connect) -> None:
    keys = list("abcdefgh")
    table = pa.table({"u": list(range(800)), "k": keys * 100})
    limits = {"max_rows": 1, "limits_share": 0.05}
    columns = {"k": {"values": keys}}
    session = connect({"t": table}, {"privacy": limits, "tables": {"t": {"unit": "u", "columns": columns}}})
    session.query("SELECT k FROM t GROUP BY k ORDER BY COUNT(*) DESC LIMIT 3", epsilon=1)
    counts = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
    answer = session.query(counts, epsilon=1)
    assert answer.receipt.reused and cost_text(answer) == "cost ε = 0.05"
    assert cost_text(session.query(counts, epsilon=1)) == "cost nothing: a stored release"
