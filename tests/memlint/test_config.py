"""Configuration: nearest file, every key, and misspellings that are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memlint.project.config import ConfigError, Settings, in_folder, load, nearest, override


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_every_key(tmp_path: Path) -> None:
    path = write(
        tmp_path / "pyproject.toml",
        """
        [tool.memlint]
        select = ["MEM3", "fp32-weights"]
        extend-select = ["MEM402"]
        ignore = ["MEM001"]
        exclude = ["old/", "*_gen.py"]
        target = "trl=0.29"
        unsafe-fixes = true
        [tool.memlint.per-file-ignores]
        "tests/*" = ["ALL"]
        """,
    )
    assert load(path) == Settings(
        root=str(tmp_path),
        origin=path,
        select=("MEM3", "fp32-weights"),
        extend_select=("MEM402",),
        ignore=("MEM001",),
        per_file_ignores=(("tests/*", ("ALL",)),),
        exclude=("old/", "*_gen.py"),
        target="trl=0.29",
        unsafe_fixes=True,
    )


def test_nearest_file_with_something_to_say(tmp_path: Path) -> None:
    write(tmp_path / "memlint.toml", 'ignore = ["MEM3"]')
    write(tmp_path / "a" / "pyproject.toml", "[tool.other]\nx = 1")
    (tmp_path / "a" / "b").mkdir()
    assert nearest(str(tmp_path / "a" / "b")).ignore == ("MEM3",)
    write(tmp_path / "a" / "pyproject.toml", "[tool.memlint]\nignore = []")
    known: dict[str, Settings | None] = {}
    assert nearest(str(tmp_path / "a" / "b"), known).ignore == ()
    assert known[str(tmp_path / "a")] is known[str(tmp_path / "a" / "b")]
    # Both in one folder: the file of its own goes first.
    write(tmp_path / "a" / "memlint.toml", 'ignore = ["MEM4"]')
    both = in_folder(str(tmp_path / "a"))
    assert both is not None
    assert both.ignore == ("MEM4",)


def test_target_may_be_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "memlint.toml", '[target]\ntrl = "0.29"\ntorch = "2.9"')
    settings = load(path)
    assert settings is not None
    assert settings.target == "trl=0.29,torch=2.9"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["MEM3"]', "unknown key 'selct'; did you mean 'select'?"),
        ("zzz = 1", "unknown key 'zzz'; known are select, extend-select, ignore"),
        ('select = "MEM3"', "'select' must be a list of strings, not 'MEM3'"),
        ("ignore = [1]", "'ignore' must be a list of strings"),
        ('ignore = ["MEM999"]', "no rule is called 'MEM999'"),
        ('ignore = ["fp32-weigths"]', "did you mean 'fp32-weights'?"),
        ('unsafe-fixes = "yes"', "'unsafe-fixes' must be true or false, not 'yes'"),
        ("target = 1", "'target' must be a string"),
        ("per-file-ignores = []", "'per-file-ignores' must be a table"),
        (
            'per-file-ignores = {a = ["MEM3"], "x/*" = "MEM2"}',
            "'per-file-ignores.\"x/*\"' must be a list of strings, not 'MEM2'",
        ),
        ("per-file-ignores = {a = ['MEM9x']}", "no rule is called 'MEM9x'"),
        ("select = [", "is not valid TOML"),
    ],
)
def test_mistakes_are_told_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "memlint.toml", text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_missing_file_and_wrong_section(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        load(str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="must be a table"):
        load(write(tmp_path / "pyproject.toml", "[tool]\nmemlint = 1"))


def test_command_line_goes_over_the_file() -> None:
    settings = Settings(target="trl=0.1", unsafe_fixes=True)
    assert override(settings) == settings
    assert override(settings, target="trl=1.0").target == "trl=1.0"
    assert override(settings, unsafe_fixes=False).unsafe_fixes is False


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [("./data", "/data"), ("{root}/data/x.py", "/data/x.py"), ("data/", "data/"), ("!./a", "!/a")],
)
def test_paths_as_people_write_them_become_patterns(
    tmp_path: Path, pattern: str, taken: str
) -> None:
    pattern = pattern.replace("{root}", tmp_path.as_posix())
    settings = load(write(tmp_path / "memlint.toml", f'exclude = ["{pattern}"]'))
    assert settings is not None
    assert settings.exclude == (taken,)


@pytest.mark.parametrize("pattern", ["[a", "[z-a]", "../other"])
@pytest.mark.parametrize("key", ["exclude", "per-file-ignores"])
def test_a_pattern_that_can_match_nothing_is_an_error(
    tmp_path: Path, pattern: str, key: str
) -> None:
    value = f'["{pattern}"]' if key == "exclude" else f'{{ "{pattern}" = ["MEM3"] }}'
    path = write(tmp_path / "memlint.toml", f"{key} = {value}")
    with pytest.raises(ConfigError, match=f"memlint.toml: '{key}' has "):
        load(path)


def test_a_deeply_nested_configuration_is_one_error(tmp_path: Path) -> None:
    path = write(tmp_path / "memlint.toml", "exclude = " + "[" * 5000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_a_configuration_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "memlint.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        load(str(tmp_path / "memlint.toml"))


def test_an_own_file_that_cannot_be_read_is_told_and_not_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[tool.memlint]\nignore = ["MEM3"]')
    own = tmp_path / "memlint.toml"
    own.mkdir()
    with pytest.raises(ConfigError, match=r"memlint\.toml: cannot be read: is a directory"):
        nearest(str(tmp_path))
    own.rmdir()
    own.symlink_to("Gone.toml")
    with pytest.raises(ConfigError, match=r"memlint\.toml: cannot be read: no such file"):
        nearest(str(tmp_path))


def test_a_wrong_target_names_the_file_that_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from memlint.cli.main import run

    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "memlint.toml", 'target = "trl=latest-and-greatest"')
    (tmp_path / "train.py").write_text("x = 1\n")
    assert run(["check"]) == 2
    assert f"{path}: 'target': " in capsys.readouterr().err
    write(tmp_path / "memlint.toml", 'target = "trl=0.29"')
    assert run(["target"]) == 0
    assert "trl 0.29" in (out := capsys.readouterr().out)
    assert "(memlint.toml)" in out


def test_an_empty_pattern_can_match_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memlint.toml"
    path.write_text('exclude = [""]\n')
    with pytest.raises(ConfigError, match="can match nothing: it is empty"):
        load(str(path))


def test_a_configuration_of_more_than_people_write_is_not_parsed(tmp_path: Path) -> None:
    tables = "".join(f"[a{number}.b]\n" for number in range(60_000))
    path = write(tmp_path / "pyproject.toml", f"[tool.memlint]\n{tables}")
    with pytest.raises(ConfigError, match="is larger than 524,288 bytes"):
        load(path)
