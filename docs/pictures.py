"""Makes the pictures of the documentation: python docs/pictures.py. They differ a little each time: noise is new.

They are answers over the demo's data, and one over examples/adult, drawn by `answer.plot()`. Those that are compared
have one scale.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dpsql
from dpsql.cli.demo import POLICY, write
from dpsql.steward.check import check

FOLDER = Path(__file__).parent / "pictures"
PLANS = "SELECT plan, COUNT(*) AS riders FROM riders GROUP BY plan"
HOURS = "SELECT hour, COUNT(*) AS trips FROM trips WHERE hour >= 5 GROUP BY hour ORDER BY hour"
MINUTES = "SELECT station, AVG(minutes) AS minutes FROM trips GROUP BY station"
PICTURES: dict[str, tuple[tuple[str, str, dict[str, Any]], ...]] = {
    "riders": (("Riders by plan, ε = 0.2", PLANS, {"epsilon": "0.2"}),),
    "limits": tuple((f"max_rows = {n}", HOURS, {"epsilon": "1", "max_rows": n}) for n in (2, 10, 200)),
    "ranges": (
        ("range 0 to 120", MINUTES, {"epsilon": "1"}),
        ("range 0 to 2,000", MINUTES.replace("trips", "wide"), {"epsilon": "1"}),
    ),
    "epsilon": tuple((f"ε = {e}", PLANS, {"epsilon": e}) for e in ("0.01", "0.1", "1")),
}
"""By the name of a picture, what stands side by side in it: title, query and options."""

ADULT = Path(__file__).parents[1] / "examples" / "adult"
WORK = "SELECT workclass, COUNT(*) AS people, AVG(hours_per_week) AS hours FROM people GROUP BY workclass"


def policy() -> str:
    """The demo's policy with a budget for all of this, and the trips once more with a wider range."""
    trips = POLICY[POLICY.index("[tables.trips]") : POLICY.index("[tables.stations]")]
    wide = trips.replace("tables.trips", "tables.wide").replace("max = 120", "max = 2_000")
    return POLICY.replace("epsilon = 4 ", "epsilon = 100 ") + "\n" + wide


def main() -> None:
    """Draw them all."""
    import altair

    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        write(Path(name))
        place = Path(name) / "policy.toml"
        place.write_text(policy(), encoding="utf-8")
        check(place, steward=True)  # promises, without which plans may be NULL
        with dpsql.connect(place) as session:
            for picture, parts in PICTURES.items():
                width = 500 if len(parts) == 1 else 560 // len(parts)
                charts = [
                    session.query(sql, fresh=True, **options).plot().properties(title=title, width=width)
                    for title, sql, options in parts
                ]
                whole = altair.hconcat(*charts).resolve_scale(x="shared", y="shared")
                whole.save(str(FOLDER / f"{picture}.svg"))
        with dpsql.connect(ADULT / "policy.toml", ledger=":memory:") as session:
            session.query(WORK).plot(y="hours").save(str(FOLDER / "hours.svg"))


if __name__ == "__main__":
    main()
