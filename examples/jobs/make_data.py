"""Make the visits that these examples are about: 400 people, three days, three cities. Nobody is real."""

from datetime import date, timedelta
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

random = Random(7)
rows = [
    (person, date(2026, 11, 14) + timedelta(days=random.randrange(3)), random.choice(["Bern", "Lima", "Oslo"]))
    for person in range(400)
    for _ in range(random.randint(1, 4))
]
people, days, cities = zip(*rows, strict=True)
minutes = [round(random.uniform(1, 60), 1) for _ in rows]
pq.write_table(pa.table({"person": people, "day": days, "city": cities, "minutes": minutes}), "visits.parquet")
