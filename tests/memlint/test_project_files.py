"""Other files of the project decide what is found in a script, and whether it is checked again."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent

import pytest

from memlint.run.cache import Cache
from memlint.run.checking import check_jobs
from memlint.run.jobs import Job
from memlint.run.results import FileResult

CAUSAL, CLASSIFIER = "AutoModelForCausalLM", "AutoModelForSequenceClassification"
TRAIN = """
    from models import build
    from transformers import Trainer, TrainingArguments
    trainer = Trainer(build(), TrainingArguments("out"))
    trainer.train()
"""


def models(loader: str) -> None:
    text = f"""
        from transformers import {loader}
        def build():
            return {loader}.from_pretrained("Qwen/Qwen3-0.6B")
    """
    Path("models.py").write_text(dedent(text))


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()
    Path("train.py").write_text(dedent(TRAIN))
    models(CAUSAL)


def checked(path: str = "train.py", cache: Cache | None = None) -> FileResult:
    (result,) = check_jobs([Job(path, frozenset({"MEM201"}), "")], cache=cache, processes=1)
    return result


def codes(result: FileResult) -> list[str]:
    return [finding.code for finding in result.findings]


def test_a_model_that_another_file_loads_is_known() -> None:
    assert codes(checked()) == ["MEM201"]
    models(CLASSIFIER)
    assert codes(checked()) == []
    Path("models.py").unlink()
    assert codes(checked()) == []


def test_what_a_result_relied_on_is_named() -> None:
    relied_on = dict(checked().relied_on)
    assert relied_on[os.path.abspath("models.py")]
    # Where it is not found, it was looked for.
    Path("models.py").unlink()
    assert dict(checked().relied_on)[os.path.abspath("models.py")] == ""


@pytest.mark.parametrize("change", ["changed", "gone", "there again"])
def test_a_cached_result_holds_as_long_as_the_other_files(change: str) -> None:
    if change == "there again":
        Path("models.py").unlink()
    first = Cache(".")
    before = codes(checked(cache=first))
    assert checked(cache=Cache(".")) == checked()
    if change == "gone":
        Path("models.py").unlink()
    else:
        models(CLASSIFIER if change == "changed" else CAUSAL)
    after = codes(checked(cache=Cache(".")))
    assert before != after
    assert after == codes(checked())


def test_tests_are_read_alone() -> None:
    Path("test_train.py").write_text(dedent(TRAIN))
    # Folders are watched for commands that may come.
    assert not [path for path, _ in checked("test_train.py").relied_on if not Path(path).is_dir()]
    assert codes(checked("test_train.py")) == []


def test_a_module_that_trains_and_that_nothing_imports_is_read_as_a_script() -> None:
    Path("lib").mkdir()
    Path("lib/__init__.py").touch()
    Path("lib/part.py").write_text(dedent(TRAIN))
    assert codes(checked("lib/part.py")) == codes(checked()) == ["MEM201"]
