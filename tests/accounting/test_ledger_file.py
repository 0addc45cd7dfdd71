"""The file under the account: made whole or not at all, never silently made anew."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import charge

from dpsql.accounting import store
from dpsql.accounting.ledger import Account, Ledger
from dpsql.core.cost import Cost
from dpsql.core.errors import Error, LedgerError

ACCOUNT = Account(Fraction(1), Fraction(0), "basic", '{"adjacency":"add_remove"}')


def make(path: Path, spends: int = 3) -> Path:
    with Ledger(path, ACCOUNT) as ledger:
        for _ in range(spends):
            charge(ledger, Cost(Fraction(1, 10)), {"sql": "SELECT COUNT(*) FROM t"})
    return path


def refusal(path: Path) -> LedgerError:
    with pytest.raises(LedgerError) as refused:
        Ledger(path, ACCOUNT)
    assert refused.value.hint
    assert refused.value.__cause__ is None
    return refused.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


def test_only_the_owner_can_read_a_ledger(path: Path) -> None:
    make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(0)), {})
        for beside in path.parent.iterdir():
            assert stat.S_IMODE(beside.stat().st_mode) == 0o600


def test_a_spend_is_synced_to_the_disk_and_in_the_main_file(path: Path, tmp_path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        connection = ledger._store._connection
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        ledger.record(charge(ledger, Cost(Fraction(1, 20)), {}), [])
        charge(ledger, Cost(Fraction(1, 20)), {})
        alone = tmp_path / "copy.sqlite"
        shutil.copy(path, alone)
        shutil.copy(f"{path}.key", f"{alone}.key")
    with Ledger(alone, ACCOUNT) as copy:
        assert copy.balance.spent.epsilon == Fraction(1, 10)


def test_a_new_ledger_leaves_nothing_but_its_key_behind(path: Path) -> None:
    make(path)
    assert set(path.parent.iterdir()) == {path, Path(f"{path}.key")}


def test_a_crash_during_creation_leaves_no_ledger_under_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", crash)
    with pytest.raises(KeyboardInterrupt):
        Ledger(path, ACCOUNT)
    assert list(path.parent.iterdir()) == []


def test_two_creators_end_up_with_one_ledger(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def other_first(source: Path, target: Path) -> None:
        if target == path:
            monkeypatch.setattr(os, "link", link)
            make(path)
        link(source, target)

    monkeypatch.setattr(os, "link", other_first)
    with Ledger(path, ACCOUNT) as ledger:
        assert len(ledger.history()) == 3


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda p: p.write_bytes(b""), "ledger-empty"),
        (lambda p: p.write_bytes(b"epsilon,delta\n1,0\n" * 100), "ledger-damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), "ledger-damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[:-4096]), "ledger-damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[:50]), "ledger-damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[:8192] + b"\xff" * (p.stat().st_size - 8192)), "ledger-damaged"),
    ],
    ids=["empty", "not-sqlite", "half", "last-page", "header", "overwritten"],
)
def test_a_damaged_ledger_is_refused_and_left_as_it_is(path: Path, damage: Callable[[Path], object], code: str) -> None:
    make(path)
    damage(path)
    before = path.read_bytes()
    assert refusal(path).code == code
    assert path.read_bytes() == before


@pytest.mark.parametrize("spends", [3, 60])
def test_no_truncation_lets_a_ledger_forget_a_spend(spends: int, tmp_path: Path) -> None:
    """A cut may only take bytes that SQLite never used; all else is refused."""
    with Ledger(tmp_path / "whole", ACCOUNT) as ledger:
        for number in range(spends):
            charge(ledger, Cost(Fraction(1, 100)), {"sql": f"SELECT {number} " + "x" * 500})
    whole = (tmp_path / "whole").read_bytes()
    cut = tmp_path / "cut"
    shutil.copy(tmp_path / "whole.key", tmp_path / "cut.key")
    for size in [*range(0, len(whole), 1021), *range(len(whole) - 4096, len(whole), 97)]:
        cut.write_bytes(whole[:size])
        try:
            with Ledger(cut, ACCOUNT) as ledger:
                assert ledger.balance.spent == Cost(Fraction(spends, 100))
                assert size > len(whole) - 4096
        except LedgerError as error:
            assert error.code in ("ledger-damaged", "ledger-empty")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_changes_no_sum_or_is_refused_with_an_error_of_ours(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    flipped = make(tmp_path_factory.mktemp("flip") / "l.sqlite")
    whole = bytearray(flipped.read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    flipped.write_bytes(whole)
    try:
        with Ledger(flipped, ACCOUNT) as ledger:
            assert ledger.balance.spent == Cost(Fraction(3, 10))
            charge(ledger, Cost(Fraction(1, 10)), {})
            ledger.history()
    except Error as error:
        assert error.code and error.hint


CHANGES = [
    """UPDATE event SET body = replace(body, '"epsilon":"1"', '"epsilon":"9"') WHERE kind = 'account'""",
    "UPDATE event SET body = '{' WHERE kind = 'account'",
    "UPDATE event SET body = x'00' WHERE kind = 'account'",
    "UPDATE event SET time = '2020-01-01' WHERE kind = 'account'",
    "DELETE FROM event WHERE kind = 'account'",
    'UPDATE event SET note = \'{"sql": "SELECT 2"}\' WHERE seq = 3',
    """UPDATE event SET body = replace(body, '"analyst":""', '"analyst":"ada"') WHERE seq = 5""",
    "UPDATE event SET seq = -seq WHERE seq > 3; UPDATE event SET seq = 9 + seq WHERE seq < 0",
    "UPDATE event SET kind = 'key' WHERE seq = 5",
    "UPDATE event SET receipt = 'x' WHERE seq = 5",
    "UPDATE event SET link = x'00' WHERE seq = 5",
    "DELETE FROM event WHERE seq = 4",
    "DELETE FROM event WHERE seq = 5",
    "DELETE FROM event WHERE seq = 5; UPDATE head SET count = 4, link = (SELECT link FROM event WHERE seq = 4)",
    "DELETE FROM event",
    "UPDATE event SET body = replace(body, '1/10', '-1') WHERE kind = 'spend'",
    "UPDATE event SET body = replace(body, '1/10', '1/90') WHERE seq = 4",
    "INSERT INTO event SELECT 6, kind, time, 'x', body, note, link FROM event WHERE seq = 5",
    "DELETE FROM head",
    "UPDATE head SET count = 4",
    "UPDATE head SET count = 'many'",
    "UPDATE head SET tag = x'00'",
    "DELETE FROM secret",
    "UPDATE secret SET wrapped = zeroblob(32)",
    "INSERT INTO secret SELECT * FROM secret",
    "INSERT INTO stored VALUES (1, 'x', 'release', x'00', x'00', '{}', x'00')",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_ledger_that_was_edited_is_refused(path: Path, change: str) -> None:
    edit(make(path), f"DROP TRIGGER event_is_never_changed; DROP TRIGGER event_is_never_deleted; {change}; {TRIGGERS}")
    assert refusal(path).code == "ledger-damaged"


TRIGGERS = store.SCHEMA[store.SCHEMA.index("CREATE TRIGGER") :]


@pytest.mark.parametrize(
    "change",
    [
        "DROP TRIGGER event_is_never_changed",
        "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM file; END",
        "CREATE TRIGGER sqlitex AFTER INSERT ON event BEGIN DELETE FROM file; END",
        "CREATE TRIGGER sqlite1t BEFORE INSERT ON event BEGIN SELECT RAISE(IGNORE); END",
        "CREATE VIEW v AS SELECT 1",
        "DROP TABLE claim",
        "PRAGMA journal_mode = DELETE",
    ],
)
def test_a_ledger_of_another_shape_is_refused(path: Path, change: str) -> None:
    edit(make(path), change)
    assert refusal(path).code == "ledger-damaged"


def test_a_ledger_that_gets_another_shape_while_it_is_open_takes_no_spend(path: Path) -> None:
    """By such a trigger a spend would be taken without being written."""
    make(path)
    with Ledger(path, ACCOUNT) as ledger:
        for table in ("event", "head"):
            edit(path, f"CREATE TRIGGER t_{table} BEFORE INSERT ON {table} BEGIN SELECT RAISE(IGNORE); END")
        with pytest.raises(LedgerError) as error:
            charge(ledger, Cost(Fraction(1, 10)), {})
        assert error.value.code == "ledger-damaged"


def test_what_analyze_leaves_is_no_other_shape(path: Path) -> None:
    edit(make(path), "ANALYZE")
    Ledger(path, ACCOUNT).close()


@pytest.mark.parametrize("change", ["DELETE FROM event", "UPDATE event SET body = ''", "UPDATE event SET link = x'00'"])
def test_the_file_itself_refuses_refunds(path: Path, change: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        edit(make(path), change)


def edit(path: Path, change: str) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(change)
    finally:
        connection.close()


def test_a_ledger_of_a_newer_format_is_refused(path: Path) -> None:
    edit(make(path), "PRAGMA user_version = 4")
    error = refusal(path)
    assert error.code == "ledger-version" and "upgrade" in (error.hint or "")


@pytest.mark.parametrize("format", [1, 2])
def test_a_ledger_of_an_older_format_is_refused_and_left_as_it_is(path: Path, format: int) -> None:
    edit(make(path), f"PRAGMA user_version = {format}")
    whole = path.read_bytes()
    error = refusal(path)
    assert error.code == "ledger-version" and "use the version that did" in (error.hint or "")
    assert path.read_bytes() == whole


def test_another_programs_database_is_refused(path: Path) -> None:
    edit(path, "CREATE TABLE t (a)")
    assert refusal(path).code == "not-a-ledger"


def test_a_folder_is_refused(path: Path) -> None:
    path.mkdir()
    assert refusal(path).code == "ledger-unwritable"


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere" / "l.sqlite").code == "ledger-unwritable"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root can't write")
def test_a_folder_that_cannot_be_written_is_refused() -> None:
    assert refusal(Path("/proc/l.sqlite")).code == "ledger-unwritable"


def test_a_read_only_ledger_can_spend_nothing(path: Path) -> None:
    make(path).chmod(0o400)
    if os.access(path, os.W_OK):
        pytest.skip("this user may write everything")
    with pytest.raises(LedgerError) as refused, Ledger(path, ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(1, 10)), {})
    assert refused.value.code == "ledger-unwritable"


def test_a_log_without_its_ledger_is_not_replayed_into_a_new_one(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        charge(ledger, Cost(Fraction(1, 10)), {})
        log = Path(f"{path}-wal").read_bytes()
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)
    assert refusal(path).code == "ledger-incomplete"
    assert not path.exists()


def test_a_ledger_that_vanishes_in_use_is_noticed(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        make(path.with_name("fresh")).replace(path)  # another account under the same name
        with pytest.raises(LedgerError) as refused:
            charge(ledger, Cost(Fraction(1, 10)), {})
        assert refused.value.code == "ledger-moved"


def test_a_busy_ledger_is_waited_for_and_then_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.1)
    with Ledger(path, ACCOUNT) as one, Ledger(path, ACCOUNT) as two:
        with one._store.transaction(), pytest.raises(LedgerError) as refused:
            charge(two, Cost(Fraction(1, 10)), {})
        assert refused.value.code == "ledger-busy"
        charge(two, Cost(Fraction(1, 10)), {})


def test_a_full_disk_is_a_refusal_and_the_ledger_lives_on(path: Path) -> None:
    with Ledger(path, ACCOUNT) as ledger:
        (pages,) = ledger._store._connection.execute("PRAGMA page_count").fetchone()
        ledger._store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerError) as refused:
            charge(ledger, Cost(Fraction(1, 10)), {"sql": "x" * 100_000})
        assert refused.value.code == "ledger-disk"
        assert ledger.balance.spent.epsilon == 0
        charge(ledger, Cost(Fraction(1, 10)), {})


def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = Ledger(path, ACCOUNT)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError) as refused:
        charge(ledger, Cost(Fraction(1, 10)), {})
    assert refused.value.code == "ledger-closed"


def test_odd_file_names_work(tmp_path: Path) -> None:
    for name in ("a b.sqlite", "50%?mode=memory#x.sqlite", "ü'\".sqlite"):
        make(tmp_path / name)
        with Ledger(tmp_path / name, ACCOUNT) as ledger:
            assert len(ledger.history()) == 3
