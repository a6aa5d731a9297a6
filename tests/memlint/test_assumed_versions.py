"""Versions that nobody named: what is reported of them, and which fixes are applied."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from memlint.api.lookup import Api
from memlint.api.tables import table
from memlint.api.target_versions import parse_target
from memlint.cli.main import run
from memlint.project.targets import Targets, named_in
from memlint.rule import Rule
from memlint.rule.findings import Finding
from memlint.run.advice import right_everywhere
from memlint.run.engine import check_source
from memlint.source.reading import read_source
from tests.memlint.fakes import build_script, word_rule

# Moved to SFTConfig in one release, renamed in another.
_OLD = """\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=data, max_seq_length=512)
trainer.train()
"""
# Right for every version: no library is asked for anything.
_LOOP = """\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2")

for batch in loader:
    outputs = model(**batch, use_cache=False)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("memlint.project.resolve.distributions", lambda folders: {})


@pytest.mark.parametrize("form", ["full", "concise", "statistics", "github"])
def test_check_says_once_what_is_assumed(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.py").write_text(_OLD)
    Path("b.py").write_text(_OLD)
    option = "--statistics" if form == "statistics" else f"--output-format={form}"
    run(["check", option])
    out = capsys.readouterr().out
    newest_trl = table("trl").releases[-1]
    assert out.count("Versions assumed: trl ") == 1
    assert f"trl {newest_trl}, transformers" in out
    if form != "github":
        assert "fixable with `memlint fix --target newest`" in out
        assert "fixable with `memlint fix`" not in out


def test_a_fix_that_needs_the_runtime_depends_on_the_version_of_torch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("requirements.txt").write_text("trl==1.16.0\ntransformers==5.23.0\n")
    text = _OLD.replace(", max_seq_length=512", "")
    Path("a.py").write_text(text)
    run(["fix", "a.py", "--select", "MEM106"])
    assert Path("a.py").read_text() == text
    assert "To apply 1 more fix: `memlint fix --target trl=1.16.0," in capsys.readouterr().err
    run(["fix", "a.py", "--select", "MEM901"])
    assert "assumed" not in capsys.readouterr().err


def test_a_hook_without_the_users_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.py").write_text(_OLD)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "pre-commit" / "repo1" / "py_env-python3"))
    run(["check", "a.py"])
    assert "hook's own environment is not yours, and no other was found" in capsys.readouterr().out
    run(["target", "a.py"])
    assert "no environment but the hook's has it" in capsys.readouterr().out


def test_machine_formats_carry_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.py").write_text(_OLD)
    for _ in range(2):  # the second time from the cache
        run(["check", "--output-format=json"])
        items = json.loads(capsys.readouterr().out)
        assert {each["assumed_versions"][0] for each in items} == {
            f"trl {table('trl').releases[-1]}"
        }
    run(["check", "--output-format=sarif"])
    (sarif,) = json.loads(capsys.readouterr().out)["runs"]
    assert sarif["properties"]["assumedVersions"][0].startswith("trl ")


def test_fix_withholds_what_is_not_right_for_every_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = Path("a.py")
    script.write_text(_OLD)
    assert run(["fix", "a.py"]) == 1
    assert script.read_text() == _OLD
    err = capsys.readouterr().err
    assert "Nothing to fix" in err
    first = err.splitlines()[0]
    assert re.match(r"To apply \d+ more fix(es)?: `memlint fix --target newest a\.py`\. ", first)
    assert err.count("Versions assumed") == 1


@pytest.mark.parametrize("target", ["newest", "trl=newest", "trl=1.16,transformers=newest"])
def test_a_named_target_is_enough(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = Path("a.py")
    script.write_text(_OLD)
    run(["fix", "a.py", "--target", target, "--select", "MEM9"])
    assert "max_length=512" in script.read_text()
    assert "assumed" not in capsys.readouterr().err.lower()


def test_a_pin_of_the_script_itself_is_enough() -> None:
    head = '# /// script\n# dependencies = ["trl==1.16.0", "transformers==5.23.0"]\n# ///\n'
    script = Path("a.py")
    script.write_text(head + _OLD)
    run(["fix", "a.py", "--select", "MEM9"])
    assert "max_length=512" in script.read_text()
    script.write_text(head.replace("1.16.0", "0.15.2").replace("5.23.0", "4.48.3") + _OLD)
    run(["fix", "a.py", "--select", "MEM9"])
    assert "max_seq_length=512)" in script.read_text().split("\n")[5]


def test_a_pin_in_a_notebook_beats_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    Path("requirements.txt").write_text("trl==1.16.0\ntransformers==5.23.0\n")
    cells = [
        {"cell_type": "code", "source": text, "metadata": {}, "outputs": [],
         "execution_count": None}
        for text in ("!pip install trl==0.15.2 transformers==4.48.3", _OLD)
    ]  # fmt: skip
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    Path("a.ipynb").write_text(json.dumps(document))
    run(["target", "a.ipynb"])
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "trl 0.15.2 (the script itself)"
    assert second == "transformers 4.48.3 (the script itself)"
    run(["check", "a.ipynb", "--output-format=concise"])
    assert "trl 0.15.2" in capsys.readouterr().out


def test_what_is_right_for_every_version_is_fixed() -> None:
    script = Path("a.py")
    script.write_text(_LOOP)
    run(["fix", "a.py", "--select", "MEM307"])
    assert "    del outputs\n" in script.read_text()


@pytest.mark.parametrize(
    ("requirement", "codes"),
    [
        ("trl @ git+https://example.org/trl.git@69ad852", []),
        ("transformers @ git+https://example.org/transformers.git@69ad852", []),
        ("trl @ git+https://example.org/trl.git@v1.16.0", ["MEM901"]),
        ("peft @ git+https://example.org/peft.git@69ad852", ["MEM901"]),
    ],
)
def test_nothing_is_said_of_the_version_that_a_commit_is(
    requirement: str, codes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("requirements.txt").write_text(f"{requirement}\n")
    Path("a.py").write_text(
        'from trl import SFTConfig\n\nargs = SFTConfig("o", max_seq_length=8)\n'
    )
    run(["check", "--no-cache", "--output-format=json", "--select=MEM9"])
    found = json.loads(capsys.readouterr().out)
    assert [each["code"] for each in found] == codes


def test_only_the_libraries_that_a_script_names_are_in_question() -> None:
    source = read_source("a.py", b"import peft\n")
    others = list(Targets().others("/nowhere/a.py", "", source, named_in(source)))
    releases = {api.target.version("peft").version for api in others}
    assert releases | {table("peft").releases[-1]} == set(table("peft").releases)
    trl = {api.target.version("trl").version for api in others}
    assert trl == {table("trl").releases[-1]}
    assert list(Targets().others("/nowhere/a.py", "newest", source, named_in(source))) == []


def test_every_release_of_a_script_for_trl_is_in_question() -> None:
    source = read_source("a.py", b"import trl\n")
    others = list(Targets().others("/nowhere/a.py", "", source, named_in(source)))
    for package in ("trl", "transformers"):
        releases = {api.target.version(package).version for api in others}
        assert releases | {table(package).releases[-1]} == set(table(package).releases)


def test_a_fix_stays_if_every_version_comes_to_the_same_edits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memlint.script.model.build_script", build_script)
    rule = word_rule("MEM301", "alpha", replacement="omega")
    source = read_source("a.py", b"alpha\n")
    api = Api(parse_target("trl=1.16"))
    findings = check_source(source, [rule], api)
    others = [Api(parse_target(f"trl=0.{minor}")) for minor in (8, 12)]

    def check(rule: Rule) -> Callable[[frozenset[str], Api], list[Finding]]:
        return lambda codes, api: check_source(source, [rule], api)

    assert right_everywhere(source, findings, others, check(rule)) == (findings, [])
    other = word_rule("MEM301", "alpha", replacement="psi")
    kept, withheld = right_everywhere(source, findings, others, check(other))
    assert withheld == findings
    assert [each.fix and each.fix.edits for each in kept] == [()]


def test_a_file_too_large_to_be_checked_so_often_keeps_its_fixes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = word_rule("MEM301", "alpha", replacement="omega")
    source = read_source("a.py", b"alpha\n# " + b"x" * 400_000)
    api = Api(parse_target("trl=1.16"))
    monkeypatch.setattr("memlint.script.model.build_script", build_script)
    findings = check_source(source, [rule], api)
    _, withheld = right_everywhere(source, findings, [api], lambda codes, api: findings)
    assert withheld == findings


@pytest.mark.parametrize("name", ["memlint.toml", "pyproject.toml"])
def test_the_target_of_a_configuration_is_reported_as_its(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "" if name == "memlint.toml" else "[tool.memlint]\n"
    Path(name).write_text(f'{head}target = "trl=0.29"\n')
    assert run(["target"]) == 0
    assert capsys.readouterr().out.startswith(f"trl 0.29 ({name})\n")
    assert run(["target", "--target", "trl=1.0"]) == 0
    assert capsys.readouterr().out.startswith("trl 1.0 (--target)\n")
    Path(name).write_text(f'{head}target = "trl=main"\n')
    Path("a.py").write_text("x = 1\n")
    for command in (["target"], ["check", "a.py"]):
        assert run(command) == 2
        assert (
            f"{Path(name).absolute()}: 'target': target trl: expected a version"
            in capsys.readouterr().err
        )


def test_a_path_that_is_missing_has_no_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["target", str(tmp_path / "nope")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "fix"])
@pytest.mark.parametrize(
    ("target", "note"),
    [
        ("trl=1.61", "trl 1.61 (--target): newer than the tables: treated as "),
        ("trl=0.2", "trl 0.2 (--target): older than the tables: treated as "),
        (
            "trl=0.31",
            "trl 0.31 (--target): no such release known; near it are 0.29.1 and 1.0.0: "
            "treated as 0.29.1\n",
        ),
        (
            "trl=0.14.7",
            "trl 0.14.7 (--target): no such release known; near it are 0.14.0 and 0.15.2: "
            "treated as 0.14.0\n",
        ),
        ("trl=0.15.1", ""),
        ("trl=0.14.1rc1", ""),
        ("trl=1.16.9", ""),  # may have come since
        ("torch>=99", "torch 99 (--target): newer than the tables: treated as "),
        ("trl=1.16", ""),
        ("trl>=0.15", ""),
        ("newest", ""),
    ],
)
def test_a_target_that_no_table_has_is_told(
    command: str, target: str, note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.py").write_text("x = 1\n")
    assert run([command, "-q", "--target", target]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"memlint: {note}") if note else not said
    Path("memlint.toml").write_text(f'target = "{target}"')
    assert run([command, "-q"]) == 0
    assert ("(memlint.toml): " in capsys.readouterr().err) is bool(note)


@pytest.mark.parametrize("command", ["check", "fix"])
def test_a_pin_that_no_table_has_is_told_where_something_is_found(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("requirements.txt").write_text("trl==1.61.0\n")
    Path("a.py").write_text("x = 1\n")
    assert run([command, "-q"]) == 0
    assert not capsys.readouterr().err
    Path("b.py").write_text("from trl import SFTConfig\nSFTConfig('o', max_seq_length=8)\n")
    assert run([command, "--exit-zero"]) == 0
    line = f"memlint: trl 1.61.0 ({Path('requirements.txt').absolute()}): newer than the tables: "
    assert capsys.readouterr().err.count(line) == 1
    assert run([command, "--exit-zero", "--target", "trl=1.16"]) == 0
    assert "1.61.0" not in capsys.readouterr().err
