"""Which files are taken: what git, configuration and common sense leave out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memlint.project.config import Settings
from memlint.project.discover import Found, Skipped, discover
from memlint.source.diagnostics import FileError


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def taken(*paths: str, **options: bool) -> list[str]:
    found = discover(paths or (".",), **options)  # type: ignore[arg-type]
    return [each.path for each in found if isinstance(each, Found)]


def told(*paths: str) -> list[str]:
    found = discover(paths or (".",))
    return [f"{each.path} {each.message}" for each in found if isinstance(each, FileError)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_scripts_and_notebooks_in_order(here: Path) -> None:
    make(here, "b.py", "a.ipynb", "c.txt", "sub/d.py", "README.md", "a/x.py")
    assert taken() == ["a.ipynb", "b.py", "a/x.py", "sub/d.py"]
    assert taken("sub", "b.py", "./b.py") == ["sub/d.py", "b.py"]
    assert taken(str(here / "sub")) == [str(here / "sub" / "d.py")]


def test_usual_folders_and_environments_are_skipped(here: Path) -> None:
    make(
        here, ".git/a.py", ".venv/a.py", "node_modules/a.py", "build/a.py", "x/site-packages/a.py",
        "unsloth_compiled_cache/a.py",
        "myenv/pyvenv.cfg", "myenv/lib/a.py", "conda/conda-meta/history", "conda/a.py", "ok/a.py",
    )  # fmt: skip
    assert taken() == ["ok/a.py"]


def test_named_files_are_taken_unless_a_hook_named_them(here: Path) -> None:
    make(here, "build/a.py", "skip/b.py", "c.py")
    (here / "memlint.toml").write_text('exclude = ["skip"]')
    assert taken("build/a.py", "skip/b.py") == ["build/a.py", "skip/b.py"]
    assert taken("build/a.py", "skip/b.py", "c.py", force_exclude=True) == ["c.py"]
    assert taken("skip", force_exclude=True) == []


def test_git_ignores_apply_by_folder(here: Path) -> None:
    make(here, "a.py", "gen/b.py", "x/c.py", "x/keep.py", "x/y/d.py", "e_gen.py", ".git/config")
    (here / ".gitignore").write_text("gen/\n*_gen.py\nc.py\n")
    (here / "x" / ".gitignore").write_text("!c.py\n/keep.py\n")
    assert taken() == ["a.py", "x/c.py", "x/y/d.py"]
    # The patterns of the repository hold when only a part of it is asked for.
    assert taken("x") == ["x/c.py", "x/y/d.py"]
    (here / ".git" / "info").mkdir()
    (here / ".git" / "info" / "exclude").write_text("y\n")
    assert taken("x") == ["x/c.py"]


def test_configuration_excludes_and_is_nearest(here: Path) -> None:
    make(here, "a.py", "old/b.py", "sub/old/c.py", "sub/d.py")
    (here / "pyproject.toml").write_text('[tool.memlint]\nexclude = ["old", "/sub/d.py"]')
    assert taken() == ["a.py"]
    (here / "sub" / "memlint.toml").write_text('ignore = ["MEM001"]')
    found = {each.path: each.settings for each in discover(["."]) if isinstance(each, Found)}
    assert sorted(found) == ["a.py", "sub/d.py", "sub/old/c.py"]
    assert found["sub/d.py"].ignore == ("MEM001",)
    only = list(discover(["."], config=Settings(root=str(here), exclude=("*.py",))))
    assert only == []


def test_copies_of_libraries_are_skipped_with_a_word(here: Path) -> None:
    make(
        here, "requirements.txt", "train.py", "third_party/trl/trainer/sft_trainer.py",
        "third_party/trl/__init__.py", "third_party/trl/import_utils.py",
        "src/transformers/mine.py",
    )  # fmt: skip
    found = list(discover(["."]))
    skipped = [each for each in found if isinstance(each, Skipped)]
    assert [(each.path, each.reason) for each in skipped] == [
        ("third_party/trl", "a copy of a library")
    ]
    assert taken() == ["train.py", "src/transformers/mine.py"]
    assert taken("third_party/trl/trainer") == ["third_party/trl/trainer/sft_trainer.py"]


def test_a_library_may_check_itself(here: Path) -> None:
    make(here, "trl/trl/__init__.py", "trl/trl/import_utils.py", "trl/trl/trainer/x.py")
    (here / "trl" / "pyproject.toml").write_text('[project]\nname = "trl"\n')
    assert "trl/trl/trainer/x.py" in taken()
    make(here, "requirements.txt")
    assert taken() == []


def test_links_to_a_file_that_is_no_other_way_found(
    here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "a.py"
    outside.write_text("")
    (here / "one.py").symlink_to(outside)
    (here / "two.py").symlink_to(outside)
    (here / "z.py").write_text("")
    assert taken() == ["z.py", "one.py"]


def test_links(here: Path) -> None:
    make(here, "real/a.py")
    (here / "real" / "up").symlink_to(here)
    (here / "self").symlink_to("self")
    (here / "self.py").symlink_to("self.py")
    (here / "gone.py").symlink_to("nowhere.py")
    (here / "linked.py").symlink_to("real/a.py")
    (here / "other").symlink_to("real")
    assert taken() == ["real/a.py"]
    assert taken("linked.py") == ["linked.py"]
    assert told() == [
        "gone.py does not exist",
        "self is a loop of links",
        "self.py is a loop of links",
        f"real/up is a folder loop: it leads back to {here}",
    ]
    assert told("self", "none.py") == ["self is a loop of links", "none.py does not exist"]
    assert taken("other") == ["other/a.py"]


def test_pipes_are_not_opened_on_a_walk(here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    assert taken() == []


def test_unreadable_folder_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(here, "a.py", "locked/b.py")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if "locked" in str(path):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    assert taken() == ["a.py"]
    assert told() == ["locked cannot be read: permission denied"]


def test_other_formats_are_refused_when_named(here: Path) -> None:
    make(here, "a.toml", "script")
    assert told("a.toml") == ["a.toml is neither a Python file, a notebook nor a recipe"]
    assert taken("script") == ["script"]


def test_a_tree_deeper_than_the_recursion_limit_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
    Path("train.py").write_text("")
    os.chdir(tmp_path)
    try:
        (found,) = discover(["."])
    finally:
        # Removing folder after folder: what cleans up after tests recurses.
        os.chdir("d/" * 1000)
        os.chdir("d/" * 200)
        os.unlink("train.py")
        for _ in range(1200):
            os.chdir("..")
            os.rmdir("d")
    assert isinstance(found, Found)
    assert found.path == "d/" * 1200 + "train.py"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_pipes_in_a_tree_block_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "trl" / "trainer").mkdir(parents=True)
    (tmp_path / "trl" / "__init__.py").write_text("")
    (tmp_path / "trl" / "import_utils.py").write_text("")
    os.mkfifo(tmp_path / "setup.cfg")
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "train.py").write_text("")
    names = [Path(each.path).name for each in discover([str(tmp_path)]) if isinstance(each, Found)]
    assert names == ["setup.py", "train.py"]
