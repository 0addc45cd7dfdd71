"""The results as Markdown: a function of the JSON alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Results = Mapping[str, Any]


def report(results: Results) -> str:
    """The whole page."""
    parts = (_facts, _goals, _speed, _peers, _growth, _errors, _corpus, _small)
    return "\n".join(line for part in parts for line in part(results)) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def number(value: float) -> str:
    """Three digits, as many as a timing deserves."""
    if value == 0 or not abs(value) < 1000:
        return f"{value:,.0f}"
    return f"{value:#.3g}".rstrip(".")


def rows_of(many: int) -> str:
    """1M, 600k, 2,000."""
    for size, letter in ((10**6, "M"), (10**3, "k")):
        if many >= 10 * 10**3 and many % (size // 10) == 0 and many >= size:
            return f"{many / size:g}{letter}"
    return f"{many:,}"


def _spread(found: Mapping[str, float] | None) -> str:
    """The median, and in brackets the least and the most where there were several runs."""
    if found is None:
        return "–"
    low, high = found["least"], found["most"]
    return number(found["median"]) if low == high else f"{number(found['median'])} ({number(low)}–{number(high)})"


ABOUT = """\
Seconds are of CPU time, all threads, unless they are said to be of the clock; medians, with the least and the most in
brackets. Ways are run in turns, each in a process of its own. *Plain*: DuckDB on the same files. *Floor*: plain and one
GROUP BY unit. *Cold*: import, open and answer, in a new process whose ledger knows the files. *New*: a text that was
never planned before. *Again*: the same text with new noise. *Stored*: the same once more, for free. *Index*: again,
with the unit index.
"""
ERRORS = """\
Relative to the true answer: the root mean square error, the noise and the bias in it, median over groups (private keys:
over all that are shown); and how many of the nominal 95% intervals held.
"""


def _facts(results: Results) -> Iterator[str]:
    machine, load = results["machine"], results["load"]
    versions = [f"{name} {version}" for name, version in machine["versions"].items() if version]
    yield "# Results"
    yield ""
    yield f"`{results['command']}`, {results['began']}, {results['seconds'] / 60:.1f} minutes; made from results.json."
    yield ""
    yield f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_mb']:,} MB, {machine['system']}"
    yield f"- Python {machine['python']}, {', '.join(versions)}; revision {machine['revision']}"
    before, after = (", ".join(map(str, load[when])) for when in ("before", "after"))
    yield f"- load averages before: {before}; after: {after}"
    if load["before"][0] > machine["cores"] / 2:
        yield "- **the machine was busy with something else**: trust ratios of CPU time more than seconds"
    for name, why in results["not_measured"].items():
        yield f"- not measured: {name} ({why})"
    yield ""
    yield ABOUT


def _goals(results: Results) -> Iterator[str]:
    yield "## Goals"
    yield ""

    def rows() -> Iterator[Sequence[str]]:
        for one in results["goals"]:
            at = one["at_rows"] or one["rows"]
            value = "–" if one["value"] is None else f"{number(one['value'])} {one['unit']}".strip()
            most = "–" if one["most"] is None else f"≤ {one['most']:g} {one['unit']}".strip()
            verdict = f"**{one['verdict']}**" if one["verdict"] in ("met", "missed") else one["verdict"]
            yield (
                one["goal"],
                most,
                rows_of(one["rows"]) if one["rows"] else "any",
                value,
                rows_of(at) if at else "any",
                verdict,
            )

    yield from table(("CPU time", "goal", "rows", "measured", "at rows", ""), rows())


def _speed(results: Results) -> Iterator[str]:
    for data, size in dict.fromkeys((e["data"], e["rows"]) for e in results["speed"]):
        entries = [e for e in results["speed"] if (e["data"], e["rows"]) == (data, size)]
        named = f"{rows_of(size)} rows" if data != "TPC-H" else f"scale {size / 6_000_000:g}, customers as units"
        yield f"## {data}, {named}"
        yield ""
        seconds = results["opened"][f"{data} {size}"]
        yield f"ε = {results['epsilon']:g}, δ = {results['delta']:g}. First opening, a full reading: {seconds:.1f} s."
        yield ""
        ways = ("plain", "floor", "cold", "new", "again", "stored", "index")
        present = [w for w in ways if any(w in e["ways"] for e in entries)]
        rows = (
            [f"{e['case']}: {e['title']}", *(_spread((e["ways"].get(way) or {}).get("cpu")) for way in present)]
            for e in entries
        )
        yield from table(("seconds of CPU time", *present), rows)
        compared = [w for w in ways[2:] if w in present]
        rows = (
            [
                e["case"],
                *(_spread(e["to_plain"].get(way)) for way in compared),
                _spread(e["to_floor"].get("again")),
                number(e["ways"]["again"]["wall"]["median"] / e["ways"]["plain"]["wall"]["median"]),
                *(f"{e['peak_mb'][way]:,.0f}" for way in ("plain", "dpsql")),
            ]
            for e in entries
        )
        heads = [f"{way} / plain" for way in compared]
        yield from table(
            ("", *heads, "again / floor", "again / plain by the clock", "plain, peak MB", "dpsql, peak MB"), rows
        )


def _peers(results: Results) -> Iterator[str]:
    names = [peer["name"] for peer in results["peers"]]
    entries = [e for e in results["speed"] if any(n in e["ways"] or n in e["not_measured"] for n in names)]
    if not entries:
        return
    yield "## Beside others"
    yield ""
    versions = ", ".join(f"{peer['name']} {peer['version']}" for peer in results["peers"])
    yield f"{versions}, in turns with dpsql; limits worth 50 rows for each user, the same ε and δ."
    yield "Seconds of CPU time, warm; the peak of memory; the error (as below) of the first aggregate."
    yield ""

    def shown(entry: Mapping[str, Any], way: str) -> str:
        if way not in entry["ways"]:
            return str(entry["not_measured"].get(way, "–")).replace("|", "/")[:80]
        off = next((column.get("rmse") for column in entry["error"].get(way, {}).values()), None)
        seconds, peak = (
            number(entry["ways"][way]["cpu"]["median"]),
            entry["peak_mb"]["dpsql" if way == "again" else way],
        )
        return f"{seconds} s, {peak:,.0f} MB, {'no error known' if off is None else f'{off:.2%} off'}"

    rows = ([f"{e['case']}, {rows_of(e['rows'])} rows", *(shown(e, way) for way in ("again", *names))] for e in entries)
    yield from table(("", "dpsql", *names), rows)


def _growth(results: Results) -> Iterator[str]:
    sizes = sorted({e["rows"] for e in results["speed"] if e["data"] == "events"})
    if len(sizes) < 2:
        return
    yield "## Growth"
    yield ""
    yield "Asked again: seconds of CPU time, their ratio to plain DuckDB, and the peak of memory."
    yield ""
    found = {(e["case"], e["rows"]): e for e in results["speed"] if e["data"] == "events"}

    def shown(case: str, size: int) -> str:
        e = found.get((case, size))
        if e is None:
            return "–"
        seconds, ratio = e["ways"]["again"]["cpu"]["median"], e["to_plain"]["again"]["median"]
        return f"{number(seconds)} s, {number(ratio)} ×, {e['peak_mb']['dpsql']:,.0f} MB"

    cases = [c for c in dict.fromkeys(case for case, _ in found) if sum((c, size) in found for size in sizes) > 1]
    yield from table(("", *(f"{rows_of(s)} rows" for s in sizes)), ([c, *(shown(c, s) for s in sizes)] for c in cases))


def _errors(results: Results) -> Iterator[str]:
    named = [
        {"case": e["case"], "rows": e["rows"], "limits": e["limits"], "columns": e["error"]["again"]}
        for e in results["speed"]
        if "again" in e["error"]
    ]
    for title, entries in (
        ("Error and coverage, each run in an account of its own", results["accuracy"]),
        ("Error and coverage of the runs that were timed", named),
    ):
        if not entries:
            continue
        yield f"## {title}"
        yield ""
        yield ERRORS
        if entries is named:
            yield "These are of one account, which counts what limits cut once: their intervals hold, or not, together."
            yield ""
        rows = (
            [
                f"{e['case']} {column}, {rows_of(e['rows'])} rows{', limits named' if e['limits'] else ''}",
                *(
                    f"{one[what]:{sign}.3%}" if what in one else "–"
                    for what, sign in (("rmse", ""), ("noise", ""), ("bias", "+"))
                ),
                f"{one['held'] / one['intervals']:.1%} of {one['intervals']:,}" if one["intervals"] else "–",
                f"{one['cells']:,.0f} of {one['of_cells']:,}",
                str(one["runs"]),
            ]
            for e in entries
            for column, one in list(e["columns"].items())[:8]
        )
        yield from table(("", "RMSE", "noise", "bias", "held", "groups shown", "runs"), rows)


CORPUS = """\
Each answer from a new ledger, no limit named where the case isn't about a named one. *Error*: the root mean square
error to that of the best fixed limit. *Width*: the half width of 95% intervals to 1.96 times that error. Median, and
where the worst tenth begins. *Open*: values without a 95% interval of two ends. *Ledgers*: those with fewer than half
of their intervals right. Cases of the set *judge* are kept apart from whoever changes how limits are chosen.
"""


def _corpus(results: Results) -> Iterator[str]:
    found = results.get("corpus")
    if not found:
        return
    yield "## Default answers on the corpus"
    yield ""
    yield CORPUS
    heads = ("error", "worst tenth", "width", "worst tenth", "held", "open", "ledgers")
    yield from table(("", *heads), ([name, *_judged(one)] for name, one in found["totals"].items()))
    rows = ([one["case"], one["set"], *_judged(one["summary"])] for one in found["cases"])
    yield from table(("case", "set", *heads), rows)


def _judged(one: Mapping[str, Any]) -> list[str]:
    times = [one[name] for name in ("error", "worst_error", "width", "worst_width")]
    held = "–" if one["held"] is None else f"{one['held']:.1%} of {one['intervals']:,}"
    parts = ["–" if one[name] is None else f"{one[name]:.1%}" for name in ("open", "bad_ledgers")]
    return ["–" if value is None else number(value) for value in times] + [held, *parts]


def _small(results: Results) -> Iterator[str]:
    found = results["small"]
    if not found:
        return
    yield "## Small things"
    yield ""
    for name, title in (("rate", "small new queries"), ("bare_rate", "the same with limits_share = 0")):
        if rate := found.get(name):
            ledger = ", ".join(f"{many} {what}" for what, many in rate["ledger"].items())
            yield f"- {title}: {rate['a_second']:.0f} a second, one after the other, the ledger on disk;"
            yield f"  {1000 * rate['cpu']['median']:.1f} ms of CPU time each; transactions of the ledger: {ledger}"
    if plans := found.get("planning"):
        worst = max(plans["queries"], key=plans["queries"].get)
        middle, most = (1000 * plans["cpu"][what] for what in ("median", "most"))
        yield f"- planning a new text of TPC-H's: median {middle:.0f} ms of CPU time, worst {most:.0f} ms ({worst})"
    if starts := found.get("start_up"):
        bare = starts["bare imports"]["median"]
        listed = ", ".join(f"{name} {s['median']:.2f} s ({s['median'] / bare:.2f} ×)" for name, s in starts.items())
        yield f"- processes by the clock, and to the bare imports: {listed}"
    for name, speeds in (found.get("draws") or {}).items():
        listed = ", ".join(f"{speed:.0f}" for speed in speeds.values())
        yield f"- {name}: {listed} million draws a second at scales of {', '.join(speeds)}"
    yield ""
