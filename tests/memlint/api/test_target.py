"""Targets: what is written, what is assumed, and what lies outside the tables."""

from __future__ import annotations

import pickle

import pytest

from memlint.api.tables import PACKAGES, table
from memlint.api.target_versions import Resolved, Target, newest, parse_target


def test_the_newest_target_is_assumed() -> None:
    target = newest()
    assert target.assumed
    for package in PACKAGES:
        resolved = target.version(package)
        assert resolved == Resolved(table(package).releases[-1], "newest known", assumed=True)


def test_a_target_is_read_from_the_command_line() -> None:
    target = parse_target("trl=0.29, transformers==4.57.1,peft>=0.15,<0.17")
    assert target.version("trl") == Resolved("0.29", "--target")
    assert target.version("transformers") == Resolved("4.57.1", "--target")
    assert target.version("peft").version == "0.16.0"
    assert "newest release that >=0.15,<0.17 admits" in target.version("peft").note


def test_beside_an_old_release_the_others_are_assumed_as_old() -> None:
    target = parse_target("trl=0.12.2")
    transformers = target.version("transformers")
    assert transformers.assumed
    assert transformers.version == "4.46.3"
    assert transformers.source == "newest of 2024-12-06"
    # torch is pinned for its CUDA version and dates nothing.
    assert parse_target("torch=2.1.2").version("trl").version == table("trl").releases[-1]


def test_a_release_beyond_the_tables_is_treated_as_the_newest_and_said() -> None:
    newest_trl = table("trl").releases[-1]
    resolved = parse_target("trl=99.1").version("trl")
    assert resolved.version == "99.1"
    assert resolved.note == f"newer than the tables: treated as {newest_trl}"
    assert table("trl").release("99.1") == len(table("trl").releases) - 1
    oldest = parse_target("trl=0.4").version("trl")
    assert oldest.note == f"older than the tables: treated as {table('trl').releases[0]}"
    assert table("trl").release("0.4") == 0


@pytest.mark.parametrize("text", ["trl", "trl=", "trl=main", "vllm=0.5", "0.29", "=1"])
def test_what_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_target(text)


def test_a_target_travels_between_processes_and_keys_caches() -> None:
    target = parse_target("trl=0.29")
    again: Target = pickle.loads(pickle.dumps(target))
    assert again == target
    assert hash(again) == hash(target)
    assert str(target).startswith("trl=0.29,transformers=")


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of trl, transformers"):
        newest().version("vllm")


@pytest.mark.parametrize("text", [",", " , ", "trl=0.29,trl=1.0", "trl=newest,trl=0.29"])
def test_a_target_that_says_nothing_or_two_things(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_target(text)
    assert parse_target("trl=0.29,trl=0.29").version("trl").version == "0.29"
