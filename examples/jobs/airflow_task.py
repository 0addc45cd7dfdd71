"""A task for Airflow, or for any scheduler that calls a function with a date and may call it again.

In a DAG:

    from airflow.decorators import task
    release = task(retries=3)(private_release)
    release(ds="{{ ds }}")
"""

from pathlib import Path

from dpsql.jobs import run

FOLDER = Path(__file__).parent


def private_release(ds: str) -> list[str]:
    """Release what the job says for one logical date; the names of its files.

    A retry or a cleared task finishes what is missing and pays for nothing twice, so that retries are safe.
    """
    report = run(FOLDER / "release.toml", params={"date": ds})
    return [name for line in report.lines for name in line.files]
