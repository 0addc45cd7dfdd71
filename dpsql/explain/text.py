"""Quote -> text: a quote for people, and in a few words how far off each output will be. The facts are in facts.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from dpsql.backends.base import Backend
from dpsql.core.cost import show_rounded
from dpsql.core.frozen import dataclass
from dpsql.explain.facts import Facts, as_dict
from dpsql.explain.relation_text import response_head, response_lines, response_rows
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.model import Quote

__all__ = ["as_dict", "show"]

NOT_MEASURED = "nothing: the keys are public, and nothing else is asked for"
NO_OUTPUT = "not an output itself"
LEFT, LEFT_RESPONSES = (0, 1, 6), (0, 1, 4)  # columns of the tables of what is measured that hold text


def show(quote: Quote, *, backend: Backend | None = None) -> str:
    """The quote for people; a backend adds the SQL that it runs."""
    facts = as_dict(quote, backend=backend)
    lines = head(quote, facts)
    for release in facts["releases"]:
        lines += ["", *release_head(release, len(facts["releases"]) > 1), "measured"]
        rows = measured(release)
        lines += _aligned(rows, left=LEFT) if rows else [f"  {NOT_MEASURED}"]
    for table in facts["responses"]:
        several = len(facts["responses"]) > 1
        lines += ["", *response_head(table, several), "measured", *_aligned(response_rows(table), left=LEFT_RESPONSES)]
    lines += ["", "output", *_output_lines(facts)]
    if backend is not None:
        for release in (*facts["releases"], *facts["responses"]):
            lines += ["", f"on the data ({release['name']})", _indented(release["statement"])]
        lines += ["", "on the noisy results", _indented(facts["post_processing"])]
    return "\n".join(lines)


def head(quote: Quote, facts: Facts) -> list[str]:
    """What there is to say of the whole: a word in ten columns, and a text behind it."""
    price = quote.price
    lines = [f"price     ε = {show_rounded(price.epsilon, up=True)}, δ = {show_rounded(price.delta, up=True)}"]
    if price.rho is not None:
        lines[0] += f", ρ = {show_rounded(price.rho, up=True)}"
    if groups := facts.get("group_privacy"):
        several = ", ".join(f"{_number(e)} for {k} units together" for k, e in groups.items() if k != "1")
        lines.append(f"          protects one unit with ε = {_number(groups['1'])} ({several})")
    if (fits := facts.get("fits")) and fits["more"] is not None:
        whole = " and ".join(f"{n:,} under {name}" for name, n in fits.items() if name != "more" and n is not None)
        lines.append(f"fits      {fits['more']:,} more times; into a whole account, with this noise: {whole}")
    for one in facts.get("automatic", ()):
        lines += _automatic_lines(one)
    if limits := facts.get("limits"):
        cost = f"ε = {_number(limits['cost']['epsilon'])} of the price, once"
        if limits["chosen"]:
            lines.append(f"limits    {' and '.join(limits['chosen'])}: chosen first, for {cost}")
            lines.append("          from a noisy histogram of what units have; nothing of this price depends on it")
        else:
            lines.append(f"cut       what limits and ranges cut is estimated first, for {cost}")
    if "learned" in facts:
        lines.append("limits    learned, for free")
    lines += [f"{'' if i else 'cut':<10}{line}" for i, line in enumerate(facts.get("cuts", ()))]
    if facts["other"] is not None:
        name, error = facts["other"]["mechanism"], facts["other"]["error"]
        lines.append(f"noise     {facts['mechanism']}; {name} would give {_number(error)} times the error")
    lines += [f"{'' if i else 'note':<10}{line}" for i, line in enumerate(facts.get("notes", ()))]
    return lines


def _automatic_lines(one: Facts) -> Iterable[str]:
    if one.get("derived"):
        yield from _derived_lines(one)
        return
    if one["known"]:
        yield f"bounds    {one['column']} is automatic: {range_text(one)}, from release {one['release'][:8]}, for free"
        return
    first, last = one["seed"]
    cost = f"ε = {_number(one['cost']['epsilon'])}"
    yield f"bounds    {one['column']} is automatic and not known yet: {cost} of the price is for its range, once"
    yield f"          between powers of two, from ±2^{first} to ±2^{last}; what is open hangs on it"


def _derived_lines(one: Facts) -> Iterable[str]:
    """Of a value that the query computes, whose derived range is far wider than the columns that it is made of."""
    if one["known"]:
        release = one["release"][:8]
        yield f"range     {one['column']} lies in {range_text(one)}: found before, release {release}, for free"
        return
    cost = f"ε = {_number(one['cost']['epsilon'])}"
    known = f"{range_text(one)} by arithmetic" if one["named"] else "nobody limits the rows that it is added up of"
    yield f"range     {one['column']}: {known}; {cost} of the price finds a narrower one, once"
    yield f"          to name one instead: CLIP({one['column']}, low, high); what is open hangs on it"


def range_text(one: Mapping[str, Any]) -> str:
    """A released range."""
    return f"{_number(one['low'])} to {_number(one['high'])}"


def release_head(release: Facts, several: bool) -> Iterable[str]:
    """Who is protected in a release, what is enforced and which groups there are, in lines like the head's."""
    if several:
        keys = ", ".join(k["key"] for k in release["keys"])
        yield f"release {release['name']}: {f'GROUP BY {keys}' if keys else 'all rows together'}"
    unit = "each row of" if release["unit"] == "row" else f"{release['unit']} of"
    yield f"unit      {unit} {release['table']}: {release['why']}"
    if any(not line.startswith(("scan ", "filter ")) for line in release["rows"]):
        yield from (f"{'' if i else 'rows':<10}{_short(line)}" for i, line in enumerate(release["rows"]))
    bounds = [f"{name} {_number(release[name])}" for name in ("mass", "peak") if release[name] is not None]
    if release.get("chosen"):
        bounds.append("bounded by limits that are chosen first")
    elif release["groups"] is not None:
        bounds.append(f"in at most {_number(release['groups'])} group{'' if release['groups'] == 1 else 's'}")
    else:
        bounds.append("in any number of groups")
    yield f"          {', '.join(bounds)}"
    limits = [f"{name} = {value:,}" for name, value in release["enforced"].items() if value is not None]
    limits += [f"{name} still to be chosen" for name in release.get("chosen", ())]
    yield f"enforced  {', '.join(limits)}" if limits else "enforced  nothing: every bound is proved"
    yield from _cell_lines(release)


def measured(release: Facts) -> list[tuple[str, ...]]:
    """A table of what is measured, its head included; empty where nothing is."""
    rows: list[tuple[str, ...]] = [("", "statistic", "ε", "share", "ℓ1", "ℓ2", "noise", "scale", "grid")]
    for m in release["measurements"]:
        numbers = (_number(m["l1"]), _number(m["l2"]), m["mechanism"], _number(m["scale"]), _number(m["grid"]))
        epsilon = "" if m["epsilon"] is None else _number(m["epsilon"])
        share = "open" if m["share"] is None else f"{m['share']:.0%}"
        rows.append((f"[{m['number']}]", m["statistic"], epsilon, share, *numbers))
    return rows if len(rows) > 1 else []


def _short(line: str) -> str:
    return line if len(line) <= 110 else f"{line[:109]}…"


def _cell_lines(release: Facts) -> Iterable[str]:
    selection = release["selection"]
    if release["cells"] is None:
        yield f"cells     selected privately: {', '.join(k['key'] for k in release['keys'])}"
    else:
        keys = [f"{k['key']} ({k['values']:,}: {k['from']})" for k in release["keys"]]
        whole = prod(k["values"] for k in release["keys"]) == release["cells"]
        shown = f" = {' × '.join(keys)}" if whole else f": those that there can be of {' × '.join(keys)}"
        yield f"cells     {release['cells']:,}" + (shown if keys else ", no GROUP BY")
    if selection is not None:
        yield from _selection_lines(selection)
    if release["better"] is not None:
        yield from (f"          {line}" for line in release["better"].splitlines())


def _selection_lines(selection: Facts) -> Iterable[str]:
    """By what keys are found, how many units that takes, and how many it would take in the other way."""
    price = f", which costs δ = {_number(selection['delta'])}" if selection["delta"] else ""
    other = selection["other_units"]
    if selection["by"] is None:
        yield f"          by a noisy number of their units, or of votes: chosen with the limits{price}"
    elif selection["by"] == "votes":
        yield f"          those with noisy votes of at least {_number(selection['threshold'])} leave{price}"
        yield "          a unit has a vote of 1/√t for each of its t groups"
        against = f"; were units counted, about {other:,}" if other is not None else ""
        yield f"          a key needs about {selection['units']:,} units{against}"
    else:
        yield f"          those with a noisy number of units of at least {selection['threshold']:,} leave{price}"
        if other is not None:
            yield f"          votes, 1/√t for each of a unit's t groups, would need about {other:,} units"


def _output_lines(facts: Facts) -> Iterable[str]:
    width = max((len(c["name"]) for c in facts["columns"]), default=0)
    for name, lines in outputs(facts):
        if name is None:
            yield f"  {NO_OUTPUT}: {lines[0]}"
            yield from (f"    {line}" for line in lines[1:])
        else:
            yield f"  {name:<{width}}  {lines[0]}"
            yield from (" " * (width + 4) + line for line in lines[1:])


def outputs(facts: Facts) -> Iterable[tuple[str | None, list[str]]]:
    """The answer's columns, by name, with what there is to say of each; then aggregates that are none (None)."""
    releases = {r["name"]: r for r in facts["releases"]}
    randomised = {r["name"]: r for r in facts["responses"]}
    shown: set[str] = set()
    for column in facts["columns"]:
        match column["kind"]:
            case "aggregate":
                lines = []
                for place in column["from"]:  # several: one of each grouping set
                    release, number = releases[place.split(".")[0]], int(place.split(".a")[1])
                    lines += _aggregate_lines(release, release["aggregates"][number])
                shown.update(column["from"])
            case "response":
                rows, place = column["from"][0].split(".a")
                lines = response_lines(randomised[rows]["aggregates"][int(place)])
                shown.update(column["from"])
            case "key":
                lines = [f"key {column['of'][0]}: no noise"]
            case "interval":
                lines = [f"{column['of'][0]}: an end of its interval, with {CONFIDENCE:.0%}"]
            case "expression":
                lines = [f"computed from {', '.join(dict.fromkeys(column['of']))}"]
            case _:
                lines = ["public, no noise"]
        yield column["name"], lines
    for release in facts["releases"]:
        for i, aggregate in enumerate(release["aggregates"]):
            if f"{release['name']}.a{i}" not in shown:
                yield None, _aggregate_lines(release, aggregate)
    for rows in facts["responses"]:
        for i, column in enumerate(rows["aggregates"]):
            if f"{rows['name']}.a{i}" not in shown:
                yield None, response_lines(column)


def _aggregate_lines(release: Facts, aggregate: Facts) -> list[str]:
    measured = ", ".join(f"[{i}]" for i in aggregate["measurements"])
    lines = [f"{aggregate['aggregate']}, from {measured}" if measured else f"{aggregate['aggregate']}"]
    for found in (aggregate.get("range"), aggregate.get("second_range")):
        if found is not None:
            why = f" ({'; '.join(found['from'])})" if found["from"] else ""
            lines.append(f"range [{_number(found['low'])}, {_number(found['high'])}]{why}; values outside are clipped")
    if clip := aggregate.get("clip"):
        lines.append(f"what a unit adds to a group is clipped to [{_number(clip['low'])}, {_number(clip['high'])}]")
    if presence := aggregate.get("presence"):
        return [*lines, *_presence_lines(presence)]
    if aggregate.get("pending"):
        if not release.get("chosen"):
            return [*lines, "range and error known once the automatic bounds are"]
        known = aggregate.get("by_limit")
        if known is None and "range" in aggregate and aggregate["range"] is None:
            return [*lines, "range and error known once the automatic bounds and the limits are"]
        if known is None:
            return [*lines, "its error comes with the limits that are still to be chosen"]
        noises = ", ".join(f"± {_number(noise)} for {limit}" for limit, noise in known.items())
        return [*lines, f"the limit is still to be chosen; noise by the limit on rows: {noises}"]
    error, cells = aggregate["error"], release["cells"]
    if error is None:
        return [*lines, "no noise"]
    percent = f"{error['confidence']:.0%}"
    if count := error.get("decided_by"):
        return [*lines, f"right with {percent} where at least {count:,} rows decide it; where none does, noise may"]
    if (below := error.get("below_best")) is not None:
        histogram = error["histogram_epsilon"]
        cost = "a limit on groups, too" if histogram is None else f"ε = {_number(histogram)}"
        return [
            *lines,
            f"chosen, not counted: only keys leave; the numbers themselves, with the same noise, would cost {cost}",
            f"a winner is at most {_number(below)} below the best, with {percent}",
        ]
    if (ranks := error.get("ranks")) is not None:
        approximate = ", approximate" if error.get("approximate") else ""
        return [
            *lines,
            f"one of {error['candidates']:,} values{approximate}: off by up to about {_number(ranks)} rows in rank, "
            f"for one cell with {percent}",
            *([error["nearness"]] if "nearness" in error else []),
        ]
    if cut := error.get("cut"):
        rest = "the rest is for what limits may cut" if error.get("rows") else f"limits may cut up to {_number(cut)}"
        lines.append(f"noise alone: ± {_number(error['noise'])}; {rest}")
    if rows := error.get("rows"):
        lines.append(f"within {_number(error['one_cell'])} for one cell with {percent} where it has {rows:,} rows")
        if cells is not None and cells > 1:
            lines[-1] += f", {_number(error['all_cells'])} for all {cells:,} cells"
        return [*lines, "the error shrinks as 1/n: twice the rows, half of it"] if error["shrinks"] else lines
    lines.append(f"within {_number(error['one_cell'])} for one cell with {percent}")
    if cells is not None and cells > 1:
        formula = error.get("all_cells_laplace")
        exactly = f" (exactly: {_number(error['all_cells'])})" if formula is not None else ""
        every = formula if formula is not None else error["all_cells"]
        lines.append(f"within {_number(every)} for all {cells:,} cells with {percent}{exactly}")
    if (cost := error.get("choice_epsilon")) is not None:
        lines.append(f"counted, not chosen: the keys alone, with the same noise, would cost ε = {_number(cost)}")
    return lines


def _presence_lines(presence: Facts) -> Iterable[str]:
    what, size = presence["of"], presence["large_enough"]
    if size is None:
        yield f"those with a noisy number of {what} above a threshold that is known once the limits are"
        return
    yield f"those with a noisy number of {what} above {_number(presence['above'])}"
    missed = f"is missed with at most {presence['missed']:.0%}, smaller ones may be missing"
    yield f"one with at least {size:,} {what} {missed}"
    if presence["stray"]:
        yield f"with {1 - presence['stray']:.0%} no group without rows is taken for one that is there"


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> Iterable[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        yield "  " + "  ".join(cells).rstrip()


def _indented(sql: str) -> str:
    return "\n".join(f"  {line}" for line in sql.splitlines())


def _number(value: Any) -> str:
    """Three digits after the leading ones, thousands apart; 1e-7 where it is tiny."""
    if value is None:
        return "open"
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


LATER = "with the answer"
"""What stands for an error that only the answer can tell: of a number that is computed from several."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One output: its name, its error in its own units for all cells at once with 95% (None: there is no such number
    before the answer is known), the same in words, and of how many rows a group has where the error hangs on that.
    """

    name: str
    error: float | None
    text: str
    rows: int | None = None


def expected(quote: Quote) -> list[Expected]:
    """The outputs that have noise, in order."""
    facts = as_dict(quote)
    releases = {release["name"]: release for release in facts["releases"]}
    found = []
    for column in facts["columns"]:
        if column["kind"] == "aggregate":
            release, place = column["from"][0].split(".")
            aggregate = releases[release]["aggregates"][int(place[1:])]
            found.append(
                _expected(column["name"], aggregate["error"], aggregate.get("by_limit"), pending="pending" in aggregate)
            )
        elif column["kind"] in ("expression", "response"):
            found.append(Expected(column["name"], None, LATER))
    return found


def _expected(name: str, error: Facts | None, by_limit: dict[str, float] | None, *, pending: bool) -> Expected:
    if by_limit is not None:  # the limit is still to be chosen: what is known is its noise
        return Expected(name, None, f"{short(by_limit['1'])} × limit")
    if pending and error is None:
        return Expected(name, None, "still to be chosen")
    match error:
        case {"all_cells": float(off), "rows": int(rows)}:
            return Expected(name, off, short(off), rows)
        case {"all_cells": float(off)}:
            return Expected(name, off, short(off))
        case {"ranks": float(off)}:
            return Expected(name, None, f"{short(off)} rows")
        case {"decided_by": int(rows)}:
            return Expected(name, None, f"{rows:,} rows")
        case _:
            return Expected(name, None, LATER)


def short(error: float) -> str:
    """An error in three digits."""
    return f"{error:,.0f}" if error >= 1000 else f"{error:.3g}"


def price_line(quote: Quote) -> dict[str, Any]:
    """One line of a table of prices: ε, the error to expect, what it costs, and how often it fits."""
    rho = None if quote.price.rho is None else float(quote.price.rho)
    return {
        "epsilon": float(quote.epsilon),
        "errors": {one.name: one.error for one in expected(quote)},
        "cost": {"epsilon": float(quote.price.epsilon), "delta": float(quote.price.delta), "rho": rho},
        "fits": None if quote.fits is None else quote.fits.more,
    }
