"""Planning makes of these queries what it made before it was rebuilt: prices, noise, statements, keys of releases.

A canonical text that changes makes stored releases unfindable, and paid for again. The file was written by
`python -m tests.baseline --update`; where a change is meant, the commit says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from baseline.cases import SUITES, Suite
from baseline.compare import digest_of, read
from baseline.record import TIMES, recorded

SAMPLE = 60
"""Of so many cases one is compared; with --whole all of them."""


@pytest.mark.parametrize("suite", SUITES, ids=[suite.name for suite in SUITES])
def test_a_query_is_planned_as_before(suite: Suite, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    known = read()
    step = 1 if request.config.getoption("--whole") else SAMPLE
    different = []
    with suite.opened(tmp_path) as session:
        for title, (sql, options) in list(suite.queries.items())[::step]:
            name = f"{suite.name}: {title}"
            texts = recorded(session, name, sql, options)
            different += [
                f"{name}, {time}"
                for time, digest in zip(TIMES, known[name], strict=True)
                if digest_of(texts[time]) != digest
            ]
    assert not different, f"python -m tests.baseline --suite '{suite.name}' --dump FOLDER shows them whole"


def test_the_baseline_has_every_case_once() -> None:
    names = [f"{suite.name}: {title}" for suite in SUITES for title in suite.queries]
    assert sorted(names) == sorted(read())
