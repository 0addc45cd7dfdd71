"""kill -9 at every step, and fifty processes for the last ε: spent is never less than what was released."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import charge

from dpsql.accounting.ledger import Account, Ledger
from dpsql.core.cost import Cost

DRIVER = Path(__file__).with_name("crash_driver.py")
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork and no kill -9 here")

POLICY = """
[budget]
epsilon = 10
delta = 0
[tables.t]
source = "t.parquet"
unit = "row"
[tables.t.columns]
k = { values = ["a", "b"] }
v = { min = 0, max = 10 }
"""


@posix
def test_kill_9_at_any_step_never_leaves_less_spent_than_released(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """--whole: 500 times; otherwise a sample of the steps."""
    trials = 500 if pytestconfig.getoption("--whole") else 9
    pq.write_table(pa.table({"k": ["a", "b"] * 10, "v": list(range(20))}), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path), str(trials)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    assert found["killed"] == trials
    assert found["spends"] >= found["reads"] >= found["answers"] and found["spends"] >= found["released"]
    assert found["reads"] > 1 and found["spends"] > found["released"]  # some died before, some between, some after


ROW = '{"adjacency":"add_remove","tables":{"t":{"unit":"row"}}}'
FIFTY = """
import os, sys
from fractions import Fraction
from dpsql.core.cost import Cost
from dpsql.accounting.ledger import Account, Ledger, Spend
from dpsql.core.errors import BudgetError
account = Account(Fraction(1), Fraction(1, 10**6), sys.argv[2], sys.argv[3])
price = Cost(Fraction(1, 10)) if sys.argv[2] == "basic" else Cost(Fraction(1, 10), rho=account.total.rho / 10)
ready, go = os.pipe(), os.pipe()
children = []
for _ in range(50):
    child = os.fork()
    if child == 0:
        os.close(go[1])
        os.write(ready[1], b"x")
        os.read(go[0], 1)  # ends for all at once, when the parent closes its side
        try:
            with Ledger(sys.argv[1], account) as ledger:
                _, (receipt,) = ledger.reserve(lambda: None, lambda _: [Spend(price, {})])
                ledger.record(receipt, [])
        except BudgetError:
            os._exit(4)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    children.append(child)
waiting = 0
while waiting < 50:
    waiting += len(os.read(ready[0], 50))
os.close(go[0])
os.close(go[1])
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(codes.count(0), codes.count(4))
"""


@posix
@pytest.mark.parametrize("accountant", ["basic", "zcdp"])
def test_fifty_processes_at_a_barrier_spend_the_last_epsilon_once(accountant: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    account = Account(Fraction(1), Fraction(1, 10**6), accountant, ROW)
    whole = account.total.rho
    tenth = Cost(Fraction(1, 10), rho=None if whole is None else whole / 10)
    with Ledger(path, account) as ledger:
        for _ in range(9):
            charge(ledger, tenth, {})
    done = subprocess.run(
        [sys.executable, "-c", FIFTY, str(path), accountant, ROW], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.split() == ["1", "49"], done.stdout + done.stderr
    with Ledger(path, account) as ledger:
        assert len(ledger.history()) == 10
        spent = ledger.balance.spent
        assert spent.epsilon == 1 and spent.rho == whole


SABOTAGE = """
import runpy, sys
from dataclasses import replace
from dpsql.accounting.account import Receipt
from dpsql.accounting.ledger import Ledger
reserve, record, asked = Ledger.reserve, Ledger.record, []
def later(self, look, spends, **named):
    asked.append((look, spends))
    return look(), [Receipt("0" * 32, "", spend.cost, "reserved") for spend in spends(look())]
def now(self, receipt, kept):
    return record(self, reserve(self, *asked.pop())[1][0], kept)
Ledger.reserve, Ledger.record = later, now
Ledger.answered = lambda *_: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@posix
@pytest.mark.long
def test_the_harness_notices_rows_that_were_read_before_they_were_paid_for(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a", "b"] * 10, "v": list(range(20))}), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    done = subprocess.run(
        [sys.executable, "-c", SABOTAGE, str(DRIVER), str(tmp_path), "25"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "rows were read that nobody paid for" in done.stderr
