"""A plain script: run a job for one day, and say what it cost."""

from datetime import date

from dpsql.jobs import run

report = run("release.toml", params={"date": date(2026, 11, 14)})
print(report)
