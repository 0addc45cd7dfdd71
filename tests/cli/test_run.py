"""dpsql run: what a job costs, what it writes, and what becomes of it when it is cut off."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import dpsql as package
from dpsql.jobs import perform, read_job, run
from dpsql.jobs.work import Records

Run = Callable[..., Result]

JOB = """
[params]
date = "date"
least = { type = "integer", default = 18 }

[queries.regions]
sql = "SELECT region, COUNT(*) AS n FROM people WHERE age >= {least} GROUP BY region"
epsilon = 0.5
output = ["out/{date}/regions.parquet", "out/{date}/regions.json", "out/{date}/regions.arrow"]

[queries.incomes]
sql = '''
SELECT region, AVG(income) AS mean
FROM people GROUP BY region'''
epsilon = 0.25
output = "out/{date}/incomes.csv"
intervals = true
"""
ASK = ("run", "release.toml", "--param", "date=2026-11-16")


@pytest.fixture
def job(folder: Path) -> Path:
    (folder / "release.toml").write_text(JOB)
    return folder


def spent(run: Run) -> float:
    return float(json.loads(run("budget", "--json").stdout)["spent"]["epsilon"])


def written(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted((folder / "out").rglob("*")) if f.is_file()}


def people(folder: Path, incomes: float) -> None:
    """Write other people: 90 of them, with this income each."""
    columns = {"region": ["east", "north", "south"] * 30, "income": [incomes] * 90, "age": [30] * 90}
    pq.write_table(pa.table({**columns, "name": ["n"] * 90}), folder / "people.parquet")


def write(folder: Path, text: str) -> None:
    (folder / "release.toml").write_text(text)


# ---------------------------------------------------------------- paid once


def test_a_finished_release_costs_nothing_and_has_the_same_bytes(dpsql: Run, job: Path) -> None:
    first = dpsql(*ASK)
    assert first.exit_code == 0 and first.stdout.endswith("release: cost ε = 0.75\n"), first.output
    files = written(job)
    assert len(files) == 8  # four files, each with its receipt
    for name in ("out/2026-11-16/incomes.csv", "out/2026-11-16/regions.json.receipt.json"):
        (job / name).unlink()
    (job / "out/2026-11-16/regions.parquet").write_bytes(b"spoilt")
    again = dpsql(*ASK)
    assert again.exit_code == 0 and again.stdout.endswith("release: cost nothing\n")
    assert written(job) == files and spent(dpsql) == 0.75


def test_another_value_is_another_release(dpsql: Run, job: Path) -> None:
    dpsql(*ASK)
    dpsql(*ASK, "--param", "least=40")
    assert spent(dpsql) == 1.25  # the other query doesn't look at it


def test_what_is_finished_stays_when_the_data_are_others_or_gone(dpsql: Run, job: Path) -> None:
    dpsql(*ASK)
    files = written(job)
    people(job, 999)
    assert dpsql(*ASK).exit_code == 0 and written(job) == files
    (job / "people.parquet").unlink()
    assert dpsql(*ASK).exit_code == 0 and written(job) == files and spent(dpsql) == 0.75


def test_again_is_free_for_the_same_data_and_paid_for_a_new_version(dpsql: Run, job: Path) -> None:
    dpsql(*ASK)
    files = written(job)
    assert dpsql(*ASK, "--again").exit_code == 0 and spent(dpsql) == 0.75
    assert written(job)["out/2026-11-16/incomes.csv"] == files["out/2026-11-16/incomes.csv"]
    people(job, 999)
    refused = dpsql(*ASK, "--again")
    assert refused.exit_code == 5 and "dpsql refresh" in refused.stderr
    dpsql("refresh", "--steward")
    assert dpsql(*ASK, "--again").exit_code == 0 and spent(dpsql) == 1.5
    newer = written(job)
    assert newer.keys() == files.keys() and newer["out/2026-11-16/incomes.csv"] != files["out/2026-11-16/incomes.csv"]
    assert dpsql(*ASK).exit_code == 0 and written(job) == newer and spent(dpsql) == 1.5


def test_once_per_data_pays_once_for_each_version(dpsql: Run, job: Path) -> None:
    write(job, f'once_per = "data"\n{JOB}')
    dpsql(*ASK)
    files = written(job)
    assert dpsql(*ASK).exit_code == 0 and written(job) == files and spent(dpsql) == 0.75
    people(job, 999)
    dpsql("refresh", "--steward")
    assert dpsql(*ASK).exit_code == 0 and spent(dpsql) == 1.5


def test_records_of_a_ledger_that_is_no_more_count_for_nothing(dpsql: Run, job: Path) -> None:
    dpsql(*ASK)
    files = written(job)
    for file in job.glob("policy.ledger.sqlite*"):
        if file.is_file():
            file.unlink()
    assert dpsql(*ASK).exit_code == 0 and spent(dpsql) == 0.75 and written(job) != files


# ---------------------------------------------------------------- cut off half-way


def test_a_run_that_is_cut_off_before_it_is_recorded_pays_once(
    dpsql: Run, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Records, "keep", cut)
        stopped = dpsql(*ASK)
    assert stopped.exit_code == 130 and "stays charged" in stopped.stderr
    assert spent(dpsql) == 0.5 and not written(job)
    assert dpsql(*ASK).exit_code == 0 and spent(dpsql) == 0.75 and len(written(job)) == 8


def test_a_run_that_is_cut_off_between_record_and_files_is_finished_with_the_recorded_bytes(
    dpsql: Run, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []

    def full(contents: Any) -> None:
        kept.extend(contents)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(perform, "write_whole", full)
        failed = dpsql(*ASK)
    assert failed.exit_code == 6 and "run the job again" in failed.stderr and not written(job)
    people(job, 999)  # also when the data are others by then
    dpsql("refresh", "--steward")
    assert dpsql(*ASK).exit_code == 0 and spent(dpsql) == 0.75
    assert all(path.read_bytes() == content for path, content in kept) and len(kept) == 2


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_paid(dpsql: Run, job: Path) -> None:
    (job / "out").write_text("a file")
    refused = dpsql(*ASK)
    assert refused.exit_code == 6 and "nothing was paid" in refused.stderr and spent(dpsql) == 0


# ---------------------------------------------------------------- before anything is paid


def test_a_refusal_anywhere_comes_before_any_payment_and_names_query_and_place(dpsql: Run, job: Path) -> None:
    write(job, JOB.replace("AVG(income)", "AVG(name)"))
    refused = dpsql(*ASK, "--json")
    error = json.loads(refused.stderr)
    assert refused.exit_code == 3 and error["message"].startswith("incomes: ") and error["hint"]
    assert error["span"]["line"] == 1 and spent(dpsql) == 0 and not written(job)  # TOML drops the first newline


@pytest.mark.parametrize("wrong", ["first", "second"])
def test_in_a_batch_too_the_place_is_that_in_the_query(dpsql: Run, job: Path, wrong: str) -> None:
    texts = dict.fromkeys(("first", "second"), "SELECT COUNT(*) AS n\nFROM people")
    texts[wrong] = "SELECT COUNT(*) AS n\nFROM people\nWHERE nothing = 1"
    parts = [f"[queries.{n}]\nsql = '''{t}'''\noutput = '{n}.csv'" for n, t in texts.items()]
    write(job, "\n".join(["epsilon = 1", *parts]))
    error = json.loads(dpsql("run", "release.toml", "--json").stderr)
    assert error["message"].startswith(f"{wrong}: ") and error["code"] == "unknown-column"
    assert error["span"] == {"line": 3, "column": 7, "length": 7}


def test_a_job_that_does_not_fit_is_refused_as_a_whole(dpsql: Run, job: Path) -> None:
    write(job, JOB.replace("epsilon = 0.25", "epsilon = 99.75"))
    refused = dpsql(*ASK)
    assert refused.exit_code == 4 and "nothing was paid" in refused.stderr and spent(dpsql) == 0
    priced = dpsql(*ASK, "--dry-run")
    assert priced.exit_code == 4 and priced.stdout.endswith("would cost ε = 100.25, which is more than is left\n")


def test_a_dry_run_prices_and_does_nothing(dpsql: Run, job: Path) -> None:
    priced = dpsql(*ASK, "--dry-run", "--json")
    told = json.loads(priced.stdout)
    assert told["event"] == "priced" and told["cost"] == {"epsilon": 0.75, "delta": 0, "rho": None} and told["fits"]
    assert spent(dpsql) == 0 and not (job / "out").exists()
    dpsql(*ASK)
    assert dpsql(*ASK, "--dry-run").stdout.endswith("release: would cost nothing\n")


def test_prices_are_numbers_for_programs(dpsql: Run, job: Path) -> None:
    done = dpsql(*ASK, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    costs = [line["cost"] for line in lines] + [one["cost"] for one in lines[-1]["queries"]]
    assert len(costs) == 5 and all(isinstance(cost["epsilon"], float) and cost["rho"] is None for cost in costs)
    assert lines[-1]["cost"]["epsilon"] == 0.75 == sum(one["cost"]["epsilon"] for one in lines[-1]["queries"])


def test_a_job_says_in_time_that_its_next_runs_cannot_be_paid(dpsql: Run, job: Path) -> None:
    """Also where it says nothing else; and not where there is enough for a while."""
    for epsilon, left in (("14.5", 5), ("15.5", 5), ("24.5", 3), ("49.5", 1), ("99.5", 0)):
        write(job, JOB.replace("epsilon = 0.25", f"epsilon = {epsilon}"))
        told = json.loads(dpsql(*ASK, "--dry-run", "--json").stdout)
        assert told["fits"] and told["runs_left"] == left
    write(job, JOB.replace("epsilon = 0.25", "epsilon = 24.5"))
    first = dpsql(*ASK, "-q")
    assert first.exit_code == 0 and not first.stdout
    assert first.stderr == (
        "warning: release: what is left pays for 3 more runs of this price; ask the steward in good time\n"
    )
    assert not dpsql(*ASK).stderr  # it is finished, and costs nothing
    write(job, JOB.replace("epsilon = 0.25", "epsilon = 0.24"))
    assert not dpsql(*ASK).stderr


# ---------------------------------------------------------------- parameters

NAMED = """
params.city = "text"
[queries.q]
sql = "SELECT COUNT(*) AS n FROM people WHERE name = {city}"
epsilon = 1
output = "q.csv"
"""


def test_a_value_is_a_literal_and_never_text_that_is_parsed(dpsql: Run, job: Path) -> None:
    write(job, NAMED)
    hostile = "x' OR 1 = 1 --"
    assert dpsql("run", "release.toml", "--param", f"city={hostile}").exit_code == 0
    (entry,) = json.loads(dpsql("budget", "--history", "--json").stdout)["history"]
    assert entry["sql"].split("WHERE ")[1].strip() == "name = 'x'' OR 1 = 1 --'"
    assert float((job / "q.csv").read_text().split()[1]) < 50  # of 100 people: nobody is called that


@pytest.mark.parametrize(
    ("before", "after", "value", "said"),
    [
        ("{city}", "'{city}'", "Bern", "within quotes is plain text"),
        ("{city}", "{cty}", "Bern", "there is no parameter {cty}"),
        ("name = {city}", "TRUE", "Bern", "no query uses the parameter city"),
        ("q.csv", "{city}.csv", "../../x", "can't be in a file's name"),
        ("q.csv", "{city}.csv", ".hidden", "can't be in a file's name"),
        ("q.csv", "{cty}.csv", "Bern", "there is no parameter {cty}"),
        ('"text"', '"date"', "2026-02-30", "is no date"),
        ('"text"', '"date"', "20260230", "is no date"),
        ('"text"', '"integer"', "1e3", "is no integer"),
        ('"text"', '"number"', "nan", "is no number"),
        ('"text"', '"boolean"', "yes", "is no boolean"),
        ('"text"', '"timestamp"', "noon", "is no timestamp"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(
    dpsql: Run, job: Path, before: str, after: str, value: str, said: str
) -> None:
    write(job, NAMED.replace(before, after))
    refused = dpsql("run", "release.toml", "--param", f"city={value}", "--json")
    error = json.loads(refused.stderr)
    assert refused.exit_code in (3, 5) and said in error["message"] and error["hint"]


def test_an_error_quotes_the_query_as_the_job_has_it(dpsql: Run, job: Path) -> None:
    write(job, NAMED.replace("name = {city}", "{city} = nothing"))
    refused = dpsql("run", "release.toml", "--param", "city=Bern")
    assert "WHERE {city} = nothing\n" in refused.stderr and refused.exit_code == 3
    usage = dpsql("run", "release.toml", "--json", "--nothing")
    assert json.loads(usage.stderr)["code"] == "usage" and usage.exit_code == 2


def test_values_are_needed_and_must_be_known(dpsql: Run, job: Path) -> None:
    assert "needs a value for date" in dpsql("run", "release.toml").stderr
    assert "did you mean date?" in dpsql(*ASK, "--param", "dat=1").stderr


def test_a_python_value_must_have_the_declared_type_too(job: Path) -> None:
    with pytest.raises(package.PolicyError, match="is no date"):
        run("release.toml", params={"date": 20261116})
    assert run("release.toml", params={"date": date(2026, 11, 16)}, dry_run=True).params["date"] == "2026-11-16"


# ---------------------------------------------------------------- what a job may say


def test_one_total_is_one_batch(dpsql: Run, job: Path) -> None:
    write(job, "epsilon = 0.5\n" + re.sub(r"epsilon = 0\..*\n", "", JOB))
    done = dpsql(*ASK)
    assert done.exit_code == 0 and done.stdout.startswith("regions, incomes: cost ε = 0.5"), done.output
    files = written(job)
    assert dpsql(*ASK).exit_code == 0 and spent(dpsql) == 0.5 and written(job) == files


def test_front_matter_says_what_a_query_of_a_job_says(dpsql: Run, job: Path) -> None:
    (job / "sql").mkdir()
    front = "-- How many there are.\n-- epsilon = 0.5\n-- output = 'n-{least}.csv'\n-- params.least = 'integer'\n"
    (job / "sql" / "n.sql").write_text(f"{front}SELECT COUNT(*) AS n FROM people WHERE age >= {{least}} -- = 3\n")
    done = dpsql("run", "sql", "--param", "least=20", "--folder", "here")
    assert done.exit_code == 0 and (job / "here" / "n-20.csv").exists(), done.output
    assert spent(dpsql) == 0.5


def test_every_mistake_is_told_with_its_key(job: Path) -> None:
    write(
        job,
        """
        epsilon = 1
        once_per = "night"
        receipts = true
        [params]
        date = "day"
        [queries.a]
        sql = "SELECT 1"
        epsilon = 0.5
        [queries.b]
        output = "b.xlsx"
        """,
    )
    with pytest.raises(package.PolicyError) as refused:
        read_job("release.toml")
    said = refused.value.message
    for piece in ("receipts: unknown key", "once_per", "params.date.type", "queries.a.output: is missing", "a.epsilon",
                  "queries.b.sql", '"b.xlsx" has no format'):  # fmt: skip
        assert piece in said
    assert refused.value.hint is not None and "did you mean receipt?" in refused.value.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("out/{date}/incomes.csv", "out/{date}/regions.json.receipt.json"), "both write"),
        (("FROM people GROUP BY region'''", "FROM people; SELECT 1'''"), "is one statement"),
        (("epsilon = 0.25", "epsilon = [1]"), "must be a number or a text"),
        (("[queries.incomes]", "[queries.incomes"), "not valid TOML"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(dpsql: Run, job: Path, change: tuple[str, str], said: str) -> None:
    write(job, JOB.replace(*change))
    refused = dpsql(*ASK)
    assert refused.exit_code == 5 and said in refused.stderr and "help:" in refused.stderr
    assert dpsql("run", "nowhere.toml").exit_code == 5


def test_receipts_verify_and_can_be_left_out(dpsql: Run, job: Path) -> None:
    dpsql(*ASK)
    assert dpsql("verify", "out/2026-11-16/incomes.csv", "--policy", "policy.toml").exit_code == 0
    write(job, f"receipt = false\n{JOB}")
    dpsql("run", "release.toml", "--param", "date=2026-11-17")
    assert not list((job / "out" / "2026-11-17").glob("*.receipt.json"))


def test_a_session_of_ones_own_may_be_asked_in(job: Path) -> None:
    write(job, f"receipt = false\n{JOB}")
    people_table = pq.read_table(job / "people.parquet")
    policy = package.Policy.from_dict(
        {"budget": {"epsilon": 3}, "privacy": {"limits_share": 0}, "tables": {"people": {
            "unit": "row", "columns": {"region": {"values": ["east"]}, "income": {"min": 0, "max": 9}}}}}
    )  # fmt: skip
    with package.connect(policy, sources={"people": people_table}, ledger=":memory:") as session:
        for _ in range(2):
            run("release.toml", params={"date": "2026-11-16"}, session=session)
        assert float(session.budget.spent.epsilon) == 0.75 and len(written(job)) == 4


# ---------------------------------------------------------------- logs


def test_logs_are_the_same_whatever_the_rows_are(dpsql: Run, job: Path, caplog: pytest.LogCaptureFixture) -> None:
    """But for the ids of releases, which are random."""
    told: list[tuple[str, list[str]]] = []
    for incomes in (0.0, 900.0):
        people(job, incomes)
        if told:
            dpsql("refresh", "--steward")
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="dpsql"):
            lines = [json.loads(line) for line in dpsql(*ASK, "--json", "--again").stdout.splitlines()]
        logged = [record.getMessage() for record in caplog.records if record.name.startswith("dpsql")]
        assert len(lines) == 3 and len(logged) == 2
        assert lines[-1].pop("runs_left") > 100  # the ledger says it, and rows don't
        told.append((re.sub(r'"[0-9a-f]{32}"', '"id"', json.dumps(lines)), logged))
    assert told[0] == told[1] and "id" in told[0][0]


def test_a_quiet_run_says_nothing(dpsql: Run, job: Path) -> None:
    done = dpsql(*ASK, "-q")
    assert done.exit_code == 0 and done.output == ""
