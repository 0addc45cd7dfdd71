"""python -m benchmarks.limits --rows 1M --peer-python build/opendp/bin/python …

How far off each system's answers are with the limit that its users would choose. dpsql is asked without one, each time
from an account of its own. Others can't choose: they are asked with several limits, and the best of these in hindsight
is shown, which is better than a user can know, and beside it 50 rows. Error alone: times are those of
`python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import accuracy, events, others, speed
from benchmarks.__main__ import sizes
from benchmarks.cases import EVENTS, Case
from benchmarks.data import FOLDER, Data
from benchmarks.turns import Failed, Worker

LIMITS = (10, 20, 50, 100, 150, 250, 500)
NAMED = 50
Columns = Mapping[str, Mapping[str, Any]]


def _truth(case: Case, files: Mapping[str, str]) -> dict[str, Any]:
    with Worker({"kind": "plain", "files": dict(files), "sql": case.sql, "floor": ""}) as plain:
        found = plain.run("plain", answer=True).answer
    assert found is not None
    return found


def _ours(case: Case, data: Data, truth: dict[str, Any], runs: int, limits: Mapping[str, Any]) -> Columns:
    """dpsql's errors, from an account of its own each time."""
    found = accuracy.Errors(truth)
    for _ in range(runs):
        with data.account() as ledger, Worker({**speed.task(case, data, str(ledger)), "limits": dict(limits)}) as ours:
            answer = ours.run("cold", answer=True).answer
            assert answer is not None
            found.add(answer)
    return found.columns()


def _others(
    case: Case, files: Mapping[str, str], truth: dict[str, Any], runs: int, limits: Sequence[int], peer: speed.Peer
) -> dict[str, Any]:
    """Another system's errors by limit; or why it has none."""
    by_limit: dict[str, Any] = {}
    for limit in limits if case.unit == "user_id" else (1,):
        task = {"kind": "peer", "peer": peer.module, "files": dict(files), "name": case.name, "rows": limit}
        found = accuracy.Errors(truth)
        try:
            with Worker(task, python=peer.python, patience=peer.patience) as other:
                for _ in range(runs):
                    answer = other.run("peer", answer=True).answer
                    assert answer is not None
                    found.add(answer)
        except Failed as failed:
            by_limit[str(limit)] = str(failed)
            continue
        by_limit[str(limit)] = found.columns()
    return by_limit


def measure(case: Case, data: Data, runs: int, limits: Sequence[int], peers: Sequence[speed.Peer]) -> dict[str, Any]:
    """All systems' errors of one query."""
    files = {name: str(path) for name, path in data.files.items()}
    truth = _truth(case, files)
    found: dict[str, Any] = {"dpsql": {"none": _ours(case, data, truth, runs, {})}}
    if case.limits:
        found["dpsql"][str(NAMED)] = _ours(case, data, truth, runs, case.limits)
    for peer in peers:
        found[peer.name] = _others(case, files, truth, runs, limits, peer)
    return found


def table(results: Mapping[str, Mapping[str, Any]], systems: Sequence[str]) -> str:
    """What was measured, as Markdown: each system's best limit in brackets, and 50 rows behind it."""
    lines = ["| | " + " | ".join(systems) + " |", "|---|" + "---|" * len(systems)]
    for case, by_system in results.items():
        names = next(iter(by_system["dpsql"].values()))
        for name in names:
            lines.append(f"| {case} {name} | " + " | ".join(_cell(by_system[s], name) for s in systems) + " |")
    return "\n".join(lines)


def _cell(by_limit: Mapping[str, Any], name: str) -> str:
    known = {k: c[name] for k, c in by_limit.items() if not isinstance(c, str) and "rmse" in c[name]}
    if not known:
        return next((c for c in by_limit.values() if isinstance(c, str)), "no group shown")
    if "none" in known:
        best = "none"
    else:  # where keys are private, more groups are better, and then a smaller error
        best = min(known, key=lambda k: (-known[k]["cells"], known[k]["rmse"]))
    text = _error(known[best]) + ("" if best in ("none", "1") else f" ({best})")
    return text if best == str(NAMED) or str(NAMED) not in known else f"{text}; {_error(known[str(NAMED)])}"


def _error(column: Mapping[str, Any]) -> str:
    shown = "" if column["cells"] >= column["of_cells"] else f", {column['cells']:,} groups"
    return f"{100 * column['rmse']:.2g}%{shown}"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.limits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=sizes, default=(10**6,), help="of the events (1M)")
    parser.add_argument("--runs", type=int, default=10, help="how often each is asked (10)")
    parser.add_argument("--limits", type=sizes, default=LIMITS, help=f"of others ({','.join(map(str, LIMITS))})")
    parser.add_argument("--cases", default="Q1,Q3,Q4,Q5,Q6,Q7", help="names of queries, divided by commas")
    parser.add_argument("--peer-python", action="append", default=[], help="a Python that has others installed")
    parser.add_argument("--data", type=Path, default=FOLDER, help="where data are made")
    parser.add_argument("--out", type=Path, help="a file for all figures, as JSON")
    asked = parser.parse_args(given)
    peers, absent = others.installed(asked.peer_python)
    for name, why in absent.items():
        print(f"not measured: {name} ({why})", file=sys.stderr)
    results: dict[str, Any] = {}
    for case in EVENTS:
        if case.name in asked.cases.split(","):
            data = events.made(asked.rows[0], case.unit, asked.data)
            results[case.name] = measure(case, data, asked.runs, asked.limits, peers)
            print(f"measured {case.name}", file=sys.stderr, flush=True)
            if asked.out is not None:
                asked.out.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(results, ["dpsql", *(peer.name for peer in peers)]))


if __name__ == "__main__":
    main()
