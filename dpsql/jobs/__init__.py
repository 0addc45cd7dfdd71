"""dpsql.jobs: releases that are written down in a file, run again and again, and paid for once.

`run("release.toml", params={"date": date(2026, 11, 16)})` is `dpsql run release.toml --param date=2026-11-16`.
"""

from __future__ import annotations

from dpsql.jobs.job import Job
from dpsql.jobs.perform import Line, Report, run
from dpsql.jobs.read import read_job

__all__ = ["Job", "Line", "Report", "read_job", "run"]
