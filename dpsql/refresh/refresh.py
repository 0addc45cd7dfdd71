"""Accept the data as they are now, verify their promises, say what changed: the one way to a new version. Also: find
heavy units once for the data as they are now, so that queries needn't (Theorem INDEX-1).

A version begins with an event that looks at no row: a source was written, or a steward said so (Theorem VERSION-1).
What was verified for one version is verified again for the next one before anything relies on it (Theorem PROMISE-1).
Trusted: an index is read off the rows, names people, and what is said of it is not private.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from dpsql.accounting.versions import Sight
from dpsql.backends.located import file_marks
from dpsql.core.errors import DataError, PolicyError
from dpsql.core.frozen import dataclass
from dpsql.engine import Shared
from dpsql.plan.build import scan_of
from dpsql.policy.model import Policy
from dpsql.quote.indexed import Owned
from dpsql.refresh.manifest import Manifest, differences, manifest_of, same_rows
from dpsql.refresh.promises import Finding, verify

By = Literal["steward", "policy"]

AUTOMATIC = "automatic check"
"""The name under which it is recorded that a check which ran by itself failed, until a steward has looked at it."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one table: its version is the first, a new one, kept (written anew with the same rows), or was
    there already; what differs, by names; and what was found of its promises."""

    table: str
    version: Literal["first", "new", "kept", "unchanged"]
    lines: tuple[str, ...]
    findings: tuple[Finding, ...]


_SAID = {
    "first": "first version recorded",
    "new": "new version recorded",
    "kept": "written anew with the same rows: its version stays, and so do its free answers",
    "unchanged": "unchanged",
}


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did, table by table; print it. Not private: it is the steward's to read."""

    tables: tuple[Change, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """The promises that don't hold."""
        return tuple(f"{one.table}: {f.text}" for one in self.tables for f in one.findings if not f.holds)

    @property
    def changed(self) -> bool:
        """Is there a version that wasn't there before?"""
        return any(one.version in ("first", "new") for one in self.tables)

    def __str__(self) -> str:
        lines = []
        for one in self.tables:
            lines.append(f"{one.table}: {_SAID[one.version]}")
            lines += [f"  {'changed':<8} {line}" for line in one.lines]
            lines += [f"  {'holds' if f.holds else 'BROKEN':<8} {f.text}" for f in one.findings]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The same for programs."""
        return {
            "tables": {
                one.table: {
                    "version": one.version,
                    "changed": list(one.lines),
                    "promises": [{"holds": f.holds, "text": f.text} for f in one.findings],
                }
                for one in self.tables
            },
            "broken": list(self.broken),
        }


def refresh(engine: Shared, *, by: By, sources: Mapping[str, Any] | None = None) -> Refreshed:
    """Accept the data as they are now, verify all promises, and say what changed. Nobody asks meanwhile.

    by: "steward" also decides whether a source that was written anew with the same rows keeps its version; "policy"
    (a query, under on_change = "accept") never does, since that would be a test of equality. A failure leaves what was
    done so far: a version without its check lets queries wait, and the next refresh goes on from there.
    """
    with engine.gate.alone():
        if by == "policy" and not engine.is_behind():  # another thread was faster
            return Refreshed(())
        engine.reopen(sources)
        marks = file_marks(engine.located)
        found = engine.ledger.sights([one.source for one in engine.guarded])
        before = {n: Manifest.read(engine.ledger.manifest(n, s.version or "")) for n, s in found.items()}
        now = {one.name: _manifest(engine, one.name, found, before) for one in engine.guarded}
        # Theorem VERSION-1: under "accept" each event is a new version, equal rows or not, whoever refreshes.
        decides = by == "steward" and engine.policy.data.on_change == "refuse"
        keep = [n for n, s in found.items() if not s.same and decides and same_rows(before[n], now[n])]
        _require_same(engine, marks, found)
        versions = engine.ledger.accept(found, keep)
        engine.begin()
        findings = check_promises(engine, by=by)
        for name, version in versions.items():
            _note(engine, name, version, now[name])
        return Refreshed(tuple(_change(engine, n, found[n], keep, before, now, findings[n]) for n in found))


def _manifest(
    engine: Shared, name: str, found: Mapping[str, Sight], before: Mapping[str, Manifest | None]
) -> Manifest | None:
    if found[name].same and before[name] is not None:
        return before[name]
    one = next(one for one in engine.guarded if one.name == name)
    return manifest_of(engine, one, found[name].look, before[name])


def _change(
    engine: Shared,
    name: str,
    sight: Sight,
    keep: list[str],
    before: Mapping[str, Manifest | None],
    now: Mapping[str, Manifest | None],
    findings: tuple[Finding, ...],
) -> Change:
    one = next(one for one in engine.guarded if one.name == name)
    shown = one.table.name
    if sight.version is None:
        return Change(shown, "first", (), findings)
    if sight.same:
        return Change(shown, "unchanged", (), findings)
    lines = tuple(differences(before[name], now[name]))
    return Change(shown, "kept" if name in keep else "new", lines, findings)


def check_promises(engine: Shared, *, by: By) -> dict[str, tuple[Finding, ...]]:
    """Verify every promise of every private table, and record what was found for exactly the versions that were read.

    Refused, and nothing recorded, if the data changed meanwhile. What a check that ran by itself found broken is told
    by a constant text, whatever and whose it is; a steward's check is told more, and goes on.
    """
    versions, marks = engine.versions(), file_marks(engine.located)
    try:
        findings = {name: tuple(verify(engine, engine.policy.tables[name])) for name in versions}
    except DataError:
        if by == "policy":  # the engine's own words are for stewards
            raise check_failed() from None
        raise
    if engine.versions() != versions or file_marks(engine.located) != marks:
        raise busy()
    for name, version in versions.items():
        said = engine.ledger.findings(name, version)
        for finding in findings[name]:
            engine.ledger.record_promise(name, finding.promise, version, finding.holds)
        holds = by == "steward" or all(finding.holds for finding in findings[name])
        if said.get(AUTOMATIC, True) != holds:
            engine.ledger.record_promise(name, AUTOMATIC, version, holds)
    if by == "policy":
        require_sound(engine, versions)
    else:
        _note_versions(engine, versions)
    return findings


def follow(engine: Shared) -> None:
    """Before a query: go on with new data where the policy says so."""
    if engine.policy.data.on_change == "accept":
        with engine.gate.shared():
            behind = engine.is_behind()
        if behind:
            refresh(engine, by="policy")
    with engine.gate.shared():
        versions = engine.versions()
        require_sound(engine, versions)


def require_sound(engine: Shared, versions: Mapping[str, str]) -> None:
    """Refuse data of which a check that ran by itself found a promise broken, until a steward has looked at them."""
    if any(engine.ledger.findings(n, v).get(AUTOMATIC) is False for n, v in versions.items()):
        raise check_failed()


def _note_versions(engine: Shared, versions: Mapping[str, str]) -> None:
    """Note what the present versions are made of, so that a steward can be told what differs in the next ones."""
    missing = {n: v for n, v in versions.items() if v not in engine.noted and engine.ledger.manifest(n, v) is None}
    engine.noted |= set(versions.values())
    if not missing:
        return
    ones = [one for one in engine.guarded if one.name in missing]
    found = engine.ledger.sights([one.source for one in ones])
    for one in ones:
        made = manifest_of(engine, one, found[one.name].look, None)
        if engine.versions() == versions and found[one.name].version == missing[one.name]:
            _note(engine, one.name, missing[one.name], made)


def _note(engine: Shared, name: str, version: str, made: Manifest | None) -> None:
    if made is not None:
        engine.ledger.keep_manifest(name, version, made.write())
        engine.noted.add(version)


def _require_same(engine: Shared, marks: Mapping[Any, object], found: Mapping[str, Sight]) -> None:
    """What was compared must be what is accepted."""
    again = engine.ledger.sights([one.source for one in engine.guarded])
    if file_marks(engine.located) != marks or {n: s.look for n, s in again.items()} != {
        n: s.look for n, s in found.items()
    }:
        raise busy()


def busy() -> DataError:
    """What is said where data are written while they are looked at."""
    return DataError(
        "the data changed while they were read",
        code="source-busy",
        hint="wait until whatever writes them is done, then try again",
    )


def check_failed() -> DataError:
    """What is said where a check that ran by itself failed: one public fact, and nothing else."""
    return DataError(
        "a promise of the policy doesn't hold for the data as they are now; nothing was charged",
        code="broken-promise",
        hint="the steward is told which one: `dpsql refresh --steward` (from Python: engine.refresh(steward=True))",
    )


def require_steward(
    steward: bool,
    act: str = "refresh",
    why: str = "a refresh reads rows, and decides what the data are from now on",
) -> None:
    """What reads rows for nobody's query is the steward's act."""
    if steward is not True:
        raise PolicyError(
            f"{why}: it is the steward's act", code="steward", hint=f"if that is you: engine.{act}(steward=True)"
        )


ABOVE = 10
"""Units with more rows are listed, unless the policy has a smaller limit: then those above that."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What was found: from how many rows on units are listed, and of each table how many are; and the file."""

    file: Path | None  # None: the ledger is in memory, and so is the index
    above: int
    tables: tuple[tuple[str, int | None], ...]  # None: no index lists them

    def __str__(self) -> str:
        lines = [] if self.file is None else [f"{'written':<9} {self.file}"]
        lines.append(f"{'serves':<9} limits of {self.above:,} rows and more")
        for name, units in self.tables:
            what = "not indexed: only units that are whole numbers or text are, and on Spark no more than a million"
            counted = what if units is None else ""
            listed = f"{units:,} unit{'' if units == 1 else 's'} with more than {self.above:,} rows"
            lines.append(f"{'table':<9} {name}: {counted or listed}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The same for programs."""
        return {"file": None if self.file is None else str(self.file), "above": self.above, "tables": dict(self.tables)}


def index(engine: Shared, above: int | None = None) -> Indexed:
    """Look for heavy units in every table that has units, keep them, and write them beside the ledger."""
    data = engine.data()
    indexing = engine.indexing(data)
    rows = _above(engine.policy) if above is None else above
    owned = dict(_owned(engine))
    with engine.backend.measuring(None) as measuring:
        found = {name: indexing.look_for(of, rows, measuring) for name, of in owned.items()}
    if engine.data() != data:
        raise DataError(
            "the data changed while they were read, and no index was made",
            code="data-changed",
            hint="wait until whatever writes them is done, then run this again",
        )
    file = indexing.keep(write=True)
    return Indexed(file, rows, tuple((name, None if h is None else h.units.num_rows) for name, h in found.items()))


def _above(policy: Policy) -> int:
    """A small number, no larger than any limit that the policy names."""
    limits = policy.privacy
    named = [limits.max_rows, limits.max_rows_per_group, *(t.rows_per_unit for t in policy.tables.values())]
    return min([ABOVE, *(limit for limit in named if isinstance(limit, int))])


def _owned(engine: Shared) -> list[tuple[str, Owned]]:
    """The tables whose rows have units, by their names as the policy writes them."""
    found = []
    for one in engine.guarded:
        columns = tuple((name.lower(), name) for name, _ in engine.schema[one.name])
        of = Owned.by(scan_of(engine.policy, one.table, columns))
        found += [] if of is None else [(one.table.name, of)]
    return found
