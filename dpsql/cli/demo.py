"""dpsql demo: what private answers are like, on data that are made for it, the same each time. Leaves nothing behind.

One answer is drawn as bars with 95% intervals. Whoever asks for a chart gets one of plotext's or altair's
(answer/plot.py), or is told what to install. The demo isn't asked: it runs in an installation without extras, before
anybody knows what these are, and is to show error bars there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import opened
from dpsql.cli.stop import careful
from dpsql.core.errors import DataError, Error
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.answer.columns import Source
    from dpsql.answer.model import Answer
    from dpsql.session import Session

    Interval = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Scene:
    """A query, what it is about, and what there is to see in its answer."""

    title: str
    sql: str
    see: str
    epsilon: str = "0.5"
    plot: bool = False


WIDTH = 80  # of the lines that are printed, which every terminal has room for
COUNT = "SELECT COUNT(*) AS trips FROM trips"
SCENES = (
    Scene(
        "How many trips were there?",
        COUNT,
        "Noise hides every rider, and the error bar says how far off the answer may be.\n"
        "The exact number, which only a demo on made data may tell: {exact}.",
    ),
    Scene(
        "Who rides?",
        "SELECT plan, COUNT(*) AS riders, AVG(age) AS age FROM riders GROUP BY plan",
        "A rider is one row here and up to 20 trips there: less noise for the same ε.",
    ),
    Scene(
        "When do they ride?",
        "SELECT hour, COUNT(*) AS trips FROM trips\nWHERE hour >= 5 GROUP BY hour ORDER BY hour",
        "Hours are public keys: each is shown, also one without any trip.",
        plot=True,
    ),
    Scene(
        "How long is a rider's longest trip, on average?",
        "SELECT AVG(longest) AS minutes\nFROM (SELECT rider, MAX(minutes) AS longest FROM trips GROUP BY rider)",
        "Within one rider's rows MAX is exact; the noise comes in the end.",
    ),
    Scene(
        "What do riders below 30 pay in each district?",
        "SELECT s.district, SUM(t.price) AS paid\n"
        "FROM trips t JOIN riders r USING (rider) JOIN stations s USING (station)\n"
        "WHERE r.age < 30 GROUP BY s.district ORDER BY paid DESC",
        "Private tables are joined rider by rider, public ones as you like.",
        epsilon="1",
    ),
)
REFUSED = "SELECT age, plan FROM riders WHERE rider = 42"


@click.command()
@click.option(
    "--keep", metavar="FOLDER", type=click.Path(path_type=Path), help="Leave data and policy in a new folder."
)
def demo(keep: Path | None) -> None:
    """Show what private answers are like: five queries, a refusal, the budget. Needs no files and leaves none."""
    with _folder(keep) as folder:
        from dpsql.steward.check import check

        write(folder)
        policy = folder / "policy.toml"
        click.echo(f"{RIDERS:,} riders borrow bicycles in a town that doesn't exist. The steward's policy:\n")
        click.echo(_indented(POLICY))
        check(policy, steward=True)
        click.echo("\nIts promises (rows_per_unit, nullable) were verified: dpsql check --steward")
        with opened(str(policy)) as session:
            for number, scene in enumerate(SCENES, 1):
                _play(number, scene, session)
            _refused(session)
            _free(session)
            _budget(session)
    if keep is None:
        click.echo("\nGo on by yourself: dpsql demo --keep bikes, then cd bikes && dpsql shell")
    else:
        click.echo(f"\nGo on by yourself: cd {keep} && dpsql shell")


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """A folder for the data: one that goes away, unless another is named, which must be new or empty."""
    careful()
    if keep is None:
        with TemporaryDirectory(prefix="dpsql-demo-") as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise click.UsageError(f"--keep {keep}: there is something in it already; name a new folder")
    except OSError as error:
        raise click.UsageError(f"--keep {keep}: {error.strerror}") from None
    yield keep


def _play(number: int, scene: Scene, session: Session) -> None:
    from dpsql.answer.render import guarantee
    from dpsql.cli.output import Target

    _title(f"{number}. {scene.title}", scene.sql)
    answer = session.query(scene.sql, epsilon=scene.epsilon)
    if scene.plot:
        click.echo(bars(answer), nl=False)
    else:
        Target("table").write(answer)
    for note in answer.notes:
        click.echo(fill(note, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    click.echo(f"cost {guarantee(answer.cost, up=True)} · left {guarantee(session.budget.remaining, up=False)}")
    click.echo(click.style(scene.see.format(exact=_exact()), dim=True))


def _exact() -> str:
    """What nobody would be told: here it may be, because nobody lives in these rows."""
    return f"{made()[1].num_rows:,}"


def _refused(session: Session) -> None:
    _title("What is refused: to see a person", REFUSED)
    try:
        session.query(REFUSED)
    except Error as error:
        click.echo(str(error))
    click.echo(click.style("Refused before any row was read, and for nothing.", dim=True))


def _free(session: Session) -> None:
    from dpsql.cli.output import Target

    _title("The first question once more", COUNT)
    Target("table").write(session.query(COUNT, epsilon="0.5"))
    click.echo(click.style("The same answer, for nothing: what left once may leave again.", dim=True))


def _budget(session: Session) -> None:
    from dpsql.cli.budget import lines

    _title("What was spent", "")
    found = lines(session.account, session.policy.budget.accountant, history=False)
    for line in takewhile(bool, found):  # the totals
        click.echo(line)
    click.echo(click.style("When nothing is left, nothing more is answered.", dim=True))


def _title(text: str, sql: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}")
    if sql:
        click.echo(_indented(sql))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


SEED, RIDERS = 2013, 4_000
STATIONS = ("Harbour", "Market", "Museum", "Old Mill", "Park", "Station")
DISTRICTS = ("North", "Centre", "Centre", "South", "South", "Centre")
PLANS = ("day", "month", "year")

POLICY = """\
[budget]
epsilon = 4              # for all answers together, for ever
query_epsilon = 0.5      # what a query spends when it names nothing

[tables.riders]
source = "riders.parquet"
unit = "rider"           # who is protected: all that is known of one rider
rows_per_unit = 1
columns.plan = { values = ["day", "month", "year"], nullable = false }
columns.age = { min = 15, max = 90, nullable = false }

[tables.trips]
source = "trips.parquet"
unit = "rider"
max_rows = 20            # a rider counts for at most so many trips
columns.hour = { min = 0, max = 23, nullable = false }
columns.minutes = { min = 0, max = 120 }
columns.price = { min = 0, max = 10 }
columns.station = { references = "stations.station" }

[tables.stations]
source = "stations.csv"
public = true
"""


def write(folder: Path) -> None:
    """Put the data and their policy into a folder."""
    import pyarrow.parquet as pq

    riders, trips = made()
    pq.write_table(riders, folder / "riders.parquet")
    pq.write_table(trips, folder / "trips.parquet")
    lines = ["station,district", *(f"{s},{d}" for s, d in zip(STATIONS, DISTRICTS, strict=True))]
    (folder / "stations.csv").write_text("\n".join(lines) + "\n")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")


def made() -> tuple[Any, Any]:
    """The riders, and their trips: most in the morning and in the evening, longer ones by those who rarely ride."""
    import numpy as np
    import pyarrow as pa

    draw = np.random.default_rng(SEED)
    plan = draw.choice(3, RIDERS, p=(0.25, 0.45, 0.3))
    age = np.clip(draw.normal(38, 13, RIDERS), 15, 90).astype(int)
    times = 1 + draw.poisson(np.array((1, 4, 8))[plan])
    rider = np.repeat(np.arange(RIDERS), times)
    hour = np.clip(draw.normal(np.where(draw.random(len(rider)) < 0.45, 8, 17), 2.5), 0, 23).astype(int)
    minutes = np.round(draw.gamma(3, np.array((14, 8, 5))[plan][rider]), 1)
    price = np.round(1 + minutes * np.array((0.15, 0.05, 0.02))[plan][rider], 2)
    station = np.array(STATIONS)[draw.choice(len(STATIONS), len(rider), p=(0.1, 0.2, 0.1, 0.1, 0.15, 0.35))]
    riders = {"rider": np.arange(RIDERS), "plan": np.array(PLANS)[plan], "age": age}
    trips = {"rider": rider, "hour": hour, "minutes": minutes, "price": price, "station": station}
    return pa.table(riders), pa.table(trips)


MOST = 40  # bars
LONGEST = 30  # characters of keys
CONFIDENCE = 0.95


def bars(answer: Answer, width: int | None = None) -> str:
    """A line for each row: its keys, a bar as long as the first number with an error, and that number."""
    from dpsql.answer.columns import sources
    from dpsql.answer.render import printable

    intervals = answer.intervals(CONFIDENCE)
    name = next((n for n in answer.columns if intervals[n] is not None), None)
    rows = answer.rows[:MOST]
    if name is None or not rows:
        raise DataError(
            "there is nothing to draw: the answer has no number with error bars",
            code="no-plot",
            hint="ask for a number in each group: SELECT key, COUNT(*) … GROUP BY key",
        )
    place = answer.columns.index(name)
    keys = [i for i, n in enumerate(answer.columns) if intervals[n] is None]
    labels = [printable(" ".join("NULL" if row[i] is None else str(row[i]) for i in keys))[:LONGEST] for row in rows]
    values, ends = [row[place] for row in rows], (intervals[name] or [])[: len(rows)]
    numbers = _numbers(sources(answer, MOST)[place])
    label, number = max(map(len, labels)), max(map(len, numbers))
    room = (width or shutil.get_terminal_size().columns) - label - number - 4
    spans = [_span(value, one) for value, one in zip(values, ends, strict=True)]
    drawn = _drawn(spans, max(room, 10))
    lines = [f"{a:<{label}}  {bar}  {n:>{number}}" for a, bar, n in zip(labels, drawn, numbers, strict=True)]
    more = [f"… {len(answer.rows) - MOST:,} more rows"] if len(answer.rows) > MOST else []
    meaning = f"{printable(name)}; ▒ is where the exact one lies with {CONFIDENCE:.0%}"
    meaning += "" if all(ended for _, _, ended in spans) else ", ▶ has no bound above"
    return "\n".join([meaning, *lines, *more, ""])


def _numbers(source: Source) -> list[str]:
    """The numbers with as many digits as their errors leave, and bounds as such."""
    from dpsql.answer.columns import FULL

    return ["" if v is None else cell for v, cell in zip(source.values, source.shown(FULL)[0].cells, strict=True)]


def _span(value: Any, interval: Interval) -> tuple[float, float, bool]:
    """From where to where the exact value may lie, and whether that has an end above; about the value, if unknown."""
    from dpsql.answer.interval_text import ends_of

    low, high = ends_of(interval)
    if isfinite(low) and isfinite(high):
        return low, high, True
    middle = 0.0 if value is None else float(value)
    if isfinite(low):
        return low, max(low, middle), False
    return min(middle, high), high if isfinite(high) else middle, True


def _drawn(spans: Sequence[tuple[float, float, bool]], room: int) -> list[str]:
    """Bars from 0 (what lies below isn't drawn), all to one scale; an arrow where one has no end."""
    top = max((high for _, high, _ in spans), default=0.0)
    found = []
    for low, high, ended in spans:
        full, end = (round(max(x, 0.0) / top * (room - 2)) if top > 0 else 0 for x in (low, high))
        bar = "█" * full + "▒" * max(end - full, int(high > 0)) + ("" if ended else "▶")
        found.append(bar.ljust(room)[:room])
    return found
