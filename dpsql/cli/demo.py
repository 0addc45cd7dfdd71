"""dpsql demo: what private answers are like, on data that are made for it. Leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING

import click

from dpsql.cli.options import opened
from dpsql.cli.stop import careful
from dpsql.core.errors import Error
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from dpsql.session import Session


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
        from dpsql.cli.demo_data import POLICY, RIDERS, write
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
    from dpsql.cli.bars import bars
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
    from dpsql.cli.demo_data import made

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
    from dpsql.cli.account_statement import lines

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
