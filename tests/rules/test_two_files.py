"""No rule takes a place in another file for one in the script."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from textwrap import dedent

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.engine.project import ElsewhereError, Modules, Project
from memlint.rule import Finding, Level, Rule, Script
from memlint.rule.registry import known_rules, load
from memlint.run.engine import findings_of
from memlint.script.model import build_script
from memlint.source import Source
from tests.rules.cases import cases
from tests.split_cases import Halves, split

CASES = cases()
RULES = load(rule.code for rule in known_rules())


@cache
def api(target: str) -> Api:
    return Api(parse_target(target) if target else newest())


def read(folder: Path, halves: Halves, target: str) -> Script:
    (folder / "parts.py").write_text(halves.module, encoding="utf-8")
    (folder / "train.py").write_text(halves.script, encoding="utf-8")
    path = str(folder / "train.py")
    return build_script(Source(path, halves.script), api(target), Project(path, Modules()))


def reported(script: Script) -> set[tuple[str, int, str]]:
    """What all rules say of a script: nothing stands between them and an error."""
    return {
        (rule.code, finding.span.start, finding.message)
        for rule in RULES
        for finding in rule.findings(script)
    }


@pytest.mark.draws(1)
@pytest.mark.parametrize("seed", range(2))
def test_cases_in_two_files(seed: int, tmp_path: Path) -> None:
    """All rules can be asked, and the length of the other file changes nothing."""
    asked = 0
    for case in CASES:
        halves = split(case, Random(f"{seed} {case.code} {case.name}"))
        if halves is None:
            continue
        found = reported(read(tmp_path, halves, case.targets[0]))
        assert all(start < len(halves.script) for _, start, _ in found), (case.code, case.name)
        longer = halves._replace(module=halves.long_module)
        assert reported(read(tmp_path, longer, case.targets[0])) == found, (case.code, case.name)
        asked += bool(found)
    assert asked > 200


FIRST = """
    class Total:
        def add(self, other):
            self.parts = other
    # a line
    # a line
    # a line
    # a line
    # a line
    # a line
    # a line
    # a line
        def run_back(self):
            self.parts.backward()
"""
SECOND = """
    from transformers import AutoModelForCausalLM
    from parts import Total


    class Pupil:
        def open(self):
            self.net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")

        def fit(self, rows):
            self.open()
            total = Total()
            for row in rows:
                total.run_back()
                self.net(**row).logits.float()

        def merge(self):
            self.fit(3)
            return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto")
"""


def test_training_in_another_file_has_no_place_here(tmp_path: Path) -> None:
    script = read(tmp_path, Halves(dedent(SECOND), dedent(FIRST)), "")
    assert "MEM409" not in {code for code, _, _ in reported(script)}


def two_calls(tmp_path: Path) -> tuple[Script, list[object]]:
    module = "def Work():\n    with open('a') as file:\n        return len(file)\n"
    script = read(tmp_path, Halves("from parts import Work\nWork()\n", module), "")
    return script, [one.node for one in script.invocations]


def test_a_node_carries_its_file(tmp_path: Path) -> None:
    script, nodes = two_calls(tmp_path)
    here, opens, counts = nodes
    assert script.is_before(opens, counts) is True
    assert script.is_before(counts, opens) is False
    assert script.is_before(here, opens) is None
    assert script.function(here) is None
    assert script.function(opens).name == "Work"
    with pytest.raises(ElsewhereError):
        script.span(opens)


def test_a_rule_says_nothing_of_a_place_in_another_file(tmp_path: Path) -> None:
    script, nodes = two_calls(tmp_path)
    errors: list[Exception] = []

    def check(script: Script) -> Iterator[Finding]:
        return (Finding(script.span(node), "here") for node in nodes)

    rule = Rule(code="MEM999", name="a", level=Level.WASTE, summary="a", check=check, triggers=())
    found = findings_of(rule, check, script, lambda _, error: errors.append(error))
    assert [script.source.location(one.span.start).row for one in found] == [2]
    assert not errors


HIDING = """
from transformers import AdamW, TrainingArguments

TrainingArguments("out", evaluation_strategy="steps")
"""


@pytest.mark.parametrize(
    ("beside", "count"),
    [
        ("transformers/__init__.py", 0),
        # What lies beside a project file may be the library itself.
        ("transformers/__init__.py pyproject.toml", 2),
        # Where the script's folder is a package, what it imports lies elsewhere.
        ("transformers/__init__.py __init__.py", 2),
        # Without a file of its own a folder gives way to what is installed.
        ("transformers/optimization.py", 2),
        ("other/__init__.py", 2),
    ],
)
def test_a_package_beside_the_script_hides_the_library(
    beside: str, count: int, tmp_path: Path
) -> None:
    for name in beside.split():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    script = read(tmp_path, Halves(HIDING, ""), "")
    assert len([code for code, _, _ in reported(script) if code == "MEM901"]) == count


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("pyproject.toml", '[project]\nname = "my-model"\n', 0),
        ("setup.py", 'from setuptools import setup\nsetup(\n    name="train",\n)\n', 0),
        ("pyproject.toml", '[project]\nname = "transformers"\n', 2),
        ("setup.cfg", "[metadata]\nname = adapter-transformers\n", 2),
    ],
)
def test_a_project_of_another_name_is_not_the_library(
    name: str, text: str, count: int, tmp_path: Path
) -> None:
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").touch()
    (tmp_path / name).write_text(text, encoding="utf-8")
    script = read(tmp_path, Halves(HIDING, ""), "")
    assert len([code for code, _, _ in reported(script) if code == "MEM901"]) == count
