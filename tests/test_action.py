"""The steps of the GitHub action, run by bash as a runner runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from memlint.source.bounded import read_regular_text

ROOT = Path(__file__).parent.parent
STEPS = {
    step.get("name"): step
    for step in yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
}
BEFORE = """\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", packing=True, max_length=2048)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
"""
AFTER = BEFORE.replace("max_length", "max_seq_length")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose last commit is followed by a change."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(BEFORE)
    (folder / "requirements.txt").write_text("trl==1.16.0\ntransformers==5.23.0\n")
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@localhost"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Train"]):
        subprocess.run([*git, *command], check=True)
    (folder / "train.py").write_text(AFTER)
    programs = tmp_path / "programs"
    programs.mkdir()
    memlint = f'PYTHONPATH="{ROOT}:{ROOT}/rules" exec {sys.executable} -m memlint "$@"'
    for name, text in {
        "memlint": f"#!/bin/sh\n{memlint}\n",
        "gh": f'#!/bin/sh\necho "$@" > "{tmp_path}/said"\n',
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return folder


def run(step: str, project: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    programs = project.parent / "programs"
    env = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "MEMLINT": str(programs / "memlint"),
        "RUNNER_TEMP": str(project.parent),
        "GITHUB_OUTPUT": str(project.parent / "outputs"),
        **settings,
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]]
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)


def test_the_comment_shows_what_a_pull_request_changes(project: Path) -> None:
    done = run("Comment", project, BASE="HEAD", PULL_REQUEST="https://host/pull/7", GH_TOKEN="t")
    assert done.returncode == 0, done.stderr
    body = read_regular_text(str(project.parent / "memlint.md"))
    assert "max_seq_length" in body
    said = read_regular_text(str(project.parent / "said"))
    assert said.startswith("pr comment https://host/pull/7 --edit-last --create-if-none")


def test_a_comparison_that_fails_writes_no_comment(project: Path) -> None:
    done = run("Comment", project, BASE="no-such-commit", PULL_REQUEST="p", GH_TOKEN="t")
    assert done.returncode == 2
    assert not (project.parent / "said").exists()


def test_changed_lines_are_annotated_and_written_as_sarif(project: Path) -> None:
    settings = {"PATHS": ".", "ARGUMENTS": "--no-prices", "BASE": "HEAD", "SARIF": "memlint.sarif"}
    done = run("Check", project, **settings)
    assert done.returncode == 1
    assert "::error" in done.stdout
    assert "file=train.py,line=3" in done.stdout.replace(" ", "")
    assert "max_seq_length" in (project / "memlint.sarif").read_text()
    assert read_regular_text(str(project.parent / "outputs")) == "sarif-file=memlint.sarif\n"
