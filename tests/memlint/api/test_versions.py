"""Versions and specifiers agree with the standard's own implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version as Standard

from memlint.api.versions import exact, parse_version, satisfies

_NUMBERS = st.lists(st.integers(0, 30), min_size=1, max_size=3).map(
    lambda parts: ".".join(map(str, parts))
)
_SUFFIX = st.sampled_from(["", "", "", "a1", "b2", "rc1", ".dev0", "+cpu", "rc2+cu121"])
_VERSIONS = st.builds(str.__add__, _NUMBERS, _SUFFIX)


@given(_VERSIONS, _VERSIONS)
def test_versions_compare_as_the_standard_says(left: str, right: str) -> None:
    theirs = Standard(left.partition("+")[0]), Standard(right.partition("+")[0])
    ours = parse_version(left), parse_version(right)
    assert (ours[0] < ours[1]) == (theirs[0] < theirs[1])
    assert (ours[0] == ours[1]) == (theirs[0] == theirs[1])


@given(
    _NUMBERS,
    st.lists(
        st.builds(str.__add__, st.sampled_from(["==", "!=", ">=", "<=", ">", "<"]), _NUMBERS),
        min_size=1,
        max_size=3,
    ),
)
def test_specifiers_admit_what_the_standard_admits(version: str, clauses: list[str]) -> None:
    specifier = ",".join(clauses)
    assert satisfies(version, specifier) == SpecifierSet(specifier).contains(version)


@given(_NUMBERS, st.lists(st.integers(0, 9), min_size=2, max_size=3))
def test_compatible_releases_and_wildcards(version: str, parts: list[int]) -> None:
    text = ".".join(map(str, parts))
    for specifier in (f"~={text}", f"=={text}.*", f"!={text}.*"):
        assert satisfies(version, specifier) == SpecifierSet(specifier).contains(version)


@pytest.mark.parametrize(
    ("version", "specifier", "admitted"),
    [
        ("4.46.3", "^4.41", True),
        ("5.0.0", "^4.41", False),
        ("0.12.2", "^0.12", True),
        ("0.13.0", "^0.12", False),
        ("4.46.3", "~4.46.1", True),
        ("4.47.0", "~4.46.1", False),
        ("4.46.3", "=4.46", True),
        ("4.47.0", "=4.46", False),
        ("1.16.0", "*", True),
        ("0.9.6", ">=0.8 <0.10", True),
        ("0.9.6", ">= 0.8, < 0.9", False),
        ("0.9.6", "<0.5 || >=0.9", True),
    ],
)
def test_what_other_tools_write(version: str, specifier: str, admitted: bool) -> None:
    assert satisfies(version, specifier) is admitted


def test_a_pin_is_told_from_a_range() -> None:
    assert exact("==0.12.2") == "0.12.2"
    assert exact("=4.46.3") == "4.46.3"
    assert exact("==4.46.*") is None
    assert exact(">=0.8") is None
    assert exact("==0.8,!=0.9") is None


def test_a_word_is_no_version() -> None:
    with pytest.raises(ValueError, match=r"expected a version such as 1\.16\.0, got 'main'"):
        parse_version("main")
