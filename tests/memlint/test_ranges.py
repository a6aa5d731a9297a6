"""Scripts for a range of versions: what any of them does not run, and what is right in all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.api.tables import table
from memlint.api.target_versions import parse_target
from memlint.api.versions import satisfies
from memlint.cli.main import run

# `tokenizer` is deprecated before 0.16 and gone since; `max_seq_length` is `max_length` by now.
SCRIPT = """\
from trl import SFTConfig, SFTTrainer

options = SFTConfig("runs", packing=True, max_seq_length=700)
SFTTrainer("Qwen/Qwen3-0.6B", args=options, train_dataset=rows, tokenizer=words).train()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SCRIPT)


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    """Return what is found, each with what its fix says."""
    run(["check", "--no-prices", "--output-format", "json", *arguments])
    items = json.loads(capsys.readouterr().out)
    return {each["message"]: (each["fix"] or {}).get("message", "") for each in items}


def test_each_release_of_the_range_is_one_target() -> None:
    target = parse_target("every trl>=0.15,<1.3")
    versions = [each.version("trl").version for each in (*target.others, target)]
    assert versions == [each for each in table("trl").releases if satisfies(each, ">=0.15,<1.3")]
    oldest = target.others[0].version("transformers")
    assert oldest.assumed
    assert oldest.version.startswith("4.4"), "of its day"


def test_two_bounds_hold_together() -> None:
    target = parse_target("every trl>=0.20,transformers>=4.50,<5,trl<1")
    pairs = [
        (each.version("trl").version, each.version("transformers").version)
        for each in (*target.others, target)
    ]
    for package, bound in (("trl", ">=0.20,<1"), ("transformers", ">=4.50,<5")):
        admitted = {each for each in table(package).releases if satisfies(each, bound)}
        assert {pair[package == "transformers"] for pair in pairs} == admitted
    assert len(set(pairs)) == len(pairs)


def test_what_stops_in_some_releases_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    messages = found(capsys, "--select", "MEM901", "--range", "trl>=0.15,<2")
    newest = table("trl").releases[-1]
    tokenizer = next(each for each in messages if "`tokenizer`" in each)
    assert tokenizer.endswith(f"; so in trl 0.16.1 to {newest}")
    length = next(each for each in messages if "`max_seq_length`" in each)
    assert f"so in trl 0.20.0 to {newest}" in length
    assert "alone, not in the whole range" in messages[length]
    assert not any("so in" in each for each in found(capsys, "--range", "trl>=0.20,<2"))


def test_an_option_that_only_the_oldest_lacks_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(SCRIPT.replace("max_seq_length", "max_length"))
    at_newest = found(capsys, "--select", "MEM901", "--target", "trl=1.16")
    assert not any("`max_length`" in each for each in at_newest)
    messages = found(capsys, "--select", "MEM901", "--range", "trl>=0.12,<2")
    assert any(
        "does not take `max_length`" in each and "so in trl 0.12" in each for each in messages
    )


def test_only_what_is_right_in_all_is_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    run(["fix", "--range", "trl>=0.15,<2", "--select", "MEM9", "train.py"])
    fixed = SCRIPT.replace("tokenizer=words", "processing_class=words")
    assert Path("train.py").read_text() == fixed
    assert "32 versions, trl 0.15.2 to trl 1.16.0" in capsys.readouterr().err
    run(["fix", "--range", "trl>=0.15,<2", "--select", "MEM9", "train.py"])
    assert Path("train.py").read_text() == fixed
    run(["fix", "--range", "trl>=0.20,<2", "--select", "MEM9", "train.py"])
    assert "max_length=700" in Path("train.py").read_text()


def test_a_range_of_the_configuration_counts_and_names_its_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("memlint.toml").write_text('target = "every trl>=0.15,<2"\n')
    for _ in range(2):  # the second time from the cache
        run(["check", "--select", "MEM9", "--output-format", "concise"])
        out = capsys.readouterr().out
        assert "`memlint fix --target 'every trl>=0.15,<2'`" in out
        assert "so in trl 0.16.1" in out


def test_a_comment_for_an_older_release_is_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    text = SCRIPT.replace("max_seq_length", "max_length").replace(
        "=700)", "=700)  # memlint: ignore[MEM901]"
    )
    Path("train.py").write_text(text)
    run(["check", "--select", "MEM901,MEM001", "--target", "trl=1.16", "--no-cache"])
    assert "MEM001" in capsys.readouterr().out
    run(["check", "--select", "MEM901,MEM001", "--range", "trl>=0.12,<2", "--no-cache"])
    out = capsys.readouterr().out
    assert "MEM001" not in out
    assert "`max_length`" not in out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("trl>=9", "no release known of trl is >=9"),
        ("", "expected a range such as trl>=0.15,<2"),
        ("trl", "expected a target such as"),
        ("tlr>=0.15", "expected a target such as"),
    ],
)
def test_a_range_that_means_nothing_is_told(
    given: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "--range", given, "train.py"]) == 2
    assert told in capsys.readouterr().err
    assert run(["check", "--range", "trl>=1", "--target", "trl=1.16", "train.py"]) == 2
    assert "exclude each other" in capsys.readouterr().err
