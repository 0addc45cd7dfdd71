"""Free answers: what left once may leave again (Theorem FREE-1).

A release is found again by what it measures, not by the text of the query: the relation below the statistics, the keys
and their cells, the bounds on one unit, and the version of the data. Aliases, spacing, ORDER BY, LIMIT, HAVING and all
other post-processing are not part of that. The stored noisy table answers a query when it has every quantity that the
query needs, with no more noise than the query would get. At which ε a query
was asked before tells where to look first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b
from itertools import groupby

from sqlglot import exp

from dpsql.accounting.account import Account, Entry
from dpsql.accounting.stored import Kept
from dpsql.accounting.view import Releases, View
from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call
from dpsql.aggregates.noisy import Noisy, ReleaseFacts, Responded, StoredFacts
from dpsql.analyze.checked import Argument, CheckedRelease
from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Given, parts_of
from dpsql.quote.model import AnyStep, Released, ResponseStep, Stage, Step
from dpsql.quote.older import Chosen
from dpsql.statistics.base import Clip, Quantity, Value
from dpsql.statistics.choices import CHOSEN, UNWEIGHTED
from dpsql.statistics.strategy import Linear
from dpsql.statistics.top import Top
from dpsql.store.archive import Archived, earlier_spend, pack_release, to_bytes, unpack_release
from dpsql.store.canonical import Names, UnknownNode, named
from dpsql.store.choices import find_limits, pack_limits
from dpsql.store.combine import combined
from dpsql.store.responses import find_rows, pack_rows

FORMAT = "2"  # part of every key: stored releases of another format are not found
TRIES = 200  # tables that are tried for one query: where constants are noisy, one choice decides about the next


def look(stages: Sequence[Stage], versions: Mapping[str, str], ledger: Releases) -> dict[Stage, Released]:
    """Of these stages those that a stored release answers, so that they cost nothing."""
    known: dict[Stage, Released] = {}
    for stage in stages:
        if all(one in known for one in stage.after):
            found = find(stage.settled(known), versions, ledger)
            if found is not None:
                known[stage] = found
    return known


def find(stage: Stage, versions: Mapping[str, str], ledger: Releases) -> Released | None:
    """What answers a settled stage for free; None where a single one of its tables isn't there."""
    if stage.accepts is not None:
        found = [_accepted(stage.accepts, stored_tables(step, versions, ledger)) for step in stage.releases]
        taken = [one for one in found if one is not None]
        ids = [id for id, _ in taken]
        return _released(stage, ids, [n for _, n in taken], ledger) if len(taken) == len(found) else None
    # With a little less ε other statistics can be the best ones: what was bought for all of it needn't answer for that.
    ways = [stage.steps] if stage.enough is None else [stage.steps, stage.enough]
    chosen = next((hits for steps in ways if (hits := _Search(steps, versions, ledger).rest(0, {}, ()))), None)
    if not chosen:
        return None
    ids = [id for hit in chosen for id in (hit.id, *hit.others)]
    return _released(stage, ids, [hit.noisy for hit in chosen], ledger)


def _accepted(accepts: Callable[[Noisy], bool], tables: Sequence[tuple[str, Noisy]]) -> tuple[str, Noisy] | None:
    """The oldest that serves: it stays the same one, whatever is stored later."""
    return next((one for one in reversed(tables) if accepts(one[1])), None)


def _released(stage: Stage, ids: Sequence[str], noisy: Sequence[Noisy | Responded], ledger: Releases) -> Released:
    """Stored tables as what a stage released, with receipts of the spends that they left under."""
    first, *others = (earlier_spend(ledger, id) for id in dict.fromkeys(ids))
    return Released(stage, tuple(noisy), first, tuple(others))


def stored_tables(step: Step, versions: Mapping[str, str], ledger: Releases) -> list[tuple[str, Noisy]]:
    """The stored releases that answer a step by themselves, the newest first, each with the id of its spend."""
    return _under(release_key(step, versions, {}), step, ledger)


def _under(key: bytes, step: Step, ledger: Releases) -> list[tuple[str, Noisy]]:
    stored = ledger.stored(key) if key else []
    found = [(id, answers(step, unpack_release(kept), {})) for id, kept in stored]
    return [(id, noisy) for id, noisy in found if noisy is not None]


class Looking:
    """What is stored, for one quote. It remembers the keys that it was asked for: the quote rests on no others."""

    def __init__(self, versions: Mapping[str, str], ledger: View) -> None:
        self._versions, self._ledger = versions, ledger
        self._noting = _Noting(ledger)
        self.has_learned = ledger.has_learned

    @property
    def keys(self) -> Mapping[bytes, None]:
        """The keys that were looked for."""
        return self._noting.keys

    def __call__(self, step: Step) -> list[tuple[str, Noisy]]:
        return stored_tables(step, self._versions, self._noting)

    def limits(self, checked: CheckedRelease, names: Sequence[str]) -> list[tuple[str, Chosen]]:
        """The limits that were chosen for releases like this one, the newest first, each with the id of its spend."""
        return find_limits(checked, self._versions, names, self._noting)

    def answering(self, stage: Stage) -> Released | None:
        """What answers a settled stage for nothing."""
        return find(stage, self._versions, self._noting)

    def learned(self, step: Step) -> list[tuple[str, Noisy]]:
        """The stored releases of a step that the steward paid for, for everybody."""
        return [one for one in self(step) if self._ledger.is_learned(one[0])] if self.has_learned else []


class _Noting:
    """A ledger that notes the keys that are looked for."""

    def __init__(self, ledger: Releases) -> None:
        self._ledger = ledger
        self.keys: dict[bytes, None] = {}

    @property
    def account(self) -> Account:
        return self._ledger.account

    def stored(self, key: bytes) -> list[tuple[str, Kept]]:
        self.keys[key] = None
        return self._ledger.stored(key)

    def entry(self, id: str) -> Entry:
        return self._ledger.entry(id)

    def history(self) -> Sequence[Entry]:
        return self._ledger.history()


@dataclass(frozen=True, slots=True, eq=False)
class _Hit:
    """A stored table that answers a step: the spend that paid for it, and what tells it apart from others."""

    id: str
    noisy: Noisy | Responded
    identity: str
    others: tuple[str, ...] = ()  # further spends, where the tables of several are taken together


class _Search:
    """Looks for a stored table for each step. One whose values are constants of later steps may have to be another."""

    def __init__(self, steps: Sequence[AnyStep], versions: Mapping[str, str], ledger: Releases) -> None:
        self._steps, self._versions, self._ledger = steps, versions, ledger
        releases = [step for step in steps if isinstance(step, Step)]
        givens = [part for step in releases for part in parts_of(step.checked.relation) if isinstance(part, Given)]
        self._constants = {table.name for given in givens for table in given.query.find_all(exp.Table)}
        self._left = TRIES

    def rest(self, place: int, earlier: Mapping[str, str], ids: tuple[str, ...]) -> list[_Hit] | None:
        """Tables for the steps from this one on. earlier: which tables the steps before it have, ids: of whose."""
        if place == len(self._steps):
            return []
        step = self._steps[place]
        for hit in self._hits(step, earlier, ids):
            self._left -= 1
            found = self.rest(place + 1, {**earlier, step.name: hit.identity}, (*ids, hit.id))
            if found is not None:
                return [hit, *found]
            if step.name not in self._constants or self._left <= 0:
                break  # with another table here the later ones would be missing just the same
        return None

    def _hits(self, step: AnyStep, earlier: Mapping[str, str], ids: tuple[str, ...]) -> Iterator[_Hit]:
        """Tables that answer a step, those of the spends that earlier tables are of first, then the newest."""
        if isinstance(step, ResponseStep):
            if (rows := find_rows(step, self._versions, self._ledger)) is not None:
                yield _Hit(*rows, "")  # nothing rests on them
            return
        for one in (step, *_wider(step)):
            yield from self._stored(one, earlier, ids)

    def _stored(self, step: Step, earlier: Mapping[str, str], ids: tuple[str, ...]) -> Iterator[_Hit]:
        key = release_key(step, self._versions, earlier)
        stored = self._ledger.stored(key) if key else []
        stored.sort(key=lambda found: found[0] not in ids)
        every: list[Archived] = []
        for id, kept in stored:
            every.append(unpack_release(kept))
            noisy = answers(step, every[-1], earlier)
            if noisy is not None:
                yield _Hit(id, noisy, identity(step, [_digest(kept)], earlier))
        chosen = any(isinstance(m.statistic, Top) for m in step.measurements)
        if step.selection is None and not chosen and len(every) > 1:  # nothing was withheld: all have the same cells
            noisy = answers(step, combined(every), earlier)
            if noisy is not None:
                digests = [_digest(kept) for _, kept in stored]
                (first, _), *rest = stored
                yield _Hit(first, noisy, identity(step, digests, earlier), tuple(id for id, _ in rest))


def _wider(step: Step) -> tuple[Step, ...]:
    """The step over all groups, where HAVING leaves some of them out: a table of all holds those that are left.

    Not so where a few winners leave: those of all groups may be none of these (Theorem FREE-1).
    """
    wider = step.checked.wider
    if wider is None or any(isinstance(m.statistic, Top) for m in step.measurements):
        return ()
    return (replace(step, cells=wider.table()),)


def keep(stage: Stage, versions: Mapping[str, str], left: Sequence[Noisy | Responded]) -> list[Kept]:
    """What to store of a settled stage that has been measured: its noisy tables, step by step, and chosen limits."""
    kept: list[Kept] = []
    earlier: dict[str, str] = {}
    for step, one in zip(stage.steps, left, strict=True):
        if isinstance(step, ResponseStep) or isinstance(one, Responded):
            assert isinstance(step, ResponseStep) and isinstance(one, Responded)
            kept.append(pack_rows(step, versions, one))
            continue
        values: dict[str, Value] = {}
        wheres: dict[str, str] = {}
        clips: dict[str, Clip] = {}
        key = release_key(step, versions, earlier)
        if key:
            names, _ = named(step.checked, earlier)
            for argument, call in zip(step.checked.arguments, step.calls, strict=True):
                if argument.value is not None and call.value is not None:
                    values.setdefault(_value(names, argument), call.value)
                if argument.second is not None and call.second is not None:
                    values.setdefault(names.value(argument.second), call.second)
                if argument.where is not None and call.where is not None:
                    wheres[names.expression(argument.where.sql)] = call.where
                if call.clip is not None:
                    clips[names.clip(argument, call.clip)] = call.clip
        threshold = None if step.selection is None else step.selection.units
        noises = [m.in_rows(step.bits) or m.noise for m in step.measurements]
        kept.append(pack_release(key, one, noises, _offers(step), values, wheres, clips, threshold))
        if key:
            earlier[step.name] = identity(step, (_digest(kept[-1]),), earlier)
    return [*kept, *pack_limits(stage, versions)]


# ---------------------------------------------------------------- the key of a release plan


def release_key(step: Step, versions: Mapping[str, str], earlier: Mapping[str, str]) -> bytes:
    """What a step measures below its statistics, as a hash; b"" where no rule says what that is.

    earlier: the identities of earlier steps, whose noisy values may be constants of this one.
    """
    checked, unit = step.checked, step.checked.bounding.contribution
    try:
        names, rows = named(checked, earlier)
        whole: list[object] = [
            FORMAT,
            rows,
            [[names.expression(k.sql), k.type.sql] for k in checked.keys],
            "private" if checked.private_keys else "public",
            [checked.bounding.mass, checked.bounding.peak, checked.bounding.cap, checked.min_units],
            [str(unit.mass), str(unit.peak), str(unit.groups), unit.keyed, unit.replace],
            *_size(checked, names),
            *([] if checked.bounding.values is None else [["values", checked.bounding.values]]),
            [[table, versions[table]] for table in sorted(names.tables)],
            _chosen(step, names),
        ]
        for argument in checked.arguments:
            names.argument(argument)  # an argument that no rule knows can't be found again either
    except (UnknownNode, KeyError):
        return b""
    found = blake2b(json.dumps(whole).encode(), digest_size=32, person=b"dpsql.release")
    if step.cells is not None:
        found.update(to_bytes(step.cells))
    return found.digest()


def _size(checked: CheckedRelease, names: Names) -> list[object]:
    """What bounds one unit's size: how large it may be, what is added up, and how much of each sum counts as a row.

    A weight rests on all that is measured with it, so that a release with other columns has other numbers.
    """
    size = checked.bounding.size
    if size is None:
        return []
    columns = []
    for argument in checked.arguments:
        scale = None if argument.units else argument.scale(size)
        columns.append([argument.call.function, names.argument(argument), None if scale is None else str(scale.unit)])
    return [["size", str(size.most), sorted(columns, key=str)]]


def _chosen(step: Step, names: Names) -> list[object] | None:
    """Which winners were chosen, and by what: a selection's ORDER BY and LIMIT are part of it (FREE-1)."""
    top = next((m.statistic for m in step.measurements if isinstance(m.statistic, Top)), None)
    if top is None:
        return None
    (argument,) = step.checked.arguments
    return [top.count, top.largest, argument.call.function, names.argument(argument)]


def identity(step: Step, digests: Sequence[str], earlier: Mapping[str, str]) -> str:
    """What tells the noisy table of a step apart from every other: the stored tables it is made of, and its columns."""
    names, _ = named(step.checked, earlier)
    aggregates = [[a.call.function, *map(str, a.call.at), names.argument(a)] for a in step.checked.arguments]
    return json.dumps([list(digests), aggregates])


def _digest(kept: Kept) -> str:
    """What tells a stored table apart from every other: all of it, noise included."""
    whole = blake2b(json.dumps([kept.key.hex(), kept.facts]).encode(), digest_size=32, person=b"dpsql.table")
    whole.update(kept.data)
    return whole.hexdigest()


# ---------------------------------------------------------------- does a stored release answer this one?


def answers(step: Step, stored: Archived, earlier: Mapping[str, str]) -> Noisy | None:
    """The stored table as the table of this step; None if it lacks something, or has more noise."""
    (names, _), left = named(step.checked, earlier), stored.noisy.step
    if step.selection is not None and (stored.threshold is None or stored.threshold > step.selection.units):
        return None
    calls: list[Call] = []
    mine = [Fraction((m.in_rows(step.bits) or m.noise).variance) for m in step.measurements]
    theirs = [Fraction(m.noise.variance) for m in left.measurements]
    for argument, call in zip(step.checked.arguments, step.calls, strict=True):
        other = _rename(argument, call, names, stored)
        if other is None:
            return None
        recipe = RECIPES[call.function]
        needs = dict(zip(recipe.needs(call), recipe.needs(other), strict=True))
        if any(q not in left.estimates for q in needs.values()):
            return None
        if any(q.kind in CHOSEN and not _as_near(q, needs[q], step, left, mine, theirs) for q in needs):
            return None
        for contrast in recipe.contrasts(call):
            if any(q.kind in CHOSEN for q in contrast):
                continue
            asked = Linear.combine((step.estimates[q], w) for q, w in contrast.items()).variance(mine)
            had = Linear.combine((left.estimates[needs[q]], w) for q, w in contrast.items()).variance(theirs)
            if had > asked * (1 + Fraction(1, 10**9)):
                return None
        calls.append(other)
    assert isinstance(left, StoredFacts)
    return replace(stored.noisy, step=replace(left, name=step.name, calls=tuple(calls)))


def _as_near(
    wanted: Quantity, other: Quantity, step: Step, left: ReleaseFacts, mine: list[Fraction], theirs: list[Fraction]
) -> bool:
    """Is a value that was chosen before chosen among as many candidates, and with no more noise, as this one would?"""
    assert wanted.value is not None and other.value is not None
    ((asked, _), _), ((had, _), _) = step.estimates[wanted].terms[0], left.estimates[other].terms[0]
    close = theirs[had] <= mine[asked] * (1 + Fraction(1, 10**9))
    return close and other.value.grid.step <= wanted.value.grid.step


def _rename(argument: Argument, call: Call, names: Names, stored: Archived) -> Call | None:
    """The call in the stored release's own names."""
    value, second, where = call.value, call.second, call.where
    if argument.value is not None and value is not None:
        value = stored.values.get(_value(names, argument))
        if value is None:
            return None
    if argument.second is not None and second is not None:
        second = stored.values.get(names.value(argument.second))
        if second is None:
            return None
    if argument.where is not None and where is not None:
        where = stored.wheres.get(names.expression(argument.where.sql))
        if where is None:
            return None
    clip = call.clip
    if clip is not None:
        clip = stored.clips.get(names.clip(argument, clip))
        if clip is None:
            return None
    return replace(call, value=value, second=second, where=where, clip=clip)


def _value(names: Names, argument: Argument) -> str:
    """The name of an aggregated value; what is chosen by rank has a grid of its own."""
    assert argument.value is not None
    return names.counted(argument) + (" by rank" if argument.ordered else "")


def _offers(step: Step) -> dict[Quantity, Linear]:
    """All that the measured statistics tell: what the query needed, and what they give besides."""
    found = dict(step.estimates)
    for quantity, linear in _measured(step):
        found.setdefault(quantity, linear)
    return found


def _measured(step: Step) -> Iterator[tuple[Quantity, Linear]]:
    for index, measurement in enumerate(step.measurements):
        for quantity, weights in measurement.statistic.quantities().items():
            whole = 1 if quantity.kind in UNWEIGHTED else 2**step.bits
            yield quantity, Linear.of({(index, column): w / whole for column, w in enumerate(weights)})


MOST_EPSILONS = 4  # that a text was asked at, the largest


def before(text: str, ledger: Releases) -> list[Fraction]:
    """What was paid at once for this text, its ranges and limits included, as ε; the largest first.

    A hint where to look, which decides nothing: notes aren't verified, and ρ isn't exactly the ε that was asked for.
    """
    wanted, filter_ = _plain(text), ledger.account.filter
    found: set[Fraction] = set()
    for _, entries in groupby(ledger.history(), key=lambda entry: entry.time):
        together = list(entries)
        if any(_plain(str(entry.note.get("sql", ""))) == wanted for entry in together):
            total: Cost = sum((entry.cost for entry in together[1:]), together[0].cost)
            exact = total.rho is None
            found.add(total.epsilon if exact else filter_.shown(total).epsilon * Fraction(999, 1000))
    return sorted((epsilon for epsilon in found if epsilon), reverse=True)[:MOST_EPSILONS]


def _plain(text: str) -> str:
    return " ".join(text.split())
