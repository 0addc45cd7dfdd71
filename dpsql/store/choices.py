"""How the limits that were chosen for a release are stored beside it, and found again (Theorems LIMITS-1 and FREE-1).

They are found by the rows, the keys and all that was named, whatever was chosen: so a repeat knows under which limits
to look for its release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b

from dpsql.accounting.stored import Kept
from dpsql.accounting.view import Releases
from dpsql.analyze.bounding import Bounding, SizeLimit, SumScale, Typical
from dpsql.analyze.checked import CheckedRelease
from dpsql.quote.model import Stage
from dpsql.quote.older import Chosen
from dpsql.store.archive import LIMITS
from dpsql.store.canonical import Names, UnknownNode, named
from dpsql.store.plain import Json, from_json, to_json

FORMAT = "1"  # part of every key: limits that were stored in another format are not found


def pack_limits(stage: Stage, versions: Mapping[str, str]) -> Iterator[Kept]:
    """What to store of the limits that were chosen for a settled stage: each once."""
    names = tuple(step.name for step in stage.releases)
    found = dict[tuple[bytes, str], None]()
    for step in stage.releases:
        if step.checked.bounding.chosen and (key := limits_key(step.checked, versions, names)):
            found[key, to_json(_facts(step.checked, stage.epsilon, names))] = None
    for key, facts in found:
        yield Kept("release", key, facts, b"")


def find_limits(
    checked: CheckedRelease, versions: Mapping[str, str], names: Sequence[str], ledger: Releases
) -> list[tuple[str, Chosen]]:
    """The limits that were chosen for releases like this one, the newest first, each with the id of its spend.

    checked: with fixed limits in the place of those that are to be chosen.
    """
    key = limits_key(checked, versions, names)
    stored = ledger.stored(key) if key else []
    every = [(id, _read(from_json(kept.facts)[LIMITS], checked, names)) for id, kept in stored]
    return [(id, chosen) for id, chosen in every if chosen is not None]


def limits_key(checked: CheckedRelease, versions: Mapping[str, str], names: Sequence[str]) -> bytes:
    """The rows and keys of a release and all limits but those that are chosen, as a hash; b"" where no rule says it.

    names: of the query's releases, whose noisy values may be constants of its rows.
    """
    bounding = checked.bounding
    try:
        known, rows = _named(checked, names)
        whole: list[object] = [
            FORMAT,
            rows,
            [[known.expression(k.sql), k.type.sql] for k in checked.keys],
            "private" if checked.private_keys else "public",
            [sorted(bounding.chosen), _named_limits(bounding), checked.min_units, bounding.contribution.replace],
            [[table, versions[table]] for table in sorted(known.tables)],
        ]
    except (UnknownNode, KeyError):
        return b""
    return blake2b(json.dumps(whole).encode(), digest_size=32, person=b"dpsql.limits").digest()


def _named_limits(bounding: Bounding) -> list[object]:
    """The limits that aren't chosen. One on rows in a group may be, where one on rows is."""
    rows = [None, None] if "max_rows" in bounding.chosen else [bounding.mass, bounding.peak]
    return [*rows, None if "max_groups" in bounding.chosen else bounding.cap]


def _named(checked: CheckedRelease, names: Sequence[str]) -> tuple[Names, list[object]]:
    """The names of a release's columns, and the text of its rows, whatever earlier releases of the query hold."""
    return named(checked, dict.fromkeys(names, ""))


def _facts(checked: CheckedRelease, epsilon: Fraction, names: Sequence[str]) -> Json:
    bounding = checked.bounding
    size, typical = bounding.size, bounding.typical
    scales = None if size is None else {name: str(one.unit) for name, one in _scales(checked, names, size).items()}
    known = None if typical is None else [typical.groups, typical.rows, typical.rows_per_group, typical.vote]
    chosen = {
        "epsilon": str(epsilon),
        "rows": bounding.mass,
        "peak": bounding.peak,
        "groups": bounding.cap,
        "values": bounding.values,
        "size": None if size is None else [str(size.most), scales],
        "typical": known,
    }
    return {LIMITS: chosen}


def _read(facts: Json, checked: CheckedRelease, names: Sequence[str]) -> Chosen | None:
    """The limits as those of this release; None where they bound a size that is made of other sums."""
    size: SizeLimit | None = None
    if facts["size"] is not None:
        most, units = facts["size"]
        scales = _scales(checked, names)
        if scales.keys() != units.keys():
            return None
        size = SizeLimit(Fraction(most), tuple(replace(s, unit=Fraction(units[name])) for name, s in scales.items()))
    typical = None if facts["typical"] is None else Typical(*facts["typical"])
    rows, peak, groups, values = (facts[name] for name in ("rows", "peak", "groups", "values"))
    return Chosen(Fraction(facts["epsilon"]), rows, peak, groups, values, size, typical)


def _scales(checked: CheckedRelease, names: Sequence[str], size: SizeLimit | None = None) -> dict[str, SumScale]:
    """The sums of a release, by their canonical texts, in its own order; with what counts as one row in this size."""
    known, _ = _named(checked, names)
    found: dict[str, SumScale] = {}
    for argument in checked.arguments:
        call = argument.call
        if not argument.recipe.summed or argument.units or argument.value is None or call.argument is None:
            continue
        where = None if argument.where is None else known.expression(argument.where.sql)
        bounds = None if call.bounds is None else call.bounds.text
        text = json.dumps([known.value(argument.value), where, bounds])
        mine = None if size is None else argument.scale(size)
        found.setdefault(text, mine or SumScale(call.argument, call.where, call.bounds, Fraction(1)))
    return found
