"""Releases that the shipped tables do not reach are read from the files that a user has."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from memlint.api.installed import cache_folder
from memlint.api.lookup import Api
from memlint.api.target_versions import Target
from memlint.project.resolve import Resolver

_CONFIG = """
from dataclasses import dataclass, field
from transformers import TrainingArguments

raise SystemExit("nothing of this is run")

@dataclass
class SFTConfig(TrainingArguments):
    max_length: int | None = field(default=4096)
    brand_new: bool = False
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository; the user's cache folder is beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    return project


def _package(folder: Path) -> Path:
    (folder / "trl" / "trainer").mkdir(parents=True)
    (folder / "trl" / "__init__.py").write_text("from .trainer.sft_config import SFTConfig\n")
    (folder / "trl" / "trainer" / "__init__.py").write_text("")
    (folder / "trl" / "trainer" / "sft_config.py").write_text(_CONFIG)
    return folder


def _installed(project: Path, version: str = "99.1.0") -> Path:
    packages = _package(project / ".venv" / "lib" / "python3.11" / "site-packages")
    metadata = packages / f"trl-{version}.dist-info"
    metadata.mkdir()
    (metadata / "RECORD").write_text("trl/__init__.py,sha256=x,1\n")
    return packages


def _target(project: Path) -> Target:
    return Resolver(environ={}, path=[]).resolve(project)


def test_a_newer_release_is_read_from_its_files(project: Path) -> None:
    _installed(project)
    target = _target(project)
    resolved = target.version("trl")
    assert (resolved.version, resolved.source) == ("99.1.0", str(project / ".venv"))
    assert resolved.note == "newer than the tables: read from its installed files"
    api = Api(target)
    assert api.accepts("trl.SFTConfig", "brand_new") is True
    assert api.default("trl.SFTConfig", "max_length") == 4096
    assert api.accepts("trl.SFTConfig", "learning_rate") is True  # of transformers, as shipped
    assert api.accepts("trl.SFTConfig", "packing") is False
    assert api.exists("trl.DPOConfig") is False
    assert api.exists("trl.trainer.sft_config.SFTConfig") is True
    gone = api.history("trl.SFTConfig", "packing")
    assert gone is not None
    assert gone.until == "99.1"
    come = api.history("trl.SFTConfig", "brand_new")
    assert come is not None
    assert (come.since, come.until) == ("99.1", None)
    assert Api().history("trl.SFTConfig", "packing") != gone


def test_it_is_read_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = _installed(project)
    first = _target(project)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", lambda *_, **__: 1 / 0)
        assert _target(project) == first
    (packages / "trl-99.1.0.dist-info" / "RECORD").write_text("trl/__init__.py,sha256=y,1\n")
    assert _target(project).version("trl").tables != first.version("trl").tables


def test_an_editable_install_and_a_source_tree_are_read_where_they_lie(project: Path) -> None:
    packages = project / ".venv" / "lib" / "python3.11" / "site-packages"
    metadata = packages / "trl-99.2.0.dev0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "RECORD").write_text("")
    source = _package(project.parent / "my trl")
    url = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (metadata / "direct_url.json").write_text(json.dumps(url))
    target = _target(project)
    assert target.version("trl").version == "99.2.0.dev0"
    assert Api(target).accepts("trl.SFTConfig", "brand_new") is True
    (source / ".git").mkdir()
    (source / "pyproject.toml").write_text('[project]\nname = "trl"\nversion = "99.3.0.dev0"\n')
    target = _target(source)
    assert target.version("trl").version == "99.3.0.dev0"
    assert target.version("trl").note.startswith("this is trl itself; newer than the tables: read")
    assert Api(target).accepts("trl.SFTConfig", "brand_new") is True


@pytest.mark.parametrize("fault", ["missing", "broken", "pipe", "deep", "large", "nothing"])
def test_files_that_cannot_be_read_cost_the_newest_known(project: Path, fault: str) -> None:
    config = _installed(project) / "trl" / "trainer" / "sft_config.py"
    config.unlink()
    match fault:
        case "missing":
            (config.parent.parent / "__init__.py").unlink()
        case "broken":
            config.write_text("class (")
        case "pipe":
            os.mkfifo(config)
        case "deep":
            config.write_text("x = " + "(" * 100_000 + ")" * 100_000)
        case "large":
            config.write_text("#" * (5 << 20))
        case _:
            config.symlink_to("/dev/zero")
    target = _target(project)
    resolved = target.version("trl")
    assert resolved.tables == ""
    assert resolved.note.endswith(", since its files could not be read")
    assert "treated as" in resolved.note
    assert Api(target).accepts("trl.SFTConfig", "packing") is True
    assert _target(project) == target


def test_a_damaged_cache_is_made_anew(project: Path) -> None:
    _installed(project)
    first = _target(project)
    table = Path(first.version("trl").tables, "trl.table")
    table.write_bytes(b"nonsense")
    assert _target(project) == first
    assert Api(_target(project)).accepts("trl.SFTConfig", "brand_new") is True


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/memlint"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "~/.cache/memlint"),
        ("darwin", {}, "~/Library/Caches/memlint"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/memlint"),
    ],
)
def test_the_cache_lies_where_the_system_keeps_caches(
    platform: str, environ: dict[str, str], folder: str
) -> None:
    assert cache_folder(environ, platform) == os.path.expanduser(folder)
