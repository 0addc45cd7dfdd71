"""Our cheap frozen dataclasses do what the standard ones do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: tuple[str, ...] = ()
    note: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Other:
    x: int
    y: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclass(frozen=True, slots=True)
class Named:
    listed: list[int] = field(default_factory=list)

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    def __hash__(self) -> int:
        return 7


@dataclass(frozen=True, slots=True, eq=False)
class Single:
    x: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    size: int = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Standard:
    x: int
    y: tuple[str, ...] = ()
    note: str = field(default="", compare=False)


def test_equal_where_the_compared_fields_are_and_only_within_a_class() -> None:
    assert Point(1, ("a",), "one") == Point(1, ("a",), "two") != Point(2, ("a",))
    other: object = Other(1)
    assert Point(1) != other
    assert len({Point(1), Point(1, note="again"), Point(2)}) == 2
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())
    assert Single(1) != Single(1) and len({Single(1), Single(1)}) == 2
    assert Named() == 3 and hash(Named()) == 7


def test_nothing_can_be_assigned_added_or_deleted_later() -> None:
    point: Any = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 2
    with pytest.raises(FrozenInstanceError):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 2
    assert point == Point(1)


def test_it_looks_replaces_and_copies_like_a_standard_one() -> None:
    point, standard = Point(1, ("a",), "n"), Standard(1, ("a",), "n")
    assert repr(point) == repr(standard).replace("Standard", "Point")
    assert repr(Named()) == "own" and Named().listed == [] and Options(size=4).size == 4
    assert replace(point, x=5) == Point(5, ("a",))
    assert [f.name for f in fields(point)] == [f.name for f in fields(standard)]
    for again in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert again == point and again.note == "n" and type(again) is Point
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    match point:
        case Point(x, y):
            assert (x, y) == (1, ("a",))


@dataclass(frozen=True, slots=True)
class Hiding:
    x: list[int] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    set_x: int = 1
    of_x: int = 2


def test_no_name_of_a_field_hides_what_fills_it() -> None:
    one = Hiding([3], {"a": "b"}, 4, 5)
    assert (one.x, one.missing, one.set_x, one.of_x) == ([3], {"a": "b"}, 4, 5)
    assert replace(Hiding(), missing={"a": "b"}).missing == {"a": "b"} and Hiding().x == []
