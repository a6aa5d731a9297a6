"""What changes from one version of a script to the next: findings and peaks, new and mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.adopt.comparison import Difference, lines
from memlint.cli.main import run
from memlint.rule.savings import Footprint
from tests.memlint.cli.inputs import write
from tests.memlint.cli.test_adoption import Out, commit, git


def test_two_scripts(capsys: Out) -> None:
    write("a.py", "alpha()\nx = 1\n")
    write("b.py", "x = 1\n\n\nalpha()\nalpha(2)\n")
    assert run(["compare", "a.py", "b.py"]) == 1
    out = capsys.readouterr().out
    assert "  + MEM301 line 5: alpha is wasteful" in out
    assert "line 4" not in out
    assert "1 new, 0 mended, in 1 file." in out
    assert run(["compare", "b.py", "a.py"]) == 0
    assert "  - MEM301 was line 5" in capsys.readouterr().out
    assert run(["compare", "a.py", "a.py"]) == 0
    assert capsys.readouterr().out == "No finding and no peak changed: 1 finding.\n"


def test_two_files_of_which_nothing_is_read(capsys: Out) -> None:
    """That nothing changed would sound as if something had been looked at."""
    write("a.py", "x = 1\n")
    write("b.py", "y = 1\n")
    assert run(["compare", "a.py", "b.py"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to compare: on neither side is a finding")
    write("a.yaml", "name: x\n")
    assert run(["compare", "a.yaml", "b.py"]) == 2
    assert "a.yaml: not a training recipe" in capsys.readouterr().err


_SETTINGS = {
    "model": "Qwen/Qwen2.5-7B",
    "trainer": "trl.SFTTrainer",
    "method": "lora",
    "lora": {"r": 16},
    "micro_batch": 4,
    "seq_len": 2048,
    "checkpointing": "full",
}


def test_two_files_of_settings(capsys: Out) -> None:
    """As the page on adoption shows it; their names say nothing."""
    write("before.txt", json.dumps(_SETTINGS))
    write("after.json", json.dumps({**_SETTINGS, "micro_batch": 8}))
    assert run(["compare", "before.txt", "after.json"]) == 0
    page = Path(__file__).parents[3] / "docs" / "adoption.md"
    shown = page.read_text(encoding="utf-8").partition("```text\nafter.json")[2].partition("```")[0]
    assert capsys.readouterr().out == f"after.json{shown}"
    assert "backward 18.1 -> 21.9," in shown
    assert run(["compare", "before.txt", "after.json", "--output-format", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["new"], item["mended"]) == ([], [])
    fullest = max(each["after"] for each in item["phases"].values())
    assert item["peak_after"] == fullest > item["peak_before"]
    assert run(["compare", "after.json", "after.json"]) == 0
    assert "peak 21.9 GiB.\nSettings have no findings" in capsys.readouterr().out


def test_a_script_beside_settings(capsys: Out) -> None:
    """What is found in it is neither new nor mended; where its peak is not known, that is said."""
    write("a.py", "alpha()\n")
    write("b.json", json.dumps(_SETTINGS))
    for names, when in ((["a.py", "b.json"], "after"), (["b.json", "a.py"], "before")):
        assert run(["compare", *names, "--output-format", "markdown"]) == 0
        out = capsys.readouterr().out
        assert f": peak 18.1 GiB {when}, the other is not known" in out
        assert "MEM301" not in out
        assert "0 new, 0 mended, in 1 file." in out
        assert out.endswith("Settings have no findings: phases and peaks alone are compared.\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"model": "Qwen/Qwen2.5-7B", "micro_bach": 4}',
            "'micro_bach': do you mean 'micro_batch'",
        ),
        ('{"micro_batch": 4}', 'settings lack "model"'),
        ('{"model": "a/b", "micro_batch": "x"}', "micro_batch is a whole number, not 'x'"),
        ('{"model": "a/b"}', "the shape of model 'a/b' is not known"),
        ("[1]", "settings are an object of keys and values, not [1]"),
    ],
)
def test_json_that_is_neither_settings_nor_a_recipe(text: str, words: str, capsys: Out) -> None:
    write("a.json", text)
    write("b.json", json.dumps(_SETTINGS))
    assert run(["compare", "b.json", "a.json"]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert error.startswith("error: a.json: ")
    assert "; as settings (docs/settings.md): " in error
    assert words in error


def test_releases_of_settings_are_their_own(capsys: Out) -> None:
    write("a.json", json.dumps(_SETTINGS))
    assert run(["compare", "a.json", "a.json", "--target-before", "trl=0.12"]) == 2
    assert 'a.json: settings name their releases by "versions"' in capsys.readouterr().err


def test_what_no_longer_parses_mends_nothing(capsys: Out) -> None:
    write("a.py", "alpha()\n")
    write("b.py", "alpha(\n")
    assert run(["compare", "a.py", "b.py"]) == 1
    out = capsys.readouterr().out
    assert "+ MEM002 line 1: does not parse" in out
    assert "mended, in" in out
    assert "MEM301" not in out


def test_a_file_that_is_renamed_is_the_same_file(capsys: Out) -> None:
    """Most of what was found in it is; another file that goes is mended."""
    for folder, name in (("one", "old.py"), ("one/gone", "x.py"), ("two", "new.py")):
        text = "alpha(9)\n" if name == "x.py" else "alpha()\nalpha(2)\nalpha(3)\n"
        write(f"{folder}/{name}", text)
    assert run(["compare", "one", "two"]) == 0
    assert "0 new, 1 mended, in 1 file." in capsys.readouterr().out
    write("two/new.py", "alpha()\nalpha(2)\nalpha(3)\nalpha(4)\n")
    assert run(["compare", "one", "two"]) == 1
    out = capsys.readouterr().out
    assert "new.py\n  + MEM301 line 4" in out
    assert "1 new, 1 mended, in 2 files." in out


_FOOTPRINT = Footprint(peak=10 * 2**30, low=0, high=0, phase="loss")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (10.0, 9.98, "`a.py`: peak 10.0 GiB, as before"),
        (32.44, 6.16, "`a.py`: peak 32.4 GiB -> 6.2 GiB, -26.2 GiB"),
        (None, 2.0, "`a.py`: peak 2.0 GiB after, the other is not known"),
        (80.0, 20.0, "80.0 GiB (does not fit big) -> 20.0 GiB (fits big), -60.0 GiB"),
    ],
)
def test_peaks_that_are_shown_add_up(before: float | None, after: float, words: str) -> None:
    """A change that rounds to nothing is none, and what is subtracted is what is read."""
    gpu = {"gpu": "big", "room": 64 * 2**30} if before == 80 else {}
    one, other = (
        None if size is None else _FOOTPRINT._replace(peak=int(size * 2**30), **gpu)
        for size in (before, after)
    )
    found = Difference("a.py", (), (), one, other)
    assert words in "\n".join(lines([found], "`a.py`", markdown=True))


def test_since_a_commit(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q")
    write("deep/a.py", "alpha()\n")
    write("deep/b.py", "alpha()\n")
    commit()
    write("deep/a.py", "x = 1\n")
    write("deep/new ` odd.py", "alpha()\n")
    assert run(["compare", "--base", "HEAD", "--output-format", "markdown"]) == 1
    out = capsys.readouterr().out
    assert "`deep/a.py`\n\n- mended: MEM301 was line 1: alpha is wasteful\n" in out
    assert "`deep/new ' odd.py`\n\n- **new** MEM301 line 1: alpha is wasteful\n" in out
    assert "deep/b.py" not in out
    monkeypatch.chdir("deep")
    assert run(["compare", "--base", "HEAD", "a.py", "--output-format", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert item["path"] == "a.py"
    assert [each["code"] for each in item["mended"]] == ["MEM301"]
    assert item["new"] == []


def test_tests_of_a_commit_are_tests_too(capsys: Out) -> None:
    git("init", "-q")
    write("tests/a.py", "alpha()\n")
    commit()
    write("b.py", "x = 1\n")
    assert run(["compare", "--base", "HEAD"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to compare")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected two scripts"),
        (["a.py"], "expected two scripts"),
        (["a.py", "."], "compare two files, or two folders"),
        (["a.py", "none.py"], "none.py: does not exist"),
        (["--base", "HEAD"], "--base: git failed: fatal: not a git repository"),
        (["--base", "HEAD", "a.py", "a.py"], "--base takes one"),
    ],
)
def test_what_cannot_be_compared(arguments: list[str], words: str, capsys: Out) -> None:
    write("a.py", "alpha()\n")
    assert run(["compare", *arguments]) == 2
    assert words in capsys.readouterr().err
