"""Intervals in every form: half widths, ranges, and bounds, which people read as such and programs as an empty end."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Connect

import dpsql
from dpsql.accounting.account import Receipt
from dpsql.answer import intervals as model
from dpsql.answer.columns import FULL, NARROW, Shown, Source, Style
from dpsql.answer.interval_text import Interval, Writer, half_width, kind_of
from dpsql.answer.intervals import Between
from dpsql.answer.model import Answer
from dpsql.answer.plot import chart_of, encode_chart, text_chart
from dpsql.answer.render import as_json, encode
from dpsql.answer.text_table import text_table
from dpsql.cli.demo import bars
from dpsql.core.cost import Cost
from dpsql.remote.wire import pack, unpack
from dpsql.store.plain import from_json, to_json

VALUES = [19_700, 80, 3_000, -5, 7]
ENDS: list[Interval] = [(19_603.0, inf), (69.0, 91.0), (2_903.0, 5_387.0), (-inf, 6.0), (-inf, inf)]
NO_SUCH_TEXT = re.compile(r"\b(inf|nan|Infinity)\b|∞|NaN", re.IGNORECASE)


def answer(values: Sequence[Any] = VALUES, ends: Sequence[Interval] = ENDS, type_: Any = None) -> Answer:
    """An answer with these values and intervals, one row for each."""
    low, high = (np.array([nan if w is None else w[side] for w in ends]) for side in (0, 1))
    keys = pa.array([chr(ord("a") + i) for i in range(len(values))])
    cost = Cost(Fraction(1))
    receipt = Receipt("0123456789abcdef", "2026-01-02T03:04:05+00:00", cost, "released")
    table = pa.table({"plan": keys, "n": pa.array(values, type_)})
    return Answer(table, (), (None, Between(low, high, 0.95)), None, cost, receipt)


def shown(values: Sequence[Any], ends: Sequence[Interval], style: Style = FULL) -> list[Shown]:
    return Source("n", list(values), list(ends), True, None).shown(style)


# ---------------------------------------------------------------- tables


def test_a_number_without_an_upper_end_reads_at_least_and_never_as_an_estimate() -> None:
    head, errors = shown(VALUES, ENDS)
    assert head.cells == ["at least 19,600", "80", "3,000", "at most 6", "7"]
    assert errors.cells == ["", "69 to 91", "2,900 to 5,400", "", "unknown"]
    assert "19,700" not in text_table(answer())


def test_half_widths_and_ranges_have_headings_of_their_own() -> None:
    assert shown([80, 90], [(69.0, 91.0), (78.0, 101.0)])[1] == Shown(
        "± 95%", ["11", "12"], True, True, ["69 to 91", "78 to 101"]
    )
    several = shown([80, 3_000], [(69.0, 91.0), (2_903.0, 5_387.0)])[1]
    assert (several.header, several.cells) == ("95% interval", ["69 to 91", "2,900 to 5,400"])


@pytest.mark.parametrize(
    ("value", "interval", "half"),
    [
        (100.0, (90.0, 110.0), 10.0),
        (100.0, (90.0, 112.0), 12.0),  # a side is a tenth of the width longer at most
        (100.0, (90.0, 115.0), None),
        (3, (1.6, 5.4), 2.4),  # of a rounded number
        (Decimal("3.0"), (2.9, 3.19), 0.19),
        (3.0, (2.9, 3.19), None),
        (1.0, (1.0, 99.0), None),
        (5, (5.0, 5.0), 0.0),
        (5, (7.0, 9.0), None),  # it lies outside
        (5, (-inf, 9.0), None),
        (5, None, None),
    ],
)
def test_an_interval_is_shown_as_a_half_width_where_its_sides_are_about_alike(
    value: Any, interval: Interval, half: float | None
) -> None:
    assert half_width(value, interval) == (None if half is None else pytest.approx(half))


def test_a_column_of_bounds_alone_has_no_column_of_errors() -> None:
    assert [one.header for one in shown([200, 300], [(150.0, inf), (250.0, inf)])] == ["n"]
    assert text_table(answer([200], [(150.0, inf)])).splitlines()[0].split() == ["plan", "n"]
    assert [one.header for one in shown([], [])] == ["n", "± 95%"]


def test_an_average_of_too_few_rows_keeps_its_words_and_an_unknown_error_is_unknown() -> None:
    source = Source("a", [None, 3.3, 2.0], [(0.0, 100.0), None, (nan, inf)], True, ["too few"] * 3)
    head, errors = source.shown(FULL)
    assert head.cells == ["too few", "3.3", "2"] and errors.cells == ["", "unknown", "unknown"]


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (19_700, (19_603.0, inf), "at least 19,600"),
        (19_700, (19_689.4, inf), "at least 19,689"),
        (20_000, (900.0, inf), "at least 900"),
        (20_000, (0.0, inf), "at least 0"),
        (3, (-7.6, inf), "at least -8"),
        (0.2314, (0.20187, inf), "at least 0.201"),
        (0.2314, (-inf, 0.25187), "at most 0.252"),
        (1e300, (1e299, inf), None),
        (5e-324, (0.0, inf), "at least 0.000000000000000"),
        (12, (12.0, inf), "at least 12"),
        (Decimal("1204.50"), (1_104.2, inf), "at least 1,100"),
        (None, (3.25, inf), "at least 3.25"),
    ],
)
def test_a_bound_is_rounded_outward_to_the_digits_that_mean_something(
    value: Any, interval: Interval, text: str | None
) -> None:
    if value is None:
        assert Writer(str, None).interval(value, interval) == text
        return
    (cell,) = shown([value], [interval])[0].cells
    assert text is None or cell == text
    assert NO_SUCH_TEXT.search(cell) is None


ends = st.one_of(st.none(), st.tuples(st.floats(), st.floats()).map(lambda pair: (min(pair), max(pair))))
values = st.one_of(
    st.none(), st.integers(-(10**18), 10**18), st.floats(allow_nan=False, allow_infinity=False), st.decimals(-1e9, 1e9)
)


@given(st.lists(st.tuples(values, ends), max_size=5), st.sampled_from([FULL, *NARROW]))
def test_no_text_names_an_infinite_end(rows: list[tuple[Any, Interval]], style: Style) -> None:
    for column in shown([v for v, _ in rows], [w for _, w in rows], style):
        assert len(column.cells) == len(rows)
        assert not any(NO_SUCH_TEXT.search(text) for text in [*column.cells, *(column.hints or [])])


numbers = st.floats(-1e12, 1e12)


@given(numbers, numbers, numbers)
def test_no_range_and_no_bound_is_narrower_than_its_interval(a: float, b: float, c: float) -> None:
    low, value, high = sorted((a, b, c))
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    for interval in ((low, high), (low, inf), (-inf, high)):
        text = Writer(lambda v: f"{v:,.3f}", 3).interval(value, interval)
        read = [float(n.replace(",", "")) for n in re.findall(r"-?[\d,.]+", text)]
        sides = [(e, up) for e, up in zip(interval, (False, True), strict=True) if abs(e) < inf]
        for (end, up), one in zip(sides, read, strict=True):
            assert one >= end - slack if up else one <= end + slack
            assert abs(one - end) <= max(0.001, 0.2 * abs(value - end)) + slack


def test_a_narrow_table_keeps_bounds_in_whole_words_and_says_what_brackets_are() -> None:
    lines = text_table(answer(), width=34).splitlines()
    assert lines[2].split("   ")[-1].strip() == "at least 19,600" or "at least 19,600" in lines[2]
    assert lines[0].split() == ["plan", "n", "(95%)"] and lines[-1] == "in brackets: 95% intervals"
    assert "3,000 (2,900 to 5,400)" in text_table(answer(), width=34)
    turned = text_table(answer([200], [(150.0, inf)]), width=10)
    assert "at least 150" in turned and "±" not in turned


def test_thousands_are_cut_off_outward() -> None:
    ((cell,),) = (one.cells for one in shown([2_905_714], [(2_864_712.0, inf)], NARROW[-1]))
    assert cell == "at least 2,864k"


# ---------------------------------------------------------------- print, notebook, charts


def test_print_and_notebooks_say_all_that_the_command_line_says() -> None:
    groups, cut = ("groups of fewer than 20 people may be missing",), ("max_rows = 16 cuts about 4%",)
    said = replace(answer(), lists=groups, cut_notes=cut)
    for text in (str(said), said._repr_html_()):
        assert all(line in text for line in said.notes) and "cost ε = 1" in text
        assert "at least 19,600" in text and "95% interval" in text and not NO_SUCH_TEXT.search(text)
    assert len(said.notes) == 2


def test_a_notebook_says_what_was_measured_when_a_bound_is_pointed_at() -> None:
    html = answer()._repr_html_()
    assert 'title="95%: at least 19,600 (measured: 19,700)">at least 19,600<' in html
    assert 'title="95%: 2,900 to 5,400"' in html and html.count("title=") == 6


def test_a_chart_draws_an_arrow_where_there_is_no_end_and_keeps_its_scale() -> None:
    chart = chart_of(answer())
    arrows = {bar.point.x: (bar.start, bar.end, bar.arrow) for bar in chart.bars()}
    assert arrows["b"] == (69.0, 91.0, "") and arrows["a"][0] == 19_603 and arrows["a"][2] == "up"
    assert 19_700 < arrows["a"][1] < 21_500 and arrows["d"][2] == "down" and "e" not in arrows
    text = text_chart(chart, 80)
    assert "▶" in text and "◀" in text and "arrow: no bound on that side" in text and not NO_SUCH_TEXT.search(text)
    svg = encode_chart(chart, "svg").decode()
    assert "arrow: no bound on that side" in svg and not NO_SUCH_TEXT.search(svg)
    spec = chart_of(answer([1, 2], [(0.0, 2.0), (1.0, 3.0)]))
    assert "arrow" not in spec.meaning and all(bar.arrow == "" for bar in spec.bars())


def test_lines_have_arrows_up_and_down_the_page() -> None:
    table = pa.table({"week": [1, 2, 3], "n": [10.0, 20.0, 30.0]})
    low, high = np.array([-inf, 15.0, 25.0]), np.array([12.0, 25.0, inf])
    whole = replace(answer(), table=table, origins=(None, Between(low, high, 0.95)))
    chart = chart_of(whole)
    assert chart.lines and [bar.arrow for bar in chart.bars()] == ["down", "", "up"]
    text = text_chart(chart, 80)
    assert "▲" in text and "▼" in text
    spec = json.loads(whole.plot().to_json())
    rows = [row for layer in spec["layer"] for row in layer.get("data", {}).get("values", [])]
    assert {row["arrow"] for row in rows if "arrow" in row} == {"triangle-up", "triangle-down"}
    assert all(isinstance(v, str | float | int) and v not in (inf, -inf) for row in rows for v in row.values())


def test_the_demos_bars_end_in_an_arrow() -> None:
    lines = bars(answer([19_700, 80], [(19_603.0, inf), (69.0, 91.0)]), 60).splitlines()
    assert lines[0].endswith("▶ has no bound above") and "▶" in lines[1] and lines[1].endswith("at least 19,600")
    assert "▶" not in lines[2] and all(len(line) <= 60 for line in lines[1:])
    assert "▶" not in bars(answer([80], [(69.0, 91.0)]), 60)


# ---------------------------------------------------------------- typed forms


def test_json_keeps_the_value_and_has_null_for_an_end_that_is_not_known() -> None:
    told = json.loads(encode(answer(), "json"))
    assert [row[1] for row in told["rows"]] == VALUES
    assert told["intervals"]["n"] == [[19_603.0, None], [69.0, 91.0], [2_903.0, 5_387.0], [None, 6.0], None]


def test_ends_are_null_in_arrow_parquet_pandas_and_polars_and_empty_in_csv(tmp_path: Path) -> None:
    low, high = [19_603.0, 69.0, 2_903.0, None, None], [None, 91.0, 5_387.0, 6.0, None]
    whole = answer()
    table = whole.to_arrow(intervals=True)
    assert table.column("n_low").to_pylist() == low and table.column("n_high").to_pylist() == high
    assert table.column("n").to_pylist() == VALUES and table.schema.field("n").type == pa.int64()
    assert table.schema.field("n_high").type == pa.float64()
    whole.write(tmp_path / "a.parquet", intervals=True)
    assert pq.read_table(tmp_path / "a.parquet").column("n_high").to_pylist() == high
    frame: polars.DataFrame = whole.to_polars(intervals=True)
    assert frame["n_low"].to_list() == low
    seen = whole.to_pandas(intervals=True)
    assert [None if isnan(v) else v for v in seen["n_high"]] == high
    rows = list(csv.DictReader(io.StringIO(encode(whole, "csv", 0.95).decode())))
    assert [row["n"] for row in rows] == [str(v) for v in VALUES]
    assert [row["n_high"] for row in rows] == ["", "91.0", "5387.0", "6.0", ""]
    assert not NO_SUCH_TEXT.search(encode(whole, "csv", 0.95).decode())


def test_ends_of_intervals_in_sql_are_null_where_they_are_not_known(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.answer.tables.intervals", lambda noisy, *_: [(3.0, inf)] * noisy.count)
    session = connect({"t": pa.table({"u": [1, 2]})}, {"tables": {"t": {"unit": "u"}}})
    sql = "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM t"
    assert session.query(sql, epsilon=1).rows[0][1:] == (3.0, None)


def test_a_cut_that_is_not_known_is_null_in_json_and_not_an_error() -> None:
    whole = answer()
    facts = {"n": {"low_by": inf, "exceeds_noise": False}}
    one = replace(whole, cut=facts, ranks={"n": inf})
    told = json.loads(json.dumps(as_json(one), allow_nan=False))
    assert told["cut"]["n"]["low_by"] is None and told["ranks"]["n"] is None
    assert not any(NO_SUCH_TEXT.search(note) for note in one.notes)


# ---------------------------------------------------------------- kept, sent, signed


def test_open_ends_travel_from_a_server_to_a_session(answered: Answer) -> None:
    (found,) = unpack(pack([answered]))
    assert found.intervals() == answered.intervals() and found.rows == answered.rows
    assert str(found) == str(answered)


@pytest.fixture
def answered(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """An answer of a session, with bounds for intervals."""
    monkeypatch.setattr(model, "intervals", lambda noisy, *_: [(3.0, inf)] * noisy.count)
    session = connect({"t": pa.table({"u": [1, 2]})}, {"tables": {"t": {"unit": "u"}}})
    return session.query("SELECT COUNT(*) AS n FROM t", epsilon=1)


def test_a_stored_answer_has_its_open_ends_again(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    def simulated(draws: Any, values: Any, *, by_row: bool) -> model.Simulated:
        tails = len(model.TAILS)
        return model.Simulated(np.full((tails, len(values)), 0.25), np.full((tails, len(values)), inf))

    monkeypatch.setattr("dpsql.answer.errors.summary", simulated)
    session = connect({"t": pa.table({"u": list(range(50))})}, {"tables": {"t": {"unit": "u"}}})
    sql = "SELECT MAX(n) / 100 AS m FROM (SELECT COUNT(*) AS n FROM t)"
    first = session.query(sql, epsilon=1)
    again = session.replay(first.receipt.id)
    assert first.intervals()["m"] == again.intervals()["m"] == [(0.25, inf)]
    assert text_table(again) == text_table(first) and "at least 0.25" in text_table(first)


def test_facts_with_infinite_numbers_are_json_and_come_back() -> None:
    facts = {"dpsql number": {"low_by": inf}, "a": [nan, -inf, 1.5, None, "inf"], "b": {"dpsql number": "5"}}
    text = to_json(facts)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} isn't JSON"))
    found = from_json(text)
    assert isnan(found["a"].pop(0)) and found["a"] == [-inf, 1.5, None, "inf"]
    assert found["dpsql number"] == {"low_by": inf} and found["b"] == {"dpsql number": "5"}
    assert from_json('{"low_by": Infinity}') == {"low_by": inf}, "of an earlier version"


def test_a_signed_receipt_of_a_file_with_an_open_end_is_verified(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "intervals", lambda noisy, *_: [(3.0, inf)] * noisy.count)
    policy = {"budget": {"epsilon": 5}, "privacy": {"limits_share": 0}, "tables": {"t": {"unit": "u", "max_rows": 1}}}
    table = pa.table({"u": [1, 2]})
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": table}, ledger=tmp_path / "l.sqlite") as session:
        one = session.query("SELECT COUNT(*) AS n FROM t", epsilon=1)
        key = session.signer.public
    one.write(tmp_path / "a.csv", intervals=True, receipt=True)
    assert (tmp_path / "a.csv").read_text().splitlines()[1].endswith(",3.0,")
    assert dpsql.verify(tmp_path / "a.csv", key=key).statement["receipt"] == one.receipt.id


def test_what_stands_for_an_error_has_one_name_each() -> None:
    kinds = [kind_of(v, w) for v, w in zip([*VALUES, None], [*ENDS, (0.0, 1.0)], strict=True)]
    assert kinds == ["at least", "half width", "range", "at most", "unknown", "none"]
