"""Neighbours, exactly, for the random queries: without one person, or with a hostile one more.

Three sessions are opened apart from each other: over D, over D without one person, over D with a hostile one (under
replace_one: D with that person's rows replaced). All that an analyst sees beforehand must be the same text, and the
integers that get noise may move by no more than is claimed. The noisy tables of D serve all of them, so that later
steps, which take noisy values as constants, are given the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_sql.grammar import Grammar
from random_sql.test_random import SEED, Tally, extent
from random_sql.world import World, open_session, worlds
from random_sql.written import Query
from source_kinds import KINDS

import dpsql
from dpsql import quoting
from dpsql import run as loop
from dpsql.backends.base import Counts, Exact
from dpsql.backends.duckdb import backend as duckdb_backend
from dpsql.backends.duckdb import many_rows, run
from dpsql.backends.duckdb.heavy_units import all_units, heavy_units
from dpsql.backends.duckdb.many_rows import Sizes
from dpsql.backends.duckdb.run import execute
from dpsql.backends.listed import HeavyUnits
from dpsql.explain.explanation import Explanation
from dpsql.quote.indexed import units_table, uses_of
from dpsql.quote.model import Measurement, Quote, Step
from dpsql.quote.plan_cache import PlanCache
from dpsql.statistics.base import Choice
from dpsql.statistics.counts import Votes
from dpsql.statistics.top import Top

SAMPLE, SECONDS, BATCH = 60, 12, 20
LIMITS: list[dict[str, Any]] = [
    {"max_rows": 1, "max_groups": 1, "mechanism": "laplace"},
    {"max_rows": 7, "max_groups": 3, "mechanism": "laplace"},
    {"max_rows": 7, "max_rows_per_group": 2, "max_groups": 3, "mechanism": "gaussian"},
    {"max_rows": 90, "max_groups": 30, "mechanism": "laplace"},
]
HUGE32, HUGE64 = 2**31 - 1, 2**63 - 1
EVIL = 4_242


def hostile(dice: Random) -> World:
    """A person with more orders and items than any limit, in as many groups, and every strange value there is."""
    users = [
        (
            EVIL,
            dice.choice(["rome", "atlantis", None]),
            dice.choice([HUGE32, -HUGE32 - 1, 7, None]),
            dice.choice([float("nan"), float("inf"), float("-inf"), 1e308, -1e308, None]),
            dice.choice([True, False, None]),
            dice.choice(["n77", "", None, "x" * 500]),
            dice.choice([date(1, 1, 1), date(9999, 12, 31), None]),
        )
    ]
    count = dice.choice([1, 3, 40, 120])  # three of these joined are some million rows
    orders = [
        (
            EVIL,
            dice.choice([-1, 1]) * (10**9 + j),
            dice.choice([date(2024, 1, 1 + j % 28), date(1, 1, 1), date(9999, 12, 31), None]),
            dice.choice([Decimal("9999999.99"), Decimal("-9999999.99"), Decimal(j), None]),
            dice.choice(["gift", "new", f"kind {j}", None]),
            dice.choice([datetime(2024, 1, 1, j % 24), datetime(9999, 12, 31), datetime(1, 1, 1), None]),
        )
        for j in range(count)
    ]
    items = [
        (
            dice.choice(orders)[1],
            dice.choice(["a1", "b1", f"sku {j}", None]),
            dice.choice([HUGE32, -HUGE32 - 1, j % 25, None]),
            dice.choice([float("nan"), float("inf"), float("-inf"), 1e308, -1e308, -0.0, 5e-324, j / 8, None]),
        )
        for j in range(dice.choice([1, 5, 200]))
    ]
    return World({"users": dice.choice([users, []]), "orders": orders, "items": items, "survey": []})


# ---------------------------------------------------------------- the exact stage, as seen from inside

Cells = dict[tuple[Any, ...], list[int]]  # key -> the integers of one measurement


@dataclass
class Seen:
    """What an analyst can know of one query without its noise, and what only the exact stage knows."""

    outcome: tuple[Any, ...] = ()
    quote: Quote | None = None
    text: str = ""
    crash: str | None = None
    ran: list[Step] = field(default_factory=list)  # as they were settled by what was released before them
    cells: list[list[Cells]] = field(default_factory=list)  # of each measurement of each step
    noisy: list[Any] = field(default_factory=list)
    given: list[dict[str, list[list[Any]]]] = field(default_factory=list)  # the constants of each step


@contextmanager
def watched(seen: Seen, replay: list[Any] | None) -> Iterator[None]:
    """Record what each step measures; release it for real, or hand out what was released before."""
    release, publish, quote_of = vars(loop)["release"], vars(loop)["publish"], vars(quoting)["quote_of"]

    def watched_publish(*given: Any) -> Any:
        found = publish(*given)
        seen.given.append({name: [_plain(c.to_pylist()) for c in table.columns] for name, table in found.items()})
        return found

    def watched_release(step: Step, exact: Any, *more: Any, **options: Any) -> Any:
        seen.ran.append(step)
        seen.cells.append(integers(step, exact))
        number = len(seen.noisy)
        seen.noisy.append(release(step, exact, *more, **options) if replay is None else replay[number])
        return seen.noisy[-1]

    def watched_quote(*given: Any, **options: Any) -> Quote:
        seen.quote = quote_of(*given, **options)
        return seen.quote

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vars(loop)["secrets"], "randbits", lambda bits: 0x9E3779B97F4A7C15 % 2**bits)
        patch.setattr(duckdb_backend, "execute", in_both_ways)
        patch.setattr(loop, "publish", watched_publish)
        patch.setattr(loop, "release", watched_release)
        patch.setattr(quoting, "quote_of", watched_quote)
        patch.setattr(PlanCache, "get", lambda *_: None)  # planned anew each time
        yield


INDEXED: list[str] = []  # the steps that an index refined


DIVIDED: list[str] = []  # the steps that were measured in parts
FEW = Sizes(few=-1, counted=10, capped=20, shares=0)


def in_both_ways(step: Step, cursor: Any, given: Any, heavy: Sequence[HeavyUnits], again: Set[str]) -> Exact:
    """A step's integers by way of an index, wherever one serves; the same as in the plain way (Theorem INDEX-1)."""
    plain = execute(step, cursor, given)
    in_parts(step, cursor, given, again, plain)
    lists = [
        heavy_units(need.of, need.limit, cursor, need.by)
        if need.sizes is None
        else all_units(need.of, need.sizes.columns, cursor)
        for use in uses_of(step)
        for need in use.needs
    ]
    table = units_table(step)
    lists += [] if table is None else [all_units(table.of, table.columns, cursor)]
    found = [one for one in lists if one is not None]
    if not found:
        return plain
    exact = execute(step, cursor, given, found)
    for tally, counted in plain.tallies.items():
        assert list(map(int, counted)) == list(map(int, exact.tallies[tally])), f"with an index {tally} is another"
    for spectrum, counts in plain.spectra.items():
        assert how_often(counts) == how_often(exact.spectra[spectrum]), f"with an index {spectrum} is another"
    INDEXED.append(step.name)
    return exact


def in_parts(step: Step, cursor: Any, given: Any, again: Set[str], plain: Exact) -> None:
    """Compare with the integers of a few units at a time (Theorems PARTS-1, CAP-3)."""
    seen: list[bool] = []

    def watched(measure: Any, statement: Any, tables: Any, rows: Any) -> Any:
        found = measure(statement, tables, rows, FEW)
        seen.append(found is not None and len(found) > 0)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "capped", partial(watched, many_rows.capped))
        patch.setattr(run, "texts_in_parts", partial(watched, many_rows.texts_in_parts))
        exact = execute(step, cursor, given, (), again)
    if any(seen):
        DIVIDED.append(step.name)
        for tally, counted in plain.tallies.items():
            assert list(map(int, counted)) == list(map(int, exact.tallies[tally])), f"in parts {tally} is another"
        assert repr(plain.cells and plain.cells.to_pylist()) == repr(exact.cells and exact.cells.to_pylist())


def how_often(counts: Counts) -> list[tuple[int, int, int]]:
    """Each cell and value with how often it occurs there; what occurs with no weight at all needn't be listed."""
    listed = zip(counts.cells, counts.values, counts.counts, strict=True)
    return [(int(cell), int(value), int(count)) for cell, value, count in listed if count]


def integers(step: Step, exact: Any) -> list[Cells]:
    """The integers that get noise, by key, for each measurement."""
    cells = exact.cells if step.checked.private_keys else step.cells
    keys: list[tuple[Any, ...]] = [()]
    if cells is not None:
        keys = list(zip(*(_plain(c.to_pylist()) for c in cells.columns), strict=True))
    found = []
    for m in step.measurements:
        if isinstance(m.statistic, Choice):  # what its scores are made of: how often each value occurs
            counts = exact.spectra[m.statistic.spectrum]
            places = zip(counts.cells, counts.values, counts.counts, strict=True)
            found.append({(*keys[int(cell)], int(value)): [int(count)] for cell, value, count in places})
            continue
        columns = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
        found.append({key: [int(c[j]) for c in columns] for j, key in enumerate(keys)})
    return found


def claims(step: Step, m: Measurement) -> tuple[Fraction, Fraction | None]:
    """How far the integers of a measurement may move: l1 (of winners: in one cell) and, if anything, squared l2."""
    unit = step.checked.bounding.contribution
    times = 2 if unit.replace else 1
    if isinstance(m.statistic, Choice):  # Theorem QUANTILE-1 counts on the mass of rows
        assert unit.mass is not None
        return times * unit.mass * 2**step.bits, None
    if isinstance(m.statistic, Top):  # Theorem CHOOSE-1: what one unit moves a single cell by
        return m.sensitivity.l1 / m.statistic.count, None
    return m.sensitivity.l1, m.sensitivity.l2_squared


def _plain(values: list[Any]) -> list[Any]:
    return ["NaN" if isinstance(v, float) and v != v else v for v in values]  # NaN is no equal of itself


def ask(
    session: dpsql.Session, query: Query, limits: dict[str, Any], replay: list[Any] | None, *, epsilon: int = 1
) -> Seen:
    seen = Seen()
    before = session.budget.spent
    with watched(seen, replay):
        try:
            answer = session.query(query.sql, epsilon=epsilon, delta="1e-6", fresh=True, **limits)
            seen.outcome = ("answered", answer.table.schema, answer.cost)
        except dpsql.Error as error:
            seen.outcome = (type(error), error.code, str(error), error.span)
        except Exception as error:
            seen.outcome, seen.crash = ("crash", str(error)), f"{type(error).__name__}: {error}"
        try:
            seen.text = "" if seen.quote is None else str(Explanation.of(seen.quote))
        except Exception as error:
            seen.crash = f"explain: {type(error).__name__}: {error}"
    after = session.budget.spent
    seen.outcome += (after.epsilon - before.epsilon, after.delta - before.delta)
    return seen


def public(seen: Seen) -> tuple[Any, ...]:
    """Everything about a quote that may not depend on the data: all of it."""
    quote = seen.quote
    if quote is None:
        return ()
    steps = [
        (s.name, s.statement, s.tallies, s.calls, s.measurements, s.estimates, s.bits, s.selection, s.cells)
        for s in (*quote.steps, *seen.ran)
    ]
    return (seen.text, quote.price, quote.result, quote.epsilon, steps)


def differences(one: Seen, other: Seen) -> Iterator[str]:
    """Every way in which two neighbours differ and may not."""
    if one.outcome != other.outcome:
        yield f"outcome: {one.outcome} and {other.outcome}"
    yield from (s.crash for s in (one, other) if s.crash is not None)
    if public(one) != public(other):
        yield f"quote:\n{one.text}\n{other.text}"
    if one.quote is None or len(one.cells) != len(other.cells):
        if len(one.cells) != len(other.cells):
            yield f"{len(one.cells)} and {len(other.cells)} steps were run"
        return
    if one.given != other.given:
        yield f"steps were given other constants: {one.given} and {other.given}"
    for step, here, there in zip(one.ran, one.cells, other.cells, strict=True):
        yield from moved(step, here, there)


def moved(step: Step, here: list[Cells], there: list[Cells]) -> Iterator[str]:
    for m, a, b in zip(step.measurements, here, there, strict=True):
        zero = [0] * (1 if isinstance(m.statistic, Choice) else m.statistic.width)
        difference = [
            x - y for key in a.keys() | b.keys() for x, y in zip(a.get(key, zero), b.get(key, zero), strict=True)
        ]
        most, squared = claims(step, m)
        l1, l2_squared = sum(map(abs, difference)), sum(d * d for d in difference)
        if isinstance(m.statistic, Top):
            l1 = max(map(abs, difference), default=0)
        if l1 > most:
            yield f"{step.name}, {m.statistic.title}: l1 {l1}, claimed {most}"
        if squared is not None and l2_squared > squared:
            yield f"{step.name}, {m.statistic.title}: squared l2 {l2_squared}, claimed {squared}"
    if step.selection is not None and step.checked.private_keys:  # keys that only one of them has
        groups = step.checked.bounding.contribution.groups
        counts = step.selection.measurement
        for mine, yours in ((here, there), (there, here)):
            alone = [key for key in mine[counts] if key not in yours[counts]]
            if groups is None or len(alone) > groups:
                yield f"{step.name}: {len(alone)} keys of one unit alone, claimed {groups}"
            statistic, own = step.measurements[counts].statistic, [mine[counts][key] for key in alone]
            if isinstance(statistic, Votes):  # Theorem KEYW-1
                if sum(n * n for (n,) in own) > 4**statistic.bits or len({n for (n,) in own}) > 1:
                    yield f"{step.name}: the votes for keys that only one has aren't spread over them"
            elif any(n != [1] for n in own):
                yield f"{step.name}: a key that only one has counts more than one unit"


def share(step: Step, here: list[Cells], there: list[Cells]) -> Fraction:
    """The largest part of a claim that was used."""
    most = Fraction(0)
    for m, a, b in zip(step.measurements, here, there, strict=True):
        if m.sensitivity.choice:
            continue
        zero = [0] * m.statistic.width
        l1 = sum(
            abs(x - y) for key in a.keys() | b.keys() for x, y in zip(a.get(key, zero), b.get(key, zero), strict=True)
        )
        most = max(most, Fraction(l1) / m.sensitivity.l1)
    return most


def test_no_person_moves_the_answer_to_a_random_query_by_more_than_is_claimed(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted, until = extent(request, SAMPLE, SECONDS)
    tally, failures = Tally(), []
    done: list[int] = []
    kinds: Counter[str] = Counter()  # pairs of answers, by kind of source
    attained: list[Fraction] = []

    @seed(SEED)
    @settings(
        max_examples=-(-wanted // BATCH),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(world=worlds())
    def run(world: World) -> None:
        batch = len(done)
        if monotonic() > until:
            return
        done.append(batch)
        dice = Random(f"{SEED}:{batch}")
        adjacency = dice.choice(["add_remove", "add_remove", "replace_one"])
        leaving, evil = dice.choice(world.units() or [1]), hostile(dice)
        fewer = world.without(leaving)
        neighbours = [fewer, world.plus(evil)] if adjacency == "add_remove" else [fewer.plus(evil)]
        kind = dice.choice(list(KINDS))
        sessions = [
            open_session(w, adjacency=adjacency, kind=kind, folder=tmp_path / f"{batch}-{i}")
            for i, w in enumerate((world, *neighbours))
        ]
        try:
            for number in range(BATCH):
                query = Grammar(f"{SEED}:{batch}:{number}").query()
                limits = dice.choice(LIMITS)
                base = ask(sessions[0], query, limits, None)
                answered = base.outcome[0] == "answered"
                tally.add(query, None if answered else base.outcome[1])
                for session, neighbour in zip(sessions[1:], neighbours, strict=True):
                    other = ask(session, query, limits, base.noisy)
                    found = list(differences(base, other))
                    if found:
                        failures.append((f"{batch}:{number} {kind}", adjacency, limits, query, found, world, neighbour))
                    elif answered and base.quote is not None:
                        kinds[kind] += 1
                        steps = zip(base.ran, base.cells, other.cells, strict=True)
                        attained.extend(share(*step) for step in steps)
        finally:
            for session in sessions:
                session.close()

    run()
    print(tally)
    with capsys.disabled():
        near = sum(s > Fraction(9, 10) for s in attained)
        print(f"\nseed {SEED}: {len(attained)} pairs of steps, {near} within a tenth of their claim")
        print(f"{len(INDEXED)} steps by way of an index, {len(DIVIDED)} in parts")
        print("pairs of answers: " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    if failures:
        place, adjacency, limits, query, found, world, neighbour = failures[0]
        others = "\n".join(f"  {f[0]}: {f[3].sql}\n    {f[4][0].splitlines()[0]}" for f in failures[1:20])
        pytest.fail(
            f"DPSQL_SEED={SEED} ({len(failures)} pairs), number {place}, {adjacency}, {limits}\n{query.sql}\n"
            + "\n".join(found)
            + f"\n\n{world}\n\nneighbour:\n{neighbour}\n\nand:\n{others}",
            pytrace=False,
        )


# ---------------------------------------------------------------- several steps

QUIET = 1_000  # ε at which a count of 4 falls below 2 once in e^300 times

STEPS = [  # a query, and how many steps it has
    ("SELECT COUNT(*), SUM(amount) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)", 2),
    (
        "SELECT kind, SUM(amount) FROM orders WHERE amount <= (SELECT AVG(amount) + 9 FROM orders WHERE amount < "
        "(SELECT SUM(amount) / COUNT(*) * 2 FROM orders)) GROUP BY kind",
        3,
    ),
    (
        "SELECT u.city, o.kind, COUNT(*) FROM users AS u JOIN orders AS o USING (uid) WHERE u.city IN "
        "(SELECT city FROM users GROUP BY city HAVING COUNT(*) > 1) GROUP BY u.city, o.kind",
        2,
    ),
    (
        "SELECT i.sku, SUM(i.qty) FROM items AS i LEFT JOIN skus AS s ON s.sku = i.sku AND s.list_price > 15 "
        "CROSS JOIN (SELECT AVG(price) AS m, COUNT(*) AS n FROM items) AS q "
        "WHERE i.price < q.m * 2 OR q.n > 9 GROUP BY i.sku",
        2,
    ),
    (
        "SELECT COUNT(*) FROM (SELECT uid, COUNT(*) AS n, MAX(amount) AS m FROM orders GROUP BY uid) AS g "
        "WHERE g.n > (SELECT COUNT(*) / 9 FROM orders) OR g.m > (SELECT AVG(age) FROM users)",
        3,
    ),
    (
        "SELECT SUM(w) FROM (SELECT uid, LEAST(SUM(amount) OVER (PARTITION BY uid ORDER BY oid), 900) AS w FROM orders "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY amount, oid) <= 3) AS v "
        "WHERE v.w NOT IN (SELECT age FROM users GROUP BY age) AND v.w > (SELECT AVG(age) FROM users)",
        3,
    ),
    (
        "SELECT lbl, COUNT(*) FROM (SELECT 'u' AS lbl, uid FROM users WHERE age > (SELECT AVG(age) FROM users) "
        "UNION ALL SELECT 'o', uid FROM orders WHERE amount < (SELECT AVG(amount) FROM orders)) AS w GROUP BY lbl",
        3,
    ),
    (
        "SELECT u.city, COUNT(*) FROM users AS u WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.uid = u.uid AND "
        "o.amount > u.age) AND u.age < (SELECT COUNT(*) * 9 FROM items) GROUP BY ROLLUP (u.city)",
        3,
    ),
]


@pytest.fixture(scope="module")
def people() -> Iterator[dict[str, list[dpsql.Session]]]:
    """A world, the same without a person, and with a hostile one more (or instead)."""
    cities, kinds = ["rome", "oslo", None], ["new", "gift"]
    units = range(1, 13)
    users = [(u, cities[u % 3], 20 + u, u / 8, u % 2 == 0, "Bo", date(1990, 1, u)) for u in units]
    orders = [
        (u, u * 100 + j, date(2024, 2, u), Decimal(9 * u + j), kinds[j % 2], datetime(2024, 3, u))
        for u in units
        for j in range(u % 4)
    ]
    items = [(o[1], ["a1", "b1"][k], 3 + k, 7.5 * k) for o in orders for k in range(2)]
    world = World({"users": users, "orders": orders, "items": items, "survey": []})
    fewer, evil = world.without(7), hostile(Random("many steps"))
    sessions = {
        "add_remove": [open_session(w) for w in (world, fewer, world.plus(evil))],
        "replace_one": [open_session(w, adjacency="replace_one") for w in (world, fewer.plus(evil))],
    }
    yield sessions
    for session in (*sessions["add_remove"], *sessions["replace_one"]):
        session.close()


@pytest.mark.sample(3)
@pytest.mark.parametrize(("sql", "steps"), STEPS)
def test_a_step_with_noisy_constants_is_moved_by_no_more_than_is_claimed(
    people: dict[str, list[dpsql.Session]], sql: str, steps: int
) -> None:
    query = Query(sql, sql, sql, (), frozenset())
    for adjacency, (session, *others) in people.items():
        limits = LIMITS[2] if adjacency == "add_remove" else LIMITS[1]
        # With so little noise the first step leaves the groups that there are, and not by luck.
        base = ask(session, query, limits, None, epsilon=QUIET)
        assert (base.outcome[0], len(base.cells)) == ("answered", steps), base.outcome
        assert any(values for given in base.given for table in given.values() for values in table)
        for other in others:
            assert list(differences(base, ask(other, query, limits, base.noisy, epsilon=QUIET))) == []


def test_without_the_same_noisy_constants_a_later_step_would_be_found_to_differ(
    people: dict[str, list[dpsql.Session]],
) -> None:
    sql = STEPS[0][0]
    query = Query(sql, sql, sql, (), frozenset())
    session, other, _ = people["add_remove"]
    # So few people leave a mean that is mostly one of the ends of its range: two draws can well be equal, fifty can't.
    pairs = ([ask(s, query, LIMITS[1], None) for s in (session, other)] for _ in range(50))
    assert any("other constants" in text for base, fresh in pairs for text in differences(base, fresh))
