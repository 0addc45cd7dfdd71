"""python -m benchmarks [--quick] [--rows 1M,10M,50M] [--scale 1] [--out FOLDER]

Measures speed, memory, error and coverage beside plain DuckDB and other systems that are installed, and writes
results.md and results.json. Data are made on first use, in benchmarks/data. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import accuracy, cases, corpus, events, goals, machine, others, small, speed, tpch, unit_index
from benchmarks.cases import Case
from benchmarks.data import FOLDER, Data
from benchmarks.report import report, rows_of
from benchmarks.turns import Failed, Worker

OUT = Path(__file__).parent.parent / "build" / "benchmarks"
PARTS = ("events", "tpch", "accuracy", "small")


def sizes(text: str) -> tuple[int, ...]:
    """1M,10M → (1000000, 10000000)"""
    units = {"k": 10**3, "M": 10**6}
    return tuple(int(float(one.rstrip("kM")) * units.get(one[-1], 1)) for one in text.replace("_", "").split(","))


def options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="three queries of 200k rows, one of TPC-H at scale 0.1, two turns"
    )
    parser.add_argument("--rows", type=sizes, help="sizes of the events (1M,10M)")
    parser.add_argument("--scale", help="of TPC-H (1)")
    parser.add_argument("--turns", type=int, help="how often each way is run (5)")
    parser.add_argument("--runs", type=int, help="how many accounts errors are measured in (20)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--cases", default="", help="names of queries, divided by commas, instead of all")
    parser.add_argument("--peers-at", type=sizes, default=(10**6,), help="sizes at which others are measured (1M)")
    parser.add_argument("--peer-python", action="append", default=[], help="a Python that has others installed")
    parser.add_argument("--data", type=Path, default=FOLDER, help="where data are made")
    parser.add_argument("--out", type=Path, default=OUT, help="where results.md and results.json are written")
    found = parser.parse_args(given)
    quick = found.quick
    found.rows = found.rows or ((200_000,) if quick else (10**6, 10**7))
    found.scale = found.scale or ("0.1" if quick else "1")
    found.turns = found.turns or (2 if quick else 5)
    found.runs = found.runs if found.runs is not None else (1 if quick else 20)
    found.parts = found.parts.split(",")
    if unknown := set(found.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return found


def measure(given: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """All parts that are asked for, as JSON has them."""
    begun, before = time.time(), machine.load()
    only = set(filter(None, given.cases.split(",")))
    if "events" in given.parts and set(given.rows) & set(given.peers_at):
        installed, absent = others.installed(given.peer_python)
    else:
        at = " and ".join(map(rows_of, given.peers_at))
        installed, absent = [], dict.fromkeys(others.SYSTEMS, f"others are asked at {at} rows, see --peers-at")
    results: dict[str, Any] = {
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "began": time.strftime("%Y-%m-%d %H:%M", time.localtime(begun)),
        "machine": machine.facts(),
        "epsilon": cases.EPSILON,
        "delta": cases.DELTA,
        "peers": [{"name": p.name, "version": p.version} for p in installed],
        "not_measured": absent,
        "opened": {},
        "speed": [],
        "accuracy": [],
        "corpus": {},
        "small": {},
    }
    if (why := unit_index.missing()) is not None:
        results["not_measured"]["with the unit index"] = why

    def timed(case: Case, data: Data) -> None:
        results["opened"].setdefault(f"{data.name} {data.rows}", data.opened)
        beside = installed if data.rows in given.peers_at else ()
        try:
            found = speed.measure(case, data, given.turns, 1 if given.quick else 3, beside)
        except Failed as failed:  # an hour of other figures isn't lost with it
            results["not_measured"][f"{case.name} at {data.rows:,} rows"] = str(failed)
            return
        results["speed"].append(found)
        say(f"{data.name} {data.rows:,}: {case.name} {found['ways']['again']['cpu']['median']:.3f} s")

    def compared(case: Case, data: Data) -> None:
        try:
            results["accuracy"].append(errors(case, data, given.runs, say))
        except Failed as failed:
            results["not_measured"][f"errors of {case.name} at {data.rows:,} rows"] = str(failed)

    def asked(rows: int) -> None:
        for case in cases.EVENTS if "events" in given.parts else ():
            if rows <= case.up_to and (case.quick or not given.quick) and (not only or case.name in only):
                timed(case, events.made(rows, case.unit, given.data))

    try:
        _run(given, only, results, asked, timed, compared)
        if "accuracy" in given.parts and given.runs:
            results["corpus"] = corpus.measured(only, given.quick, say)
    except KeyboardInterrupt:
        results["not_measured"]["what would have come then"] = "it was stopped"
    results["seconds"] = time.time() - begun
    results["load"] = {"before": before, "after": machine.load()}
    results["goals"] = goals.judged(results)
    return results


def _run(
    given: argparse.Namespace,
    only: set[str],
    results: dict[str, Any],
    asked: Callable[[int], None],
    timed: Callable[[Case, Data], None],
    compared: Callable[[Case, Data], None],
) -> None:
    """One part after the other; what takes longest is last, so that whoever stops it loses least."""
    if "small" in given.parts:
        results["small"] = {
            "rate": small.rate(1 if given.quick else 20, limits_counted=True),
            "bare_rate": small.rate(1 if given.quick else 20, limits_counted=False),
            "planning": small.planning(tpch.made(given.scale, given.data), 1 if given.quick else 3),
            "start_up": small.start_up(1 if given.quick else 9),
            "draws": small.draws(10**5 if given.quick else 10**6),
        }
    for rows in given.rows:
        if rows <= cases.TEN:
            asked(rows)
    if "tpch" in given.parts:
        for case in tpch.cases():
            if (case.quick or not given.quick) and (not only or case.name in only):
                timed(case, tpch.made(given.scale, given.data))
    if "accuracy" in given.parts and given.runs:
        smallest = min(given.rows)
        for case in cases.ACCURACY:
            if (not given.quick or case.name == "Q3") and (not only or case.name in only):
                compared(case, events.made(smallest, case.unit, given.data))
        if not given.quick and not only:
            for case in tpch.cases():
                if not case.limits:
                    compared(case, tpch.made(given.scale, given.data))
    for rows in given.rows:
        if rows > cases.TEN:
            asked(rows)


def errors(case: Case, data: Data, runs: int, say: Callable[[str], None]) -> dict[str, Any]:
    """The errors of several answers, each from an account of its own, so that nothing is known from the one before."""
    files = {name: str(path) for name, path in data.files.items()}
    with Worker({"kind": "plain", "files": files, "sql": case.sql, "floor": ""}) as plain:
        truth = plain.run("plain", answer=True).answer
    assert truth is not None
    found = accuracy.Errors(truth)
    for _ in range(runs):
        with data.account() as ledger, Worker(speed.task(case, data, str(ledger))) as ours:
            taken = ours.run("cold", answer=True)
            assert taken.answer is not None
            found.add(taken.answer)
    say(f"{data.name} {data.rows:,}: error of {case.name}")
    return {
        "case": case.name,
        "data": data.name,
        "rows": data.rows,
        "limits": dict(case.limits),
        "columns": found.columns(),
    }


def main(given: Sequence[str] | None = None) -> None:
    asked = options(given)
    results = measure(asked, lambda line: print(line, file=sys.stderr, flush=True))
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = report(results)
    (asked.out / "results.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
