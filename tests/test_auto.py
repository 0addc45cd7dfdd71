"""Automatic bounds: paid once, out of the query that needs them first, and free from then on."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support import Connect

import dpsql
from dpsql.accounting.filters import recorded
from dpsql.cli.main import cli
from dpsql.core.errors import BudgetError, PolicyError, PrivacyError
from dpsql.core.types import Type
from dpsql.mechanisms import sampler
from dpsql.quote import stages
from dpsql.statistics.bounds import Seed, covered

N = 10_000
RANDOM = np.random.default_rng(7)
TABLE = pa.table(
    {
        "id": np.arange(N),
        "x": RANDOM.lognormal(8, 1, N),
        "i": RANDOM.poisson(30, N),
        "s": RANDOM.integers(-90, 90, N).astype(np.int8),
        "k": ["a", "b"] * (N // 2),
    }
)
AUTO: dict[str, Any] = {
    "x": {"bounds": "auto"},
    "i": {"bounds": "auto", "share": 0.2, "private": True},
    "s": {"bounds": "auto"},
    "k": {"values": ["a", "b"], "nullable": False},
}


def policy(unit: object = "id", **privacy: object) -> dict[str, Any]:
    return {"privacy": {"limits_share": 0, "max_rows": 2, **privacy}, "tables": {"t": {"unit": unit, "columns": AUTO}}}


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"t": TABLE}, policy(), epsilon=10, delta=0)


def spends(session: dpsql.Session) -> list[tuple[str, Fraction]]:
    return [(str(e.note["sql"]), e.cost.epsilon) for e in session._engine.ledger.history()]


# ---------------------------------------------------------------- what it costs


def test_the_first_query_pays_for_the_range_and_both_spends_are_its_epsilon(session: dpsql.Session) -> None:
    answer = session.query("SELECT AVG(x) FROM t", epsilon=1)
    assert spends(session) == [
        ("automatic bounds of t.x", Fraction(1, 10)),
        ("SELECT AVG(x) FROM t", Fraction(9, 10)),
    ]
    assert answer.cost.epsilon == session.budget.spent.epsilon == 1
    (found,) = answer.ranges
    assert found["column"] == "t.x" and found["found"]
    exact = float(np.mean(TABLE["x"].to_numpy()))
    assert abs(answer.rows[0][0] - exact) < 0.1 * exact


def test_a_repetition_is_free_and_a_later_query_has_all_of_its_epsilon(session: dpsql.Session) -> None:
    first = session.query("SELECT AVG(x) FROM t", epsilon=1)
    again = session.query("SELECT AVG(x) FROM t", epsilon=1)
    assert again.rows == first.rows and again.receipt.reused and again.cost.epsilon == 0
    session.query("SELECT k, SUM(x) FROM t WHERE x > 5 GROUP BY k", epsilon=1)
    assert spends(session)[2:] == [("SELECT k, SUM(x) FROM t WHERE x > 5 GROUP BY k", Fraction(1))]
    assert session.query("SELECT AVG(x) FROM t", epsilon=1, fresh=True).cost.epsilon == 1
    assert len([sql for sql, _ in spends(session) if sql.startswith("automatic")]) == 1


def test_the_range_serves_queries_with_other_limits(session: dpsql.Session) -> None:
    first = session.query("SELECT SUM(x) FROM t", epsilon=1)
    other = session.query("SELECT SUM(x) FROM t", epsilon=1, max_rows=7)
    assert other.ranges == first.ranges and other.cost.epsilon == 1
    assert len(spends(session)) == 3


def test_several_ranges_have_a_share_each_and_at_most_half_together(connect: Connect) -> None:
    columns = {**AUTO, "x": {"bounds": "auto", "share": 0.5}}
    session = connect({"t": TABLE}, {**policy(), "tables": {"t": {"unit": "id", "columns": columns}}}, epsilon=10)
    answer = session.query("SELECT SUM(x), SUM(i), COUNT(*) FROM t", epsilon=1)
    shares = [Fraction(1, 7), Fraction(5, 14)]
    assert [cost for _, cost in spends(session)] == [shares[1], shares[0], Fraction(1, 2)] or [
        cost for _, cost in spends(session)
    ] == [shares[0], shares[1], Fraction(1, 2)]
    assert answer.cost.epsilon == 1 and {r["column"] for r in answer.ranges} == {"t.x", "t.i"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t",
        "SELECT COUNT(x) FROM t WHERE x > 7",
        "SELECT REGR_COUNT(x, i) FROM t",
        "SELECT SUM(CLIP(x, 0, 500)) FROM t",
        "SELECT SUM(x) FROM t WHERE x BETWEEN 0 AND 500",
        "SELECT COUNT(DISTINCT id) FROM t",
        "SELECT SUM(x, contribution_bounds_per_group => (0, 500)) FROM t",
    ],
)
def test_a_query_that_needs_no_range_pays_for_none(session: dpsql.Session, sql: str) -> None:
    assert session.query(sql, epsilon=1).ranges == ()
    assert len(spends(session)) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x * 2) FROM t",
        "SELECT STDDEV(x) FROM t",
        "SELECT MEDIAN(x) FROM t",
        "SELECT COVAR_POP(CLIP(i, 0, 9), x) FROM t",
        "SELECT AVG(s) FROM (SELECT id, SUM(x) AS s FROM t GROUP BY id)",
        "SELECT COUNT(*) FROM (SELECT id, SUM(x) AS s FROM t GROUP BY id) WHERE s > 10",
        "SELECT SUM(a.x) FROM t AS a JOIN t AS b ON a.id = b.id",
        "SELECT SUM(y) FROM (SELECT id, x AS y FROM t UNION ALL SELECT id, i FROM t)",
    ],
)
@pytest.mark.sample(3)
def test_a_query_that_needs_a_range_gets_it(session: dpsql.Session, sql: str) -> None:
    answer = session.query(sql, epsilon=1)
    assert "t.x" in {r["column"] for r in answer.ranges}
    assert sum(cost for _, cost in spends(session)) == 1


def test_both_prices_are_reserved_at_once_or_neither(connect: Connect) -> None:
    session = connect({"t": TABLE}, policy(), epsilon=0.95)
    with pytest.raises(BudgetError):
        session.query("SELECT AVG(x) FROM t", epsilon=1)
    assert spends(session) == []


def test_under_zcdp_the_shares_are_of_rho_and_stay_within_the_querys(connect: Connect) -> None:
    whole = {"budget": {"epsilon": 3, "delta": 1e-6, "accountant": "zcdp"}, **policy()}
    with dpsql.connect(dpsql.Policy.from_dict(whole), sources={"t": TABLE}, ledger=":memory:") as session:
        asked = session.explain("SELECT COUNT(*) FROM t", epsilon=1, mechanism="gaussian").price.rho
        answer = session.query("SELECT AVG(x) FROM t", epsilon=1)
        ranged, rest = (e.cost.rho for e in session._engine.ledger.history())
        assert asked is not None and ranged is not None and rest is not None and answer.cost.rho == ranged + rest
        assert (
            asked * Fraction(999999, 1000000)
            <= ranged + rest
            <= session._engine.ledger.account.filter.conversion.rho(  # type: ignore[union-attr]  # a zcdp account has one
                Fraction(1)
            )
        )
        assert abs(ranged / asked - Fraction(1, 10)) < Fraction(1, 10**6)
        assert answer.cost.epsilon == 1 and answer.cost.delta == Fraction(1, 2 * 10**6)
        assert session.query("SELECT AVG(x) FROM t", epsilon=1).receipt.reused


def test_gaussian_noise_and_private_keys_keep_all_of_delta(connect: Connect) -> None:
    session = connect({"t": TABLE}, policy(max_groups=1), epsilon=10, delta=1e-5)
    for sql in ("SELECT id % 3, id // 5000, AVG(x) FROM t GROUP BY 1, 2", "SELECT SUM(s) FROM t"):
        answer = session.query(sql, epsilon=1, delta="1e-6", mechanism="gaussian")
        assert answer.cost.epsilon == 1 and answer.cost.delta == Fraction(1, 10**6)


def noted(session: dpsql.Session) -> Any:
    return session._engine.ledger.history()[-1].note


def test_the_ledger_notes_no_more_private_noises_than_were_drawn(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    calibrate = vars(stages)["calibrate"]

    def noticed(*given: Any) -> Any:
        drawn.append(calibrate(*given))
        return drawn[-1]

    monkeypatch.setattr(stages, "calibrate", noticed)
    session.query("SELECT MAX(x), SUM(i), COUNT(*) FROM t", epsilon=1)
    seed, found = ([Fraction(size) for _, size in recorded(stage.measured)] for stage in drawn[-2:])
    assert (len(seed), len(found)) == (3, 2)  # two with half of ε each are less private than three with a third
    assert noted(session)["noises"] == [["laplace", "7/10"]] and sum(found) <= Fraction(7, 10)


def test_the_ledger_says_of_winners_only_what_it_knows_beforehand(session: dpsql.Session) -> None:
    sql = "SELECT k FROM t WHERE x >= 1 GROUP BY k ORDER BY SUM(x) DESC LIMIT 1"
    session.query(sql, epsilon=1, max_rows=1)
    assert "chosen" not in noted(session)
    session.query(sql, epsilon=1, max_rows=1, fresh=True)
    assert noted(session)["chosen"]


@pytest.mark.parametrize(("sql", "known"), [("SELECT AVG(x) FROM t", True), ("SELECT AVG(x), MAX(i) FROM t", False)])
def test_gaussian_noises_are_noted_where_ranges_cannot_change_them(connect: Connect, sql: str, known: bool) -> None:
    session = connect({"t": TABLE}, policy(), epsilon=10, delta=1e-5)
    session.query(sql, epsilon=1, mechanism="gaussian")
    assert ("noises" in noted(session)) == known


# ---------------------------------------------------------------- what stays, and what asks again


def test_a_change_of_data_asks_again(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(
        "[budget]\nepsilon = 10\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 1\n"
        '[tables.t]\nsource = "t.parquet"\nunit = "id"\n'
        '[tables.t.columns]\nx = { bounds = "auto" }\n'
    )
    pq.write_table(TABLE, tmp_path / "t.parquet")
    with dpsql.connect(tmp_path / "policy.toml") as session:
        first = session.query("SELECT SUM(x) FROM t", epsilon=1)
    with dpsql.connect(tmp_path / "policy.toml") as session:
        assert session.query("SELECT MAX(x) FROM t", epsilon=1).ranges == first.ranges
        assert len(spends(session)) == 3
    pq.write_table(TABLE.set_column(1, "x", pa.array(TABLE["x"].to_numpy() * 2**20)), tmp_path / "t.parquet")
    assert (
        not CliRunner()
        .invoke(cli, ["budget", "--accept-data-change", "--steward", "--policy", str(tmp_path / "policy.toml")])
        .exit_code
    )
    with dpsql.connect(tmp_path / "policy.toml") as session:
        assert session.query("SELECT SUM(x) FROM t", epsilon=1).ranges[0]["high"] >= 2**20
        assert [cost for _, cost in spends(session)[3:]] == [Fraction(1, 10), Fraction(9, 10)]


def test_where_nothing_is_found_the_bounds_are_fixed_it_is_said_and_the_next_query_asks_again(connect: Connect) -> None:
    for _ in range(8):  # noise alone passes for values about once in twenty times
        session = connect({"t": TABLE.slice(0, 3)}, policy(), epsilon=10)
        answer = session.query("SELECT SUM(x) FROM t", epsilon="0.1")
        if not answer.ranges[0]["found"]:
            break
    assert answer.ranges[0]["found"] is False and (answer.ranges[0]["low"], answer.ranges[0]["high"]) == (-1, 1)
    session.query("SELECT SUM(x) FROM t", epsilon="0.1")
    assert len(spends(session)) == 4


def test_a_stored_answer_still_says_its_bounds(session: dpsql.Session) -> None:
    answer = session.query("SELECT SUM(x) FROM t", epsilon=1)
    assert session.replay(answer.receipt.id).ranges == answer.ranges
    ranged = session.replay(str(answer.ranges[0]["release"]))
    assert ranged.columns == ["bucket", "units"]


# ---------------------------------------------------------------- explain, refusals


def test_explain_says_what_would_happen_and_spends_nothing(session: dpsql.Session) -> None:
    quote = session.explain("SELECT AVG(x), COUNT(*) FROM t", epsilon=1)
    text = str(quote)
    assert "t.x is automatic and not known yet: ε = 0.1 of the price is for its range, once" in text
    assert "known once the automatic bounds are" in text and "e+1" not in text
    assert quote.price.epsilon == 1 and spends(session) == []
    session.query("SELECT AVG(x), COUNT(*) FROM t", epsilon=1)
    assert "for free" in str(session.explain("SELECT SUM(x) FROM t", epsilon=1))
    assert session.is_stored(session.explain("SELECT AVG(x), COUNT(*) FROM t", epsilon=1))


def test_a_batch_releases_the_ranges_that_it_needs_first_once_for_all_its_statements(session: dpsql.Session) -> None:
    text = "SELECT SUM(x) FROM t; SELECT COUNT(*) FROM t; SELECT k, AVG(x), MEDIAN(i) FROM t GROUP BY k"
    answers = session.batch(text, epsilon=4)
    assert [sql for sql, _ in spends(session)] == ["automatic bounds of t.i", "automatic bounds of t.x", text] or [
        sql for sql, _ in spends(session)
    ] == ["automatic bounds of t.x", "automatic bounds of t.i", text]
    assert sum(cost for _, cost in spends(session)) == 4 == answers[0].cost.epsilon
    assert {r["column"] for r in answers[0].ranges} == {"t.x", "t.i"}
    exact = float(np.sum(TABLE["x"].to_numpy()))
    assert abs(answers[0].rows[0][0] - exact) < 0.1 * exact and len(answers[2].rows) == 3
    again = session.batch(text, epsilon=4)
    assert [a.rows for a in again] == [a.rows for a in answers] and len(spends(session)) == 3


def test_an_accuracy_needs_ranges_that_are_known(session: dpsql.Session) -> None:
    with pytest.raises(PrivacyError) as refused:
        session.query("SELECT SUM(x) FROM t", accuracy="1% of range")
    assert refused.value.code == "automatic" and "SELECT AVG(x) FROM t" in str(refused.value.hint)
    assert spends(session) == []
    session.query("SELECT AVG(x) FROM t", epsilon=1)
    batch = session.batch("SELECT SUM(x) FROM t; SELECT COUNT(*) FROM t", epsilon=1)
    assert batch[0].ranges and session.query("SELECT SUM(x) FROM t", accuracy=10**9).ranges


def test_a_released_range_makes_no_keys(session: dpsql.Session) -> None:
    def refusal(sql: str) -> str:
        with pytest.raises(PrivacyError) as refused:
            session.query(sql, epsilon=1)
        return f"{refused.value.code}: {refused.value.message}"

    keys = ("SELECT x // 1000, SUM(x) FROM t GROUP BY 1", "SELECT CAST(x AS INTEGER), COUNT(*) FROM t GROUP BY 1")
    before = [refusal(sql) for sql in keys]
    session.query("SELECT AVG(x) FROM t", epsilon=1)
    assert [refusal(sql) for sql in keys] == before


def test_what_the_seed_range_refuses_no_released_range_admits(session: dpsql.Session) -> None:
    session.query("SELECT AVG(x) FROM t", epsilon=1)
    with pytest.raises(PrivacyError, match="needs a range"):
        session.query("SELECT SUM(1 / x) FROM t", epsilon=1)


@pytest.mark.parametrize(
    ("sql", "buckets"),
    [
        ("SELECT SUM(CASE WHEN i > 10 THEN 1 / i ELSE 0 END), SUM(i) FROM t", None),
        ("SELECT SUM(1 / i) FROM t WHERE i >= 100", (0, 6)),
        ("SELECT SUM(SQRT(x)) FROM t", (-50, -40)),
        ("SELECT VARIANCE(LN(x)) + SUM(s) FROM t WHERE x >= 1", (-8, -7)),
    ],
)
def test_no_released_range_refuses_what_its_seed_range_admits(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, sql: str, buckets: tuple[int, int] | None
) -> None:
    monkeypatch.setattr("dpsql.quote.bounds.covered", lambda counts, scale: buckets)
    answer = session.query(sql, epsilon=1)
    assert answer.cost.epsilon == 1 and answer.rows
    assert any(r["low"] <= -(2**63) and r["high"] >= 2**63 - 1 and r["found"] for r in answer.ranges)
    assert session.query(sql, epsilon=1, fresh=True).rows


BUCKET = (
    "SELECT CAST(CLIP(octaves, -105, 105) AS INTEGER), {} FROM (SELECT SIGN(CAST(x AS DOUBLE)) * "
    f"GREATEST(CEIL(LOG2(GREATEST(ABS(CAST(x AS DOUBLE)), {2.0**-41!r}))) - -41, 0) AS octaves, id, i FROM t "
    "WHERE ISFINITE(CAST(x AS DOUBLE))) GROUP BY 1"
)


@pytest.mark.parametrize(
    ("counted", "mechanism"),
    [
        ("COUNT(*), COUNT(i)", "laplace"),
        ("COUNT(*)", "gaussian"),
        ("AVG(CLIP(i, 0, 1))", "laplace"),
        ("SUM(CLIP(i, 0, 9))", "laplace"),
        ("COUNT(*) FILTER (WHERE id < 9)", "laplace"),
    ],
)
def test_an_analysts_own_query_over_the_same_buckets_is_not_taken_for_the_histogram(
    connect: Connect, counted: str, mechanism: str
) -> None:
    session = connect({"t": TABLE}, policy(), epsilon=10, delta=1e-5)
    session.query(BUCKET.format(counted), epsilon=1, max_rows=1, mechanism=mechanism)
    assert session.query("SELECT AVG(x) FROM t", epsilon=1).cost.epsilon == 1
    assert [sql for sql, _ in spends(session)][1:] == ["automatic bounds of t.x", "SELECT AVG(x) FROM t"]


def test_an_analysts_own_histogram_of_the_buckets_is_a_range_that_is_paid_for(session: dpsql.Session) -> None:
    session.query(BUCKET.format("COUNT(*) AS n"), epsilon=1, max_rows=1)
    assert session.query("SELECT AVG(x) FROM t", epsilon=1).ranges[0]["found"]
    assert [sql for sql, _ in spends(session)][1:] == ["SELECT AVG(x) FROM t"]


def test_only_numbers_have_automatic_bounds(connect: Connect) -> None:
    columns = {"k": {"bounds": "auto"}}
    with pytest.raises(PolicyError, match="only numbers get automatic bounds"):
        connect({"t": TABLE}, {"tables": {"t": {"unit": "id", "columns": columns}}})


def test_the_command_line_says_what_was_clipped_and_check_lists_the_columns(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    path = tmp_path / "policy.toml"
    path.write_text(
        "[budget]\nepsilon = 10\ndelta = 0\n[privacy]\nlimits_share = 0\nmax_rows = 1\n"
        '[tables.t]\nsource = "t.parquet"\nunit = "id"\n'
        '[tables.t.columns]\nx = { bounds = "auto", share = 0.25 }\n'
    )
    run = CliRunner().invoke(
        cli, ["query", "SELECT AVG(x) FROM t", "--epsilon", "1", "--format", "json", "--policy", str(path)]
    )
    assert run.exit_code == 0 and "t.x is clipped to" in run.stderr and "cost ε = 1 " in run.stderr
    receipt = json.loads(run.stdout)["receipt"]
    assert receipt["ranges"][0]["column"] == "t.x" and receipt["epsilon"] == "3/4"
    assert "x (25%): found privately" in CliRunner().invoke(cli, ["check", "--policy", str(path)]).output
    shown = CliRunner().invoke(
        cli, ["explain", "SELECT AVG(x) FROM t", "--epsilon", "1", "--json", "--policy", str(path)]
    )
    assert json.loads(shown.stdout)["automatic"][0]["known"] is True


# ---------------------------------------------------------------- the range itself


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [("DOUBLE", -40, 64), ("FLOAT", -40, 64), ("BIGINT", 0, 63), ("UTINYINT", 0, 8), ("DECIMAL(9,2)", -6, 24)],
)
def test_a_seed_covers_its_type(kind: str, first: int, last: int) -> None:
    seed = Seed.of(Type.parse(kind))
    assert (seed.first, seed.last) == (first, last)
    low, high = seed.ends(-seed.most, seed.most)
    assert (low, high) == (seed.low, seed.high)


def test_a_range_is_never_a_point_and_holds_the_values_of_its_buckets() -> None:
    seed = Seed.of(Type.parse("INTEGER"))
    assert list(seed.ends(0, 0)) == [0, 1]
    assert list(seed.ends(1, 1)) == [0, 1]  # only the value 1
    assert list(seed.ends(-1, -1)) == [-1, 0]
    assert list(seed.ends(2, 4)) == [1, 8]
    assert list(seed.ends(-3, 2)) == [-4, 2]
    assert list(seed.ends(-4, -3)) == [-8, -2]


DATA: dict[str, Callable[[int], Any]] = {
    "normal": lambda n: RANDOM.normal(0, 1000, n),
    "incomes": lambda n: RANDOM.normal(50_000, 12_000, n),
    "lognormal": lambda n: RANDOM.lognormal(8, 1, n),
    "heavy": lambda n: RANDOM.pareto(1.5, n) + 1,
    "uniform": lambda n: RANDOM.uniform(0, 100, n),
    "counts": lambda n: np.asarray(RANDOM.poisson(3, n), float),
    "mostly zero": lambda n: np.where(RANDOM.random(n) < 0.9, 0, RANDOM.lognormal(5, 1, n)),
}


@pytest.mark.parametrize("name", DATA)
def test_at_epsilon_1_the_range_covers_99_percent_of_10_000_units(name: str) -> None:
    seed, scale = Seed.of(Type.parse("DOUBLE")), Fraction(10)  # a tenth of ε = 1
    shares, outside = [], 0
    for _ in range(40):
        values = DATA[name](N)
        exponents = np.ceil(np.log2(np.maximum(np.abs(values), 2.0 ** (seed.first - 1))))
        buckets = (np.sign(values) * np.clip(exponents - seed.first + 1, 0, seed.most)).astype(int)
        noise = sampler.discrete_laplace(scale, 2 * seed.most + 1)
        counts = np.bincount(buckets + seed.most, minlength=2 * seed.most + 1) + noise
        found = covered({b - seed.most: Fraction(int(c)) for b, c in enumerate(counts)}, scale)
        assert found is not None
        low, high = map(float, seed.ends(*found))
        shares.append(np.mean((values >= low) & (values <= high)))
        outside += high > 8 * np.max(values)
    assert np.mean(shares) >= 0.99
    assert outside <= 3


def test_nothing_is_found_in_noise_alone() -> None:
    scale = Fraction(10)
    found = [
        covered({b: Fraction(int(c)) for b, c in enumerate(sampler.discrete_laplace(scale, 211))}, scale)
        for _ in range(1000)
    ]
    assert sum(f is not None for f in found) < 90  # 5% by construction
