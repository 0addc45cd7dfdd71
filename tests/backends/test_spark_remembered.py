"""A server that answered everything is remembered by its name; whatever differs has another name, or is asked again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import dpsql
from dpsql.backends.base import Deadline, engine_failed
from dpsql.backends.spark import backend, conform, remembered
from dpsql.backends.spark.probes import PROBES, SHORT
from dpsql.backends.spark.remembered import Server, is_remembered, name_of, remember
from dpsql.backends.spark.server import Connection

URL, SETTINGS = "sc://here:15002", {"spark.app.id": "app-1", "spark.sql.extensions": "none", "spark.driver.port": "1"}

BUILDS = ("4.3.0 98bc0212", "17.0.15", "17.0.15+6", "Debian")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(remembered, "version", "version of {}".format)  # the extra `spark` may be missing
    yield tmp_path / "dpsql" / "spark"


def name(url: str = URL, version: str = "4.3.0", answers: str = "[1]", **settings: str) -> str:
    stated = {**SETTINGS, **{f"spark.{key}": value for key, value in settings.items()}}
    return name_of(Server(url, version, BUILDS, stated), answers)


def test_whatever_differs_is_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [name(URL[:-1]), name(version="4.3.1"), name(answers="[2]"), name(**{"sql.extensions": "x"}), name(new="")]
    for known, value in (("PINNED", {}), ("_code", lambda: "other code")):
        with monkeypatch.context() as patch:
            patch.setattr(remembered, known, value)
            others.append(name())
    for place in range(len(BUILDS)):
        builds = (*BUILDS[:place], "another", *BUILDS[place + 1 :])
        others.append(name_of(Server(URL, "4.3.0", builds, SETTINGS), "[1]"))
    assert len({name(), *others}) == 12


def test_a_server_that_was_started_again_has_the_same_name() -> None:
    assert name(**{"app.id": "app-2", "driver.port": "2"}) == name()
    assert name(**{"local.dir": "/other"}) != name()
    assert name("local[2]", **{"local.dir": "/other"}) == name("local[2]")  # a folder of each process


def test_what_is_noted_is_remembered_and_few_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST", 3)
    for number in range(5):
        assert not is_remembered(str(number))
        remember(str(number))
        os.utime(folder / str(number), (number, number))
    assert [number for number in range(5) if is_remembered(str(number))] == [2, 3, 4]
    assert not folder.stat().st_mode & 0o077 and not (folder / "4").stat().st_mode & 0o077


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
@pytest.mark.parametrize("what", ["folder of a group", "folder of all", "link", "file of all", "folder that is a link"])
def test_a_note_that_others_may_have_written_is_passed_over(what: str, folder: Path, tmp_path: Path) -> None:
    remember("n")
    assert is_remembered("n")
    if what == "folder that is a link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif what == "link":
        (folder / "n").rename(tmp_path / "n")
        (folder / "n").symlink_to(tmp_path / "n")
    elif what == "file of all":
        (folder / "n").chmod(0o666)
    else:
        folder.chmod(0o770 if "group" in what else 0o707)
    assert not is_remembered("n")


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
def test_a_note_of_somebody_else_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    remember("n")
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: os.getuid() + 1)
        assert not is_remembered("n")
        remember("m")
    assert is_remembered("n") and not is_remembered("m")


def test_without_a_place_for_it_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    remember("n")
    assert not is_remembered("n") and not Path("not").exists()


# ---------------------------------------------------------------- who is asked what


class Asked:
    """A connection to no server, of which what it is asked is counted."""

    def __init__(self, builds: tuple[str, ...] | None = BUILDS) -> None:
        self.version, self.life, self.settings, self.failed = "4.3.0", "", dict(SETTINGS), False
        self.builds = builds


def opened(
    monkeypatch: pytest.MonkeyPatch,
    answers: Callable[..., str | None] = lambda *_: "[1]",
    builds: tuple[str, ...] | None = BUILDS,
) -> list[str]:
    """Ask a server as each opening does; gives how often it was asked everything."""
    asked = list[str]()
    monkeypatch.setattr(backend, "short_answers", answers)
    monkeypatch.setattr(backend, "conform", lambda *_: asked.append("everything"))
    connection: Any = Asked(builds)
    backend.Spark(URL, connection, (), SimpleNamespace(public=SimpleNamespace(apart=None)))
    return asked


def test_the_second_opening_asks_the_short_probe_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch) == ["everything"]
    assert opened(monkeypatch) == []


@pytest.mark.parametrize("place", range(len(BUILDS)))
def test_another_build_of_spark_or_of_java_is_asked_everything(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 56: it has the version, the settings and the short answers of the server that is remembered."""
    assert opened(monkeypatch) == ["everything"]
    other = (*BUILDS[:place], BUILDS[place] + "1", *BUILDS[place + 1 :])
    assert opened(monkeypatch, builds=other) == ["everything"]
    assert opened(monkeypatch, builds=other) == opened(monkeypatch) == []


def test_a_server_that_does_not_state_its_builds_is_asked_everything_each_time(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    assert opened(monkeypatch) == ["everything"]
    known = sorted(folder.iterdir())
    for _ in range(2):
        assert opened(monkeypatch, builds=None) == ["everything"]
    assert sorted(folder.iterdir()) == known


class Stating(Connection):
    """A connection to no server, which states these builds."""

    def __init__(self, stated: list[str | None] | None, *, failed: bool = False) -> None:
        self.stated, self.failed = stated, failed

    def arrow(self, sql: str, parameters: Mapping[str, str], until: Deadline | None = None) -> Any:
        if self.stated is None:
            raise engine_failed()
        return pa.table({str(i): pa.array([text], pa.string()) for i, text in enumerate(self.stated)})


def test_builds_are_there_where_all_of_them_are_stated() -> None:
    assert Stating([*BUILDS]).builds == BUILDS
    for place in range(len(BUILDS)):
        for lacking in (None, "", "null"):
            assert Stating([*BUILDS[:place], lacking, *BUILDS[place + 1 :]]).builds is None
    assert Stating(None).builds is None  # the server forbids them
    with pytest.raises(dpsql.DataError):
        assert Stating(None, failed=True).builds  # it is gone


def test_a_look_alike_behind_the_same_address_is_asked_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 56: it states the same version and the same settings."""
    assert opened(monkeypatch, lambda *_: "[1]") == ["everything"]
    assert opened(monkeypatch, lambda *_: "[2]") == ["everything"]  # other answers
    for _ in range(2):  # answers that DuckDB doesn't give: never noted
        assert opened(monkeypatch, lambda *_: None) == ["everything"]


def test_a_server_that_is_refused_is_not_remembered(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def refuse(*_: object) -> None:
        raise dpsql.DataError("differs", code="spark-differs")

    monkeypatch.setattr(backend, "short_answers", lambda *_: "[1]")
    monkeypatch.setattr(backend, "conform", refuse)
    for _ in range(2):
        connection: Any = Asked()
        with pytest.raises(dpsql.DataError):
            backend.Spark(URL, connection, (), SimpleNamespace(public=SimpleNamespace(apart=None)))
    assert not folder.exists()


def test_the_short_probe_has_one_of_each_family_and_what_is_substituted() -> None:
    assert SHORT.keys() == PROBES.keys()
    assert all(set(texts) <= set(PROBES[about]) and len(texts) == 1 for about, texts in SHORT.items())
    assert any("${env:HOME}" in texts[0] for texts in SHORT.values())


@pytest.mark.parametrize("failed", [False, True])
def test_a_server_that_can_not_be_asked_has_no_short_answers(failed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that doesn't know a function is asked everything, which says what is wrong; one that is gone isn't."""

    def fail(*_: object) -> None:
        raise engine_failed()

    monkeypatch.setattr(conform, "uploaded", lambda *_, **named: SimpleNamespace(view="v"))
    monkeypatch.setattr(conform, "_asked", fail)
    connection: Any = SimpleNamespace(failed=failed, drop=lambda view: None)
    if failed:
        with pytest.raises(dpsql.DataError):
            conform.short_answers(connection, lambda *_: None)
    else:
        assert conform.short_answers(connection, lambda *_: None) is None
