"""Recipes on the command line: what ``check`` and ``fix`` do with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run

RECIPE = """\
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b
optimizer:
  _component_: bitsandbytes.optim.PagedAdamW8bit
dtype: bf16
enable_activation_checkpointing: False  # True saves memory
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_s_recipes_are_checked_and_others_passed_over(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "recipe.yaml").write_text(RECIPE)
    (here / "compose.yml").write_text("services: {web: {image: x}}\n")
    (here / "broken.yaml").write_text("base_model: [\n")
    (here / "data.json").write_text('[{"base_model": 1}]')
    assert run(["check", "--no-cache", "--output-format", "concise"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("recipe.yaml:6:1: MEM301")
    assert "1 finding in 1 of 3 files" in "".join(lines)


def test_a_folder_without_scripts_and_recipes_is_empty(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "compose.yml").write_text("services: {web: {image: x}}\n")
    assert run(["check", "--no-cache"]) == 0
    assert "no Python files, notebooks or recipes found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "services: {}\n", "not a training recipe"),
        ("a.json", "[]", "holds no mapping"),
        ("a.yaml", "a: [\n", "does not parse as YAML"),
        ("a.json", "{", "broken JSON"),
        ("a.yaml", "", "holds no mapping"),
    ],
)
def test_a_named_file_that_is_no_recipe_says_so(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, words: str
) -> None:
    (here / name).write_text(text)
    assert run(["check", "--no-cache", name]) == 2
    shown = "".join(capsys.readouterr())
    assert words in shown
    assert "Traceback" not in shown


def test_fix_writes_the_recipe_and_a_second_run_nothing(here: Path) -> None:
    text = f"{RECIPE}loss:\n  _component_: torch.nn.CrossEntropyLoss\n"
    (here / "recipe.yaml").write_text(text)
    run(["fix", "--no-cache"])
    after = (here / "recipe.yaml").read_text()
    # Checkpointing that is written as off is a decision.
    assert after == text.replace(
        "torch.nn.CrossEntropyLoss", "torchtune.modules.loss.CEWithChunkedOutputLoss"
    )
    run(["fix", "--no-cache"])
    assert (here / "recipe.yaml").read_text() == after


def test_a_comment_suppresses_a_finding(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "recipe.yaml").write_text(
        RECIPE.replace("# True saves memory", "# memlint: ignore[MEM301]")
    )
    assert run(["check", "--no-cache"]) == 0
    (here / "recipe.yaml").write_text(
        RECIPE.replace("# True saves memory", "# memlint: ignore[MEM402]")
    )
    assert run(["check", "--no-cache"]) == 1
    assert "MEM001" in capsys.readouterr().out


def test_a_key_that_stands_twice_is_one_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "recipe.yaml").write_text(RECIPE.replace("False", "True") + "dtype: bf16\n")
    assert run(["check", "--no-cache"]) == 1
    out = "".join(capsys.readouterr())
    assert "recipe.yaml:7:1" in out
    assert "MEM002" in out


def test_a_recipe_on_standard_input(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    stream = io.TextIOWrapper(io.BytesIO(RECIPE.encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert run(["check", "-", "--stdin-filename", "recipe.yaml"]) == 1
    assert "MEM301" in capsys.readouterr().out


def test_a_cached_result_is_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "recipe.yaml").write_text(RECIPE)
    assert run(["check"]) == 1
    first = capsys.readouterr().out
    assert run(["check"]) == 1
    assert capsys.readouterr().out == first


def test_a_hook_names_files_that_are_no_recipes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "compose.yml").write_text("services: {web: {image: x}}\n")
    (here / "recipe.yaml").write_text(RECIPE)
    names = ["compose.yml", "recipe.yaml"]
    assert run(["check", "--no-cache", "--force-exclude", *names]) == 1
    shown = capsys.readouterr()
    assert "MEM301" in shown.out
    assert "compose" not in shown.out + shown.err
