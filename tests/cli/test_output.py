"""Formats, files and terminals: what an answer looks like when it leaves."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import dpsql as package
from dpsql.answer.notebook import html_table
from dpsql.answer.render import as_csv, as_json, encode
from dpsql.answer.text_table import plain_table
from dpsql.cli.output import fitted, remark

Run = Callable[..., Result]
REGIONS = "SELECT region, COUNT(*) AS n, AVG(income) AS mean FROM people GROUP BY region"
KEYS = ["east", "north", "south", None]
EXACT = ["--epsilon", "50"]
ODD = (
    "SELECT COUNT(*) AS n, DATE '2024-01-02' AS day, TIMESTAMP '2024-01-02 03:04:05' AS moment, "
    "9007199254740993 AS big, CAST(1.5 AS DECIMAL(5, 2)) AS price, CAST('nan' AS DOUBLE) AS nan, "
    "NULL AS nothing, '' AS empty, 'a,\"b\"' AS quoted, TRUE AS yes FROM people"
)


def left(run: Run) -> float:
    return float(json.loads(run("budget", "--json").stdout)["remaining"]["epsilon"])


def read(data: bytes, format_: str) -> list[list[object]]:
    """The rows of a file, NULL as None and numbers as text where the format has only text."""
    if format_ == "csv":
        return [[cell or None for cell in row] for row in list(csv.reader(io.StringIO(data.decode())))[1:]]
    if format_ == "json":
        return [list(row) for row in json.loads(data)["rows"]]
    source = io.BytesIO(data)
    table = pq.read_table(source) if format_ == "parquet" else pa.ipc.open_file(source).read_all()
    return [list(row.values()) for row in table.to_pylist()]


FRACTIONS = (
    "SELECT region, AVG(income) AS mean, AVG(income) / 3e7 AS small, AVG(income) * 1e9 AS large, "
    "CAST(AVG(income) AS DECIMAL(30, 12)) AS price, CAST(SUM(age) AS HUGEINT) * 1000000000000 AS big, "
    "TIMESTAMP '2024-01-02 03:04:05.678901' AS moment FROM people GROUP BY region"
)


@pytest.mark.parametrize("format_", ["csv", "json", "parquet", "arrow"])
def test_nothing_is_rounded_for_programs(folder: Path, format_: str) -> None:
    """Neither values nor the ends of intervals; a terminal shows what the error leaves of them."""
    with package.connect(folder / "policy.toml") as session:
        answer = session.query(FRACTIONS, epsilon=1)
    data = encode(answer, format_, 0.95)
    if format_ == "json":
        told = json.loads(data)
        found = {name: [row[i] for row in told["rows"]] for i, name in enumerate(told["columns"])}
        ends = {name: [span or (None, None) for span in spans] for name, spans in told["intervals"].items()}
    else:
        header = data.decode().splitlines()[0].split(",") if format_ == "csv" else []
        rows = read(data, format_)
        if format_ != "csv":
            source = io.BytesIO(data)
            table = pq.read_table(source) if format_ == "parquet" else pa.ipc.open_file(source).read_all()
            header = table.column_names
        found = {name: [row[i] for row in rows] for i, name in enumerate(header)}
        names = [name for name in found if f"{name}_low" in found]
        ends = {name: list(zip(found[f"{name}_low"], found[f"{name}_high"], strict=True)) for name in names}
    for name, values in zip(answer.columns, zip(*answer.rows, strict=True), strict=True):
        for value, seen in zip(values, found[name], strict=True):
            if name == "moment":
                assert "05.678901" in str(seen)
            elif value is None or name == "region":
                assert seen == value
            else:
                assert type(value)(seen) == value, (name, value, seen)
    spans = {name: cells for name, cells in answer.intervals(0.95).items() if cells is not None}
    assert {"mean", "small", "large"} <= ends.keys() & spans.keys()
    for name, cells in ends.items():
        for cell, (low, high) in zip(spans[name] or (), cells, strict=True):
            assert cell is None or [end for end in cell if isfinite(end)] == [
                float(end) for end in (low, high) if end is not None
            ]


@pytest.mark.parametrize("format_", ["csv", "json", "parquet", "arrow"])
def test_each_format_round_trips_through_a_file_and_through_stdout(dpsql: Run, folder: Path, format_: str) -> None:
    done = dpsql("query", REGIONS, *EXACT, "-o", f"answer.{format_}")
    assert done.exit_code == 0 and done.stdout_bytes == b""
    piped = dpsql("query", REGIONS, *EXACT, "--format", format_)
    for data in ((folder / f"answer.{format_}").read_bytes(), piped.stdout_bytes):
        rows = read(data, format_)
        assert [row[0] for row in rows] == KEYS
        assert abs(int(str(rows[0][1])) - 25) < 5 and abs(float(str(rows[1][2])) - 360) < 40


def test_parquet_and_arrow_keep_the_types(dpsql: Run, folder: Path) -> None:
    dpsql("query", REGIONS, "-o", "a.parquet")
    dpsql("query", REGIONS, "-o", "a.arrow")
    with pa.OSFile(str(folder / "a.arrow")) as source:
        arrow = pa.ipc.open_file(source).schema
    assert pq.read_schema(folder / "a.parquet").types == arrow.types == [pa.string(), pa.int64(), pa.float64()]


def test_a_pipe_gets_csv_without_error_bars(dpsql: Run) -> None:
    lines = dpsql("query", REGIONS).stdout.splitlines()
    assert lines[0] == "region,n,mean" and len(lines) == 5 and "±" not in "".join(lines)


def test_json_has_exactly_the_promised_shape(dpsql: Run) -> None:
    found = json.loads(dpsql("query", REGIONS, "--epsilon", "0.1", "--format", "json").stdout)
    assert list(found) == ["columns", "rows", "intervals", "cost", "receipt"]
    assert found["columns"] == ["region", "n", "mean"]
    assert found["cost"] == {"epsilon": 0.1, "delta": 0.0, "rho": None}
    assert list(found["intervals"]) == ["n", "mean"]
    for cells in found["intervals"].values():
        assert len(cells) == 4 and all(cell is None or cell[0] <= cell[1] for cell in cells)
    assert {"id", "time"} <= set(found["receipt"]) and found["receipt"]["epsilon"] == "1/10"


def test_error_bars_of_what_is_computed_are_in_json_and_in_tables_and_those_that_take_long_on_request(
    dpsql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpsql.answer import errors, simulate

    sql = "SELECT region, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY region"
    found = json.loads(dpsql("query", sql, *EXACT, "--format", "json").stdout)
    for (_, share), (low, high) in zip(found["rows"], found["intervals"]["share"], strict=True):
        assert low <= share <= high
    assert "± 95%" in dpsql("query", sql, *EXACT, "--format", "table").stdout
    monkeypatch.setattr(errors, "AT_ONCE", simulate.Effort(0, 1.0))
    without = dpsql("query", sql, *EXACT, "--format", "json")
    assert json.loads(without.stdout)["intervals"] == {} and "--intervals, does it" in without.stderr
    asked = dpsql("query", sql, *EXACT, "--format", "json", "--intervals")
    assert list(json.loads(asked.stdout)["intervals"]) == ["share"] and "--intervals" not in asked.stderr


def test_json_keeps_what_its_readers_would_lose(dpsql: Run) -> None:
    found = json.loads(dpsql("query", ODD, "--format", "json").stdout)
    row = dict(zip(found["columns"], found["rows"][0], strict=True))
    assert row["day"] == "2024-01-02" and row["moment"] == "2024-01-02T03:04:05"
    assert row["big"] == "9007199254740993" and row["price"] == "1.50"
    assert row["nan"] is None and row["nothing"] is None and row["empty"] == "" and row["yes"] is True


def test_csv_tells_null_from_an_empty_text(dpsql: Run) -> None:
    header, line = dpsql("query", ODD, "--format", "csv").stdout.splitlines()
    assert line.split(",", 1)[1] == ('2024-01-02,2024-01-02T03:04:05,9007199254740993,1.50,nan,,"","a,""b""",true'), (
        header
    )


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    "output",
    [
        ["-o", "answer.xlsx"],
        ["-o", "answer"],
        ["-o", "nowhere/answer.csv"],
        ["-o", "sub.csv"],
        ["-o", "answer.csv", "--format", "json"],
    ],
)
def test_an_output_that_can_not_work_is_refused_before_anything_is_paid(
    dpsql: Run, folder: Path, output: list[str]
) -> None:
    (folder / "sub.csv").mkdir()
    done = dpsql("query", REGIONS, *output)
    assert done.exit_code == 2 and left(dpsql) == 100


def test_any_name_will_do_when_the_format_is_given(dpsql: Run, folder: Path) -> None:
    assert dpsql("query", REGIONS, "-o", "answer.txt", "--format", "csv").exit_code == 0
    assert (folder / "answer.txt").read_text().startswith("region,n,mean\n")


def test_a_file_is_replaced_whole_and_keeps_its_permissions(dpsql: Run, folder: Path) -> None:
    target = folder / "answer.csv"
    target.write_text("old")
    target.chmod(0o640)
    before = sorted(p.name for p in folder.iterdir())
    assert dpsql("query", REGIONS, "-o", "answer.csv").exit_code == 0
    assert target.read_text().startswith("region") and target.stat().st_mode & 0o777 == 0o640
    assert {p.name for p in folder.iterdir()} - set(before) <= {p.name for p in folder.glob("*.sqlite*")}


def test_a_refused_query_leaves_the_old_file_and_no_other(dpsql: Run, folder: Path) -> None:
    (folder / "answer.csv").write_text("old")
    before = sorted(folder.iterdir())
    assert dpsql("query", "SELECT name FROM people", "-o", "answer.csv").exit_code == 3
    assert (folder / "answer.csv").read_text() == "old"
    assert [p for p in sorted(folder.iterdir()) if ".sqlite" not in p.name] == before


def test_an_answer_that_was_paid_for_is_shown_when_its_file_can_not_be_written(
    dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpsql.cli.output.Path.replace", full)
    done = dpsql("query", REGIONS, "-o", "answer.json")
    assert done.exit_code == 6 and "No space left on device" in done.stderr
    assert done.stdout.startswith("region,n,mean\neast,")
    assert not [p for p in folder.iterdir() if "answer" in p.name]


# ---------------------------------------------------------------- terminals and notebooks


def on_a_terminal(folder: Path, *arguments: str) -> str:
    """What a person would see in the end: stdout and stderr are one terminal."""
    master, slave = pty.openpty()
    code = "from dpsql.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=slave, stderr=slave, stdin=slave, cwd=folder
    )
    os.close(slave)
    shown = b""
    while select.select([master], [], [], 60)[0]:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    process.wait()
    os.close(master)
    return re.sub(r"\r\x1b\[K(. working, \d+ s)?", "", shown.decode())


def test_a_terminal_gets_an_aligned_table_with_error_bars_and_a_receipt(folder: Path) -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(folder, "query", REGIONS))
    lines = shown.splitlines()
    assert re.fullmatch(r"region +n +± 95% +mean +(± 95%|95% interval)", lines[0])
    assert [line.split()[0] for line in lines[2:6]] == ["east", "north", "south", "NULL"]
    assert lines[-1] == "cost ε = 1 · left ε = 99 of ε = 100"


def test_a_table_fits_the_terminal_that_it_is_shown_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("PAGER", "cat")
    sql = "SELECT region, COUNT(*) AS number_of_people, AVG(income) AS average_income FROM people GROUP BY region"
    for wide in ([], ["--wide"]):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(folder, "query", sql, "-q", *wide))
        assert (max(map(len, shown.splitlines())) <= 40) is not bool(wide)
        assert "cost" not in shown


def test_a_chart_is_drawn_below_the_table_or_in_place_of_csv(
    folder: Path, dpsql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "cat")
    shown = on_a_terminal(folder, "query", REGIONS, "--plot")
    assert "± 95%" in shown and "error bars: 95%" in shown
    piped = dpsql("query", REGIONS, "--plot").stdout
    assert "east┤" in piped and "\x1b" not in piped and "," not in piped.splitlines()[1]
    done = dpsql("query", REGIONS, "--plot", "-o", "a.csv")
    assert "east┤" in done.stdout and (folder / "a.csv").read_text().startswith("region,n,mean\n")


@pytest.mark.parametrize("arguments", [["--plot"], ["-o", "a.svg"], ["--format", "html"]])
@pytest.mark.parametrize(
    ("sql", "reason", "way"),
    [
        ("SELECT COUNT(*) AS n FROM people", "a chart needs a key", "GROUP BY"),
        ("SELECT COUNT(*) AS n, 2 * AVG(income) AS m FROM people", "a chart needs a key", "GROUP BY"),
        ("SELECT DISTINCT region FROM people", "column of numbers with noise", "without a chart"),
    ],
)
def test_what_can_not_be_drawn_is_refused_before_anything_is_paid(
    dpsql: Run, folder: Path, arguments: list[str], sql: str, reason: str, way: str
) -> None:
    done = dpsql("query", sql, *arguments)
    assert done.exit_code == 3 and reason in done.stderr and way in done.stderr and done.stdout == ""
    assert left(dpsql) == 100 and not (folder / "a.svg").exists()


def test_a_batch_without_a_chart_is_refused_as_well(dpsql: Run, folder: Path) -> None:
    (folder / "two.sql").write_text(f"{REGIONS};\nSELECT COUNT(*) FROM people;\n")
    done = dpsql("query", "-f", "two.sql", "--plot")
    assert done.exit_code == 3 and "a chart needs a key" in done.stderr and left(dpsql) == 100


def test_what_is_free_and_can_not_be_drawn_is_shown_all_the_same(dpsql: Run) -> None:
    assert dpsql("query", "SHOW TABLES", "--plot").stdout.startswith("no chart: a chart needs")


def test_every_measure_is_drawn(dpsql: Run, folder: Path) -> None:
    shown = dpsql("query", REGIONS, "--plot").stdout
    assert [line for line in shown.splitlines() if "error bars" in line] == [
        "n, error bars: 95%",
        "mean, error bars: 95%",
    ]
    assert dpsql("query", REGIONS, "-o", "a.svg").exit_code == 0
    drawn = (folder / "a.svg").read_text()
    assert "n (error bars: 95%)" in drawn and "mean (error bars: 95%)" in drawn


def test_a_chart_in_a_file_has_its_kind_from_its_name_and_may_have_a_receipt(dpsql: Run, folder: Path) -> None:
    assert dpsql("query", REGIONS, "-o", "a.svg", "--receipt").exit_code == 0
    assert (folder / "a.svg").read_text().startswith("<svg")
    assert dpsql("verify", "a.svg", "--key", dpsql("key").stdout.split()[0]).exit_code == 0


@pytest.mark.parametrize(
    ("module", "arguments"), [("plotext", ["--plot"]), ("altair", ["-o", "a.html"]), ("vl_convert", ["-o", "a.png"])]
)
def test_a_library_that_a_chart_needs_is_missed_before_anything_is_paid(
    dpsql: Run, monkeypatch: pytest.MonkeyPatch, module: str, arguments: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    done = dpsql("query", REGIONS, *arguments)
    assert done.exit_code == 2 and "pip install 'dpsql[plot]'" in done.stderr and left(dpsql) == 100


def test_two_things_that_want_standard_output_are_refused(dpsql: Run) -> None:
    done = dpsql("query", REGIONS, "--plot", "--format", "csv")
    assert done.exit_code == 2 and "add -o FILE" in done.stderr and left(dpsql) == 100


def test_quiet_says_nothing_but_the_answer(dpsql: Run) -> None:
    done = dpsql("query", REGIONS, "-q")
    assert done.stderr == "" and done.stdout.startswith("region,n,mean\n")
    assert "error:" in dpsql("query", "SELECT name FROM people", "-q").stderr


def test_a_long_answer_goes_through_the_pager_of_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "sed s/^/PAGED:/")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "24")
    assert "PAGED:" in on_a_terminal(folder, "query", "SELECT age, COUNT(*) AS n FROM people GROUP BY age")


def test_progress_is_shown_to_a_terminal_alone_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from time import sleep

    from dpsql.cli import output as module
    from dpsql.core.doing import doing

    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    with module.progress(False):
        sleep(0.05)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with module.progress(False) as ended:
        sleep(0.05)
        ended()
    shown = capsys.readouterr().err
    assert "working, 0 s" in shown and shown.endswith(module.CLEAR)
    with module.progress(False), module.progress(False), doing("reading people"), doing("columns 1 to 3 of 9"):
        sleep(0.05)
    shown = capsys.readouterr().err
    assert "reading people, columns 1 to 3 of 9, 0 s" in shown and shown.count(module.SIGNS[1]) == 1
    with module.progress(True):
        sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_errors_in_red_and_no_bytes_of_a_binary_format(folder: Path) -> None:
    assert "\x1b[31m" in on_a_terminal(folder, "query", "SELECT name FROM people")
    assert "is not for a terminal" in on_a_terminal(folder, "query", REGIONS, "--format", "parquet")


@pytest.fixture
def session(folder: Path) -> package.Session:
    return package.connect(folder / "policy.toml")


def test_text_from_a_query_can_not_steer_a_terminal(session: package.Session) -> None:
    with session:
        shown = plain_table(session.query("SELECT COUNT(*) AS n, '\x1b[2J\n' AS evil FROM people"))
    assert "\x1b" not in shown and "\\x1b[2J\\n" in shown


def test_markup_in_a_value_is_shown_and_not_obeyed(session: package.Session) -> None:
    with session:
        answer = session.query("SELECT COUNT(*) AS n, '[red]<b>&' AS text FROM people")
    assert "[red]<b>&" in plain_table(answer) and "[red]&lt;b&gt;&amp;" in html_table(answer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_device_is_no_bug_and_the_answer_is_shown_or_kept(folder: Path) -> None:
    query = [sys.executable, "-m", "dpsql", "query", "SELECT COUNT(*) FROM people", "--epsilon", "1"]
    run: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([*query, "-o", "/dev/full", "--format", "csv"], **run)
    assert done.returncode == 6 and "standard output instead" in done.stderr and len(done.stdout.splitlines()) == 2
    with Path("/dev/full").open("wb") as full:
        lost = subprocess.run(query, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert lost.returncode == 6 and "No space left" in lost.stderr
    id = lost.stderr.split("--replay ")[1].strip()
    replayed = subprocess.run([*query[:3], "budget", "--replay", id], **run)
    assert replayed.returncode == 0 and replayed.stdout == done.stdout


def test_a_long_answer_prints_in_full_to_a_file_and_cut_in_a_notebook(session: package.Session) -> None:
    with session:
        answer = session.query("SELECT age, COUNT(*) AS n FROM people GROUP BY age")
    assert (
        "\n… 72 more rows\n" in str(answer)
        and str(answer).endswith("\ncost ε = 1")
        and "72 more rows" in html_table(answer)
    )
    assert len(encode(answer, "table").decode().splitlines()) == 122 + 2


def test_two_columns_of_one_name_are_both_shown(session: package.Session) -> None:
    with session:
        answer = session.query("SELECT COUNT(*) AS n, SUM(age) AS n FROM people")
    assert as_csv(answer).splitlines()[0] == "n,n" and len(as_json(answer)["rows"][0]) == 2
    assert plain_table(answer).splitlines()[0].split() == ["n", "n"]


def test_what_is_shown_of_an_error_is_no_narrower_than_the_error(session: package.Session) -> None:
    with session:
        answer = session.query("SELECT SUM(income) AS total FROM people", epsilon=1)
    low, high = answer.intervals()["total"][0]  # type: ignore[index, misc]  # it has noise of its own
    line = plain_table(answer).splitlines()[2].replace(",", "").split()
    assert float(line[0]) - float(line[1]) <= low + 1 and float(line[0]) + float(line[1]) >= high - 1


def test_a_terminal_cuts_lists_and_wraps_remarks_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    text = "seven words that are longer than twenty"
    remark(text)
    assert fitted(text) == text and capsys.readouterr().err == f"{text}\n"
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    remark(text)
    assert fitted(text) == "seven words that ar…" and fitted("short") == "short"
    assert capsys.readouterr().err == "seven words that are\n  longer than twenty\n"
