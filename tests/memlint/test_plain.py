"""Frozen records behave as frozen dataclasses do, named tuples as those of typing, and slotted
classes as dataclasses with slots."""

from __future__ import annotations

import pickle
from functools import cached_property

import pytest

from memlint.source.record import NamedTuple, Record, new, slotted


class Point(Record):
    x: int
    y: int = 0


class Named(Point):
    name: str = ""


class Measured(Record):
    words: tuple[str, ...]

    @cached_property
    def count(self) -> int:
        return len(self.words)


class Other(Record):
    x: int
    y: int = 0


@slotted
class Basket:
    owner: str
    size: int = 2
    fruit: list[str] = new(list)
    prices: dict[str, int] = new(dict)


def test_each_slotted_instance_has_collections_of_its_own() -> None:
    basket, other = Basket("a"), Basket("b", size=3)
    basket.fruit.append("plum")
    basket.prices["plum"] = 4
    assert (basket.owner, basket.size, basket.fruit, basket.prices) == (
        "a",
        2,
        ["plum"],
        {"plum": 4},
    )
    assert (other.owner, other.size, other.fruit, other.prices) == ("b", 3, [], {})
    basket.size = 5
    assert basket != Basket("a", 5)


def test_a_slotted_class_has_its_fields_and_no_others() -> None:
    with pytest.raises(AttributeError):
        Basket("a").weight = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'owner'"):
        Basket()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'fruit'"):
        Basket("a", fruit=[])


def test_fields_come_by_position_and_by_name() -> None:
    assert (Point(1).x, Point(1).y) == (1, 0)
    assert Point(1, 2) == Point(y=2, x=1)
    assert Named(1, 2, "a")._fields == ("x", "y", "name")
    assert repr(Named(1, name="a")) == "Named(x=1, y=0, name='a')"


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {}, "Point.*missing 1 required positional argument: 'x'"),
        ((1, 2, 3), {}, "Point.*takes from 2 to 3 positional arguments but 4"),
        ((1,), {"z": 1}, "Point.*unexpected keyword argument 'z'"),
        ((1,), {"x": 1}, "Point.*multiple values for argument 'x'"),
    ],
)
def test_wrong_values_are_refused(
    values: tuple[int, ...], named: dict[str, int], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        Point(*values, **named)


def test_records_of_other_classes_are_never_equal() -> None:
    assert Point(1) != Other(1)
    assert Point(1) != (1, 0)
    assert Named(1) != Point(1)
    assert len({Point(1), Point(1), Other(1), Point(2)}) == 3


def test_cached_properties_are_no_fields() -> None:
    record = Measured(("a", "b"))
    assert record.count == 2
    assert record == Measured(("a", "b"))
    assert hash(record) == hash(Measured(("a", "b")))
    assert record._replace(words=()).count == 0


def test_a_record_does_not_change() -> None:
    point = Point(1, 2)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert point._replace(x=3) == Point(3, 2)
    assert point == Point(1, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        point._replace(z=3)


def test_a_record_goes_to_another_process_and_back() -> None:
    assert pickle.loads(pickle.dumps(Named(1, 2, "a"))) == Named(1, 2, "a")


def test_patterns_match_by_name() -> None:
    match Point(1, 2):
        case Point(x=1, y=y):
            assert y == 2
        case _:
            pytest.fail("no match")


class Pair(NamedTuple):
    first: int
    second: str = "b"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


def test_a_named_tuple_is_as_those_of_typing() -> None:
    pair = Pair(1)
    assert (pair, hash(pair)) == ((1, "b"), hash((1, "b")))
    assert (pair.first, pair.second, pair.both) == (1, "b", "1b")
    assert Pair(second="a", first=2)._replace(first=3) == Pair._make((3, "a")) == (3, "a")
    assert (Pair._fields, Pair._field_defaults) == (("first", "second"), {"second": "b"})
    assert (repr(pair), pair._asdict()) == (
        "Pair(first=1, second='b')",
        {"first": 1, "second": "b"},
    )
    again = pickle.loads(pickle.dumps(pair))
    assert again == pair
    assert type(again) is Pair
    match pair:
        case Pair(first=1, second=second):
            assert second == "b"
        case _:
            pytest.fail("no match")


def test_a_named_tuple_refuses_wrong_values_and_changes() -> None:
    with pytest.raises(TypeError, match=r"Pair.__new__\(\) missing .* 'first'"):
        Pair()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'third'"):
        Pair(1, third=2)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="third"):
        Pair(1)._replace(third=2)  # type: ignore[call-arg]
    pair = Pair(1)
    for name in ("first", "third"):
        with pytest.raises(AttributeError):
            setattr(pair, name, 2)
