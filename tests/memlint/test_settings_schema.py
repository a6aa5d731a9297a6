"""The JSON schema of the configuration says what ``load`` says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import jsonschema
import pytest

from memlint.project.config import READERS, ConfigError, load
from tests.settings_schema import EXTENSION, FILE, extension, schema, text

# Each is tried as the value of each key.
VALUES = (
    '""', '"MEM301"', '"trl=0.29"', "1", "1.5", "true", "2026-01-01", "[]", '["MEM3"]', '["mem30"]',
    '["all", "fp32-weights"]', '["MEM999"]', '["M"]', '["MEM3010"]', '["fp32-weight"]', "[1]",
    '["MEM3", true]', '["seq_len=4096"]', '["old/", "!keep.py"]', '[""]', '["!"]', '[" "]',
    '["../other"]', '["!../other"]', '[".."]', '["..data"]', '[["MEM3"]]', "{}", "{a = 1}",
    '{a = "x"}', "{a = true}", "{a = 2026-01-01}", "{a = [1]}", '{a = ["MEM3"]}',
    '{"tests/*" = ["MEM3", "MEM999"]}', '{"" = ["MEM3"]}', '{"../x" = []}', "{a = {b = 1}}",
)  # fmt: skip


def refusals(content: str, folder: Path) -> tuple[bool, bool]:
    """Return whether ``load`` and whether the schema refuses a ``memlint.toml``."""
    path = folder / "memlint.toml"
    path.write_text(content)
    try:
        load(str(path))
        by_load = False
    except ConfigError:
        by_load = True
    return by_load, not jsonschema.Draft7Validator(schema()).is_valid(tomllib.loads(content))


def test_the_file_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run: python -m tests.settings_schema"
    jsonschema.Draft7Validator.check_schema(schema())
    same = EXTENSION.read_text(encoding="utf-8") == extension()
    assert same, "the GPUs of the VS Code extension: python -m tests.settings_schema"


@pytest.mark.parametrize("key", [*READERS, "selct", "MEM301"])
def test_it_refuses_what_load_refuses_and_nothing_else(key: str, tmp_path: Path) -> None:
    verdicts = {value: refusals(f"{key} = {value}", tmp_path) for value in VALUES}
    assert {value: both for value, both in verdicts.items() if both[0] != both[1]} == {}


def test_a_whole_file(tmp_path: Path) -> None:
    content = (
        'select = ["MEM3"]\ngpu = "RTX 4090"\nassume = {seq_len = 4096}\nunsafe-fixes = false\n'
        'target = {trl = "0.29"}\n[per-file-ignores]\n"tests/*" = ["MEM"]\n'
    )
    assert refusals(content, tmp_path) == (False, False)
    assert refusals(content + 'exclude = "x"\n', tmp_path) == (True, True)
