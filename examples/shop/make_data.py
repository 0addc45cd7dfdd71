"""Makes visitors.parquet and events.parquet: a web shop that doesn't exist, eight weeks, the same each time."""

from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

VISITORS, WEEKS = 6_000, 8
PAGES = ("bags", "books", "clothes", "garden", "kitchen", "music", "shoes", "toys")

draw = np.random.default_rng(11)
start = np.datetime64(date(2026, 9, 7))
variant = draw.integers(0, 2, VISITORS)
joined = draw.integers(0, 28, VISITORS)
lively = draw.gamma(1.5, 0.4, VISITORS)  # how much of a visitor comes back

days = np.arange(7 * WEEKS)
chance = np.where(
    days[None, :] == joined[:, None], 1.0, lively[:, None] * 0.15 * 0.97 ** (days[None, :] - joined[:, None])
)
visitor, day = np.nonzero((draw.random(chance.shape) < chance) & (days[None, :] >= joined[:, None]))
page = draw.choice(len(PAGES), len(visitor), p=(0.08, 0.22, 0.2, 0.05, 0.11, 0.06, 0.18, 0.1))
cart = draw.random(len(visitor)) < 0.3
order = cart & (draw.random(len(visitor)) < np.array((0.35, 0.45))[variant[visitor]])
amount = np.round(draw.gamma(2.5, 18, len(visitor)), 2)

rows = []  # visitor, day, step, page, amount
for step, mask in (("visit", np.full(len(visitor), True)), ("cart", cart), ("order", order)):
    paid = np.where(mask[mask] & (step == "order"), amount[mask], np.nan)
    rows.append((visitor[mask], day[mask], np.full(mask.sum(), step), np.array(PAGES)[page[mask]], paid))
columns = [np.concatenate(parts) for parts in zip(*rows, strict=True)]
events = pa.table(
    {
        "visitor": columns[0],
        "day": pa.array(start + columns[1]),
        "step": columns[2],
        "page": columns[3],
        "amount": pa.array(columns[4], from_pandas=True),
    }
)
visitors = pa.table(
    {"visitor": np.arange(VISITORS), "variant": np.array(("A", "B"))[variant], "joined": pa.array(start + joined)}
)
pq.write_table(visitors, "visitors.parquet")
pq.write_table(events, "events.parquet")
