"""Rules on memory are silent in tests, whose models are small; rules on versions are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from memlint.cli.main import main

LOOP = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import torch

def {name}():
    args = TrainingArguments("out", evaluation_strategy="no", bf16=True)
    Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"), args).train()
"""
ON_VERSIONS = {"MEM901"}


def codes(*arguments: str) -> set[str]:
    done = CliRunner().invoke(
        main, ["check", "--no-cache", "--output-format", "json", *arguments], catch_exceptions=False
    )
    return {each["code"] for each in json.loads(done.stdout)}


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(path: str, name: str = "train") -> Path:
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(LOOP.format(name=name))
    return file


@pytest.mark.parametrize("folder", ["tests", "test", "pkg/tests/slow"])
def test_files_of_tests_hear_of_versions_alone(folder: str) -> None:
    file = written(f"{folder}/train.py")
    assert codes(".") == ON_VERSIONS
    assert codes(".", "--tests") > ON_VERSIONS
    assert codes(str(file)) > ON_VERSIONS, "who names a file asks about it"
    assert codes(str(file), "--force-exclude") == ON_VERSIONS, "a hook names all files"


@pytest.mark.parametrize("path", ["contests/train.py", "tests.py", "latest/test_train.py"])
def test_other_files_hear_of_memory(path: str) -> None:
    written(path)
    assert codes(".") > ON_VERSIONS


def test_a_folder_of_tests_around_the_project_counts_for_nothing(tmp_path: Path) -> None:
    project = tmp_path / "tests" / "project"
    written(f"{project}/train.py")
    (project / "memlint.toml").write_text("")
    assert codes(str(project)) > ON_VERSIONS


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "requirements.txt"])
def test_a_project_that_is_checked_from_elsewhere_hears_the_same(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("project/tests/train.py")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert codes("../project") > ON_VERSIONS, "nothing says where the project begins"
    (tmp_path / "project" / mark).mkdir()
    assert codes("../project") == ON_VERSIONS


def test_rules_that_are_selected_by_name_are_asked_of_tests() -> None:
    written("tests/train.py")
    assert codes(".", "--extend-select", "unchecked-activations") == {*ON_VERSIONS, "MEM301"}
    assert codes(".", "--select", "MEM3") == set()
    Path("memlint.toml").write_text("tests = true\n")
    assert codes(".") > ON_VERSIONS


def test_functions_of_tests_hear_of_versions_alone() -> None:
    file = written("train.py", name="test_training")
    assert codes(".") == ON_VERSIONS
    assert codes(".", "--tests") > ON_VERSIONS
    file.write_text(file.read_text() + "\ntest_training()\n")
    assert codes(".") > ON_VERSIONS, "what the script calls is no test"
