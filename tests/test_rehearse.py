"""Before payment: what can't be run whatever is measured is refused, and nothing else ends in a foreign exception."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support import WHOLE

import dpsql
from dpsql.aggregates.noisy import Noisy
from dpsql.answer import finish as finishing
from dpsql.answer import rehearse
from dpsql.answer.stand_ins import stand_ins
from dpsql.core.errors import EngineError
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.policy.model import Policy
from dpsql.quote.model import Quote
from dpsql.sql.functions import FUNCTIONS


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    people = pa.table({"uid": list(range(60)), "n": [1, 2, 3] * 20, "k": ["a", "b"] * 30, "s": ["x", "y"] * 30})
    policy = Policy.from_dict(
        {
            "budget": {"epsilon": 10**9, "delta": 0.0001},
            "privacy": {"limits_share": 0, "max_rows": 1, "max_groups": 1},
            "tables": {"t": {"unit": "uid", "columns": {"n": {"min": 0, "max": 10}, "k": {"values": ["a", "b"]}}}},
        },
        sources={"t": people},
    )
    with dpsql.connect(policy, sources={"t": people}, ledger=":memory:") as opened:
        yield opened


def refused_or_answered(session: dpsql.Session, sql: str) -> str:
    """Which of the two; never paid for and not answered."""
    before = session.budget.spent
    try:
        session.query(sql, epsilon=1)
        return "answered"
    except dpsql.Error as error:
        assert session.budget.spent == before, f"paid, and then: {error}\n{sql}"
        assert error.code not in ("post-processing", "engine"), f"{error}\n{sql}"
        assert str(error)
        return "refused"


LITERALS = (
    "'HOME'", "''", "'2020-01-01'", "'(('", "-1", "1e300", "99999999999999999999", "NULL", "DATE '2020-01-01'",
    "'nan'", "INTERVAL 1 DAY",
)  # fmt: skip
NAMES = [n for f in FUNCTIONS for n in f.names if n[0].isalpha() and n.replace("_", "").isalnum()]
SIGNS = [n for f in FUNCTIONS for n in f.names if not n[0].isalpha() and n != "::"] + ["LIKE", "ILIKE", "SIMILAR TO"]
RESULT = "WITH r AS (SELECT k, COUNT(*) AS c, DATE '2020-01-01' AS d FROM t GROUP BY k) SELECT {} AS v FROM r"


def forms() -> Iterator[str]:
    for name, x in itertools.product(NAMES, LITERALS):
        yield from (f"{name}({x})", f"{name}(c, {x})", f"{name}(k, {x})")
    for sign, x in itertools.product(SIGNS, LITERALS):
        yield from (f"c {sign} {x}", f"{x} {sign} k", f"d {sign} {x}")
    for x in LITERALS:
        yield from (f"CASE WHEN c > 0 THEN {x} ELSE c END", f"c BETWEEN {x} AND {x}", f"c IN ({x}, 1)", f"k[{x}]")
        yield from (f"CAST({x} AS {kind})" for kind in ("INTEGER", "DATE", "BOOLEAN", "UUID", "TIMESTAMP"))


FORMS = sorted(set(forms()))


@pytest.mark.sample(11)
@pytest.mark.parametrize("part", range(8))
def test_no_function_of_results_fails_after_payment_on_its_constants(session: dpsql.Session, part: int) -> None:
    some = FORMS[part::8][:: 1 if os.environ.get(WHOLE) else 3]  # all of them with --whole
    found = {refused_or_answered(session, RESULT.format(form)) for form in some}
    assert found == {"answered", "refused"}


def test_a_constant_that_no_number_can_be_made_of_is_refused_with_what_is_wrong(session: dpsql.Session) -> None:
    before = session.budget.spent
    for ask in (session.query, session.explain):
        with pytest.raises(dpsql.SQLError, match="HOME") as refused:
            ask(RESULT.format("acos('HOME')"), epsilon=1)
        assert refused.value.code == "duckdb"
    assert session.budget.spent == before


def test_a_batch_is_refused_before_payment_for_one_statement_that_fails_on_its_constants(
    session: dpsql.Session,
) -> None:
    before = session.budget.spent
    sql = "SELECT k, COUNT(*) + 1 FROM t GROUP BY k; " + RESULT.format("acos('HOME')")
    for ask in (session.batch, session.explain_batch):
        with pytest.raises(dpsql.SQLError, match="HOME"):
            ask(sql, epsilon=1)
    assert session.budget.spent == before
    assert len(session.batch(sql.replace("'HOME'", "'0.5'"), epsilon=1)) == 2


def nested(n: int) -> dict[str, str]:
    ctes = ["c0 AS (SELECT * FROM t)", *(f"c{i} AS (SELECT * FROM c{i - 1})" for i in range(1, n))]
    sums = ["c0 AS (SELECT COUNT(*) AS x FROM t)", *(f"c{i} AS (SELECT x + 1 AS x FROM c{i - 1})" for i in range(1, n))]
    rows = "SELECT COUNT(*) FROM t WHERE "
    return {
        "CTEs": f"WITH {', '.join(ctes)} SELECT COUNT(*) FROM c{n - 1}",
        "CTEs over results": f"WITH {', '.join(sums)} SELECT x FROM c{n - 1}",
        "parentheses": rows + "(" * n + "n = 1" + ")" * n,
        "parentheses around a query": "(" * n + "SELECT COUNT(*) FROM t" + ")" * n,
        "AND": rows + " AND ".join(["n = 1"] * n),
        "OR and AND": rows + " OR n = 2 AND ".join(["n = 1"] * n),
        "NOT": rows + "NOT " * n + "n = 1",
        "minus": "SELECT " + " - ".join(["COUNT(*)"] * n) + " FROM t",
        "UNION ALL": "SELECT COUNT(*) FROM (" + " UNION ALL ".join(["SELECT uid FROM t"] * n) + ") q",
        "INTERSECT": "SELECT COUNT(*) FROM (" + " INTERSECT ".join(["SELECT uid FROM t"] * min(n, 300)) + ") q",
        "CASE": "SELECT SUM(" + "CASE WHEN n = 1 THEN 1 ELSE " * n + "0" + " END" * n + ") FROM t",
        "calls": rows + "upper(" * n + "s" + ")" * n + " = 'A'",
        "subqueries": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * n + "t" + ") q" * n,
        "joins": "SELECT COUNT(*) FROM t " + " ".join(f"JOIN t t{i} USING (uid)" for i in range(min(n, 120))),
        "scalar subqueries": rows + "n > " + "(SELECT AVG(n) FROM t WHERE n > " * n + "0" + ")" * n,
    }


@pytest.mark.sample(12)
@pytest.mark.parametrize("kind", nested(2))
@pytest.mark.parametrize("n", [50, 300, 2000])
def test_a_query_of_any_depth_is_answered_or_refused_before_payment(session: dpsql.Session, kind: str, n: int) -> None:
    refused_or_answered(session, nested(n)[kind])


def test_three_hundred_ctes_are_refused_as_too_deep(session: dpsql.Session) -> None:
    with pytest.raises(dpsql.SQLError, match="nested too deeply") as refused:
        session.explain(nested(300)["CTEs"], epsilon=1)
    assert refused.value.code == "too-deep"
    assert refused.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "\ud800",
        "SELECT COUNT(*) FROM t WHERE s = '\udcff'",
        'SELECT COUNT(*) AS "\udcff" FROM t',
        "SELECT COUNT(*) FROM t -- \udcff",
    ],
)
def test_text_that_is_not_unicode_is_refused_and_shown_without_its_bytes(session: dpsql.Session, sql: str) -> None:
    with pytest.raises(dpsql.SQLError, match="UTF-8") as refused:
        session.explain(sql, epsilon=1)
    assert refused.value.span is not None
    str(refused.value).encode()  # can be written


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM secret",
        "WITH x AS (SELECT 1) DELETE FROM secret",
        "WITH x AS (DELETE FROM secret RETURNING *) SELECT COUNT(*) FROM x",
        "SELECT COUNT(*) FROM t WHERE EXISTS (DELETE FROM secret)",
        "SELECT COUNT(*) FROM (DELETE FROM secret)",
        "(DELETE FROM secret)",
        "DROP TABLE t",
        "WITH x AS (DROP TABLE t) SELECT COUNT(*) FROM x",
        "SELECT COUNT(*) FROM (SUMMARIZE t)",
        "COPY t TO 'x'",
        "SELECT \x00",
        "SELECT COUNT(*) FROM t WHERE EXISTS (n)",
        "SELECT EXISTS (n) FILTER (WHERE s LIKE 'a%') / COUNT(*) FROM t",
    ],
)
def test_a_statement_that_is_no_query_is_refused_wherever_it_stands(session: dpsql.Session, sql: str) -> None:
    for ask in (session.explain, session.query, session.batch, session.explain_batch):
        with pytest.raises(dpsql.SQLError):
            ask(sql, epsilon=1)


# ---------------------------------------------------------------- the whole way


def failing(*given: object, **named: object) -> str:
    raise EngineError("Made Up Error: it can't be shown")


@pytest.mark.parametrize("step", ["finish", "encode", "html_table"])
def test_what_fails_on_the_way_to_a_rendered_answer_is_refused_before_payment(
    session: dpsql.Session, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before, sql = session.budget.spent, f"SELECT k, AVG(n) AS {step} FROM t GROUP BY k"
    with monkeypatch.context() as broken:
        broken.setattr(f"dpsql.answer.rehearse.{step}", failing)
        for ask in (session.query, session.explain):
            with pytest.raises(dpsql.SQLError, match="it can't be shown"):
                ask(sql, epsilon=1)
    assert session.budget.spent == before
    assert session.query(sql, epsilon=1).rows


def test_an_answer_of_one_shape_is_rehearsed_once(session: dpsql.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsed: list[str] = []
    real = finishing.finish

    def counting(index: int, quote: Quote, *rest: Any, **named: Any) -> Any:
        rehearsed.append(quote.text)
        return real(index, quote, *rest, **named)

    monkeypatch.setattr(rehearse, "finish", counting)
    sql = "SELECT k, AVG(n) AS once FROM t WHERE s = '{}' GROUP BY k"
    for n, epsilon in (("x", 1), ("x", 2), ("y", 1)):
        session.explain(sql.format(n), epsilon=epsilon)
    assert 0 < len(rehearsed) <= 3 and len(set(rehearsed)) == 1
    session.explain(sql.format("x").replace("AVG(n)", "SUM(n)"), epsilon=1)
    assert len(set(rehearsed)) == 2


def test_stand_ins_are_empty_and_far_off_too(session: dpsql.Session) -> None:
    quote = session.explain("SELECT s, COUNT(*), SUM(n) FROM t GROUP BY s", epsilon=1, delta=1e-6)
    public = session._engine.public
    tables = [known[quote.main].noisy[0] for known in stand_ins(quote, public)]
    assert all(isinstance(one, Noisy) for one in tables)
    counts = [one.count for one in tables if isinstance(one, Noisy)]
    assert counts == [2, 0, 2]  # a key and NULL, or no key at all
    numbers = [
        n for one in tables if isinstance(one, Noisy) for group in one.columns for c in group for n in c.tolist()
    ]
    widths = [m.noise.width for m in quote.steps[0].measurements if not isinstance(m.noise, NoisyMax)]
    assert max(numbers) > 50 * min(widths) and min(numbers) < -50 * min(widths)


# ---------------------------------------------------------------- ranges that no float likes

RANGES = ((-1e300, 1e300), (-9.9e307, 9.9e307), (9e307, 9.5e307), (-1e-300, 1e-300), (0, 5e-324), (7, 7), (0, 0))
AGGREGATES = (
    "AVG(x), COUNT(*)", "SUM(x)", "AVG(x)", "VAR_POP(x)", "STDDEV(x)", "MIN(x)", "MEDIAN(x)", "GEOMEAN(x)",
    "SKEWNESS(x)", "KURTOSIS(x)", "CORR(x, x)", "COVAR_POP(x, x)", "REGR_SLOPE(x, x)", "SUM(x * x)", "AVG(exp(x))",
    "SUM(1 / x)", "SUM(x / 1e-300)", "COUNT(DISTINCT x)", "SUM(x), AVG(x), VAR_POP(x)",
)  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
def test_aggregates_over_extreme_ranges_are_answered_or_refused(low: float, high: float, accountant: str) -> None:
    rows = pa.table({"uid": list(range(20)), "x": pa.array([low, high, None, low] * 5, pa.float64())})
    policy = Policy.from_dict(
        {
            "budget": {"epsilon": 10**6, "delta": 1e-6, "accountant": accountant},
            "privacy": {"limits_share": 0, "max_rows": 2, "max_groups": 2},
            "tables": {"t": {"unit": "uid", "columns": {"x": {"min": low, "max": high}}}},
        },
        sources={"t": rows},
    )
    with dpsql.connect(policy, sources={"t": rows}, ledger=":memory:") as session:
        for aggregate in AGGREGATES:
            sql = f"SELECT {aggregate} FROM t"
            try:
                str(session.explain(sql, epsilon=1))
            except dpsql.Error as error:
                assert error.code != "engine"
                continue
            answer = session.query(sql, epsilon=1)
            assert str(answer) and answer.intervals()


def test_keys_come_from_a_column_that_there_is() -> None:
    people = pa.table({"uid": [1, 2], "origin": ["AAA", "BBB"], "n": [1, 2]})
    airports = pa.table({"faa": ["AAA", "BBB"], "name": ["A", "B"]})
    sources = {"flights": people, "airports": airports}

    def opened(column: str, target: str) -> dpsql.Session:
        policy = {
            "budget": {"epsilon": 10, "delta": 0},
            "privacy": {"limits_share": 0, "max_rows": 1, "max_groups": 1},
            "tables": {
                "flights": {"unit": "uid", "columns": {column: {"references": target}}},
                "airports": {"public": True},
            },
        }
        return dpsql.connect(Policy.from_dict(policy, sources=sources), sources=sources, ledger=":memory:")

    with pytest.raises(
        dpsql.PolicyError, match=r"flights\.columns\.origin\.references: airports has no column fa"
    ) as no:
        opened("origin", "airports.fa")
    assert no.value.hint == "did you mean airports.faa?"
    with opened("n", "airports.name") as session:  # no name is a number: there are no keys but NULL
        assert [row[0] for row in session.query("SELECT n, COUNT(*) FROM flights GROUP BY n", epsilon=1).rows] == [None]
