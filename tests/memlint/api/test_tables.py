"""The shipped tables as data: format, order, bisection."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlint.api
from memlint.api.extract.history import Encoder, merge_orders, ranges
from memlint.api.tables import PACKAGES, Table, holds, pick, table

_TABLES = (*PACKAGES, "transformers_models")


@pytest.mark.parametrize("name", _TABLES)
def test_tables_are_sorted_and_every_line_decodes(name: str) -> None:
    path = Path(memlint.api.__file__).parent / "data" / f"{name}.table"
    keys = []
    for line in path.read_bytes().splitlines():
        key, _, body = line.partition(b"\t")
        keys.append(key)
        assert isinstance(json.loads(body), dict)
    assert keys == sorted(set(keys))
    assert keys[0] == b"!"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_found_and_neighbours_are_not(name: str) -> None:
    known = table(name)
    names = known.names()
    for each in names[:: max(1, len(names) // 200)]:
        assert known.record(each) is not None
        assert known.record(f"{each}~") is None
    assert known.record("") is None
    assert known.record("~") is None


@given(st.dictionaries(st.text("abcXYZ._", min_size=1, max_size=6), st.integers(), max_size=30))
def test_bisection_finds_just_what_is_there(content: dict[str, int]) -> None:
    lines = {"!": {"1.0": "2024-01-01"}, **{name: {"at": str(n)} for name, n in content.items()}}
    data = b"".join(
        f"{name}\t{json.dumps(lines[name])}\n".encode() for name in sorted(lines, key=str.encode)
    )
    known = Table("made", data)
    for name, number in content.items():
        assert known.record(name) == {"at": str(number)}
    for name in ("a", "aX", "zz", "_", "."):
        assert (known.record(name) is None) == (name not in content)


@given(st.sets(st.integers(0, 20)))
def test_ranges_hold_just_what_they_were_made_of(numbers: set[int]) -> None:
    text = ranges(numbers, newest=20)
    if numbers:
        assert {n for n in range(21) if holds(text, n)} == numbers
    assert holds("", 7)


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 2), min_size=1))
def test_spread_values_are_picked_again(values: dict[int, int]) -> None:
    encoded = Encoder(9).spread(values, range(10))
    assert {n: pick(encoded, n) for n in values} == values
    assert all(pick(encoded, n) is None for n in range(10) if n not in values)


@given(st.lists(st.lists(st.sampled_from("abcdefg"), unique=True), max_size=5))
def test_merged_orders_name_everything_once_and_follow_the_newest(orders: list[list[str]]) -> None:
    merged = merge_orders(orders)
    assert sorted(merged) == sorted({name for order in orders for name in order})
    if orders:
        newest = orders[-1]
        assert [name for name in merged if name in newest] == newest


def test_a_release_stands_for_its_minor_version() -> None:
    known = table("trl")
    assert known.releases[known.release("0.15.0")] == "0.15.2"
    assert known.releases[known.release("0.15")] == "0.15.2"
    assert known.releases[known.release("1.16.0.dev0")] == "1.16.0"


def test_every_release_has_its_day() -> None:
    for name in PACKAGES:
        for day in table(name).days.values():
            assert "2023-11-01" <= day <= "2030-01-01"
            assert len(day) == len("2026-10-15")
