"""The JSON schema of the configuration: ``python -m tests.settings_schema`` writes it.

Editors complete and check ``memlint.toml`` and ``[tool.memlint]`` by ``docs/memlint.schema.json``.
It comes from the keys that ``memlint.project.config`` reads, the rules and the GPUs. It refuses
what ``load`` refuses, but for patterns whose brackets are broken. It accepts what ``load`` accepts,
but for names of rules in capitals. The GPUs stand in the VS Code extension's settings, too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memlint.memory.gpus import known_gpus
from memlint.project import config
from memlint.rule.file_rules import FILE_RULES
from memlint.rule.registry import known_rules

FILE = Path(__file__).parent.parent / "docs" / "memlint.schema.json"
EXTENSION = FILE.parent.parent / "editors" / "vscode" / "package.json"

_WHAT_FOR = {
    "select": "The rules to run: codes, beginnings of codes, names, or ALL.",
    "extend-select": "Rules to run as well.",
    "ignore": "Rules not to run. The most precise of select and ignore decides.",
    "per-file-ignores": "Pattern of files -> rules that are not reported in them.",
    "exclude": "Files and folders not to check, as in .gitignore, relative to this file.",
    "target": "Versions of the libraries, as in trl=0.29,transformers=4.57, or a table; or "
    "a range, as in every trl>=0.15,<2.",
    "unsafe-fixes": "Apply fixes that change training, too.",
    "runtime": "Allow fixes that import memlint_runtime.",
    "gpu": "The GPU that scripts run on. Findings are priced for it.",
    "assume": "Values that the script does not say, for prices: {seq_len = 4096}.",
    "prices": "Say what each finding costs.",
    "tests": "Report memory in tests, too.",
    "fixable": "Rules whose fixes are applied. Default: all.",
    "unfixable": "Rules whose fixes are not applied.",
    "baseline": "A file of findings that are not reported: `memlint check --write-baseline`.",
}  # fmt: skip
_STRING = {"type": "string"}
_RULES = {"type": "array", "items": {"$ref": "#/definitions/rule"}}
_PATTERN = {"type": "string", "pattern": r"^(?!!?\.\.(?:/|$))(?:!\s*\S|(?!!)\s*\S)"}
_SHAPES: dict[Any, dict[str, Any]] = {
    config._strings: _RULES,
    config._string: _STRING,
    config._flag: {"type": "boolean"},
    config._patterns: {"type": "array", "items": _PATTERN},
    config._per_file: {
        "type": "object", "propertyNames": _PATTERN, "additionalProperties": _RULES,
    },
    config._target: {"anyOf": [_STRING, {"type": "object", "additionalProperties": _STRING}]},
    config._assumptions: {
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
            {"type": "array", "items": _STRING},
        ]
    },
}  # fmt: skip


def schema() -> dict[str, Any]:
    """Return the schema of ``memlint.toml``, which is that of ``[tool.memlint]``."""
    properties = {
        key: {"description": _WHAT_FOR[key], **_SHAPES[reader]}
        for key, reader in config.READERS.items()
    }
    properties["gpu"] = {
        "description": _WHAT_FOR["gpu"],
        "anyOf": [{"enum": gpus()}, _STRING],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of memlint: memlint.toml, or [tool.memlint] of pyproject.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "definitions": {"rule": _rule()},
    }


def gpus() -> list[str]:
    """Return the names of the GPUs that memlint knows."""
    return [gpu.name for gpu in dict.fromkeys(known_gpus().values())]


def extension() -> str:
    """Return the package file of the VS Code extension, with the GPUs that memlint knows."""
    package = json.loads(EXTENSION.read_text(encoding="utf-8"))
    option = package["contributes"]["configuration"]["properties"]["memlint.gpu"]
    option["anyOf"][0]["enum"] = gpus()
    return json.dumps(package, indent=2, ensure_ascii=False) + "\n"


def _rule() -> dict[str, Any]:
    rules = [*FILE_RULES, *known_rules()]
    codes = [rule.code for rule in rules]
    groups = dict.fromkeys(code[:4] for code in codes)
    endings = dict.fromkeys(code[3:end] for code in codes for end in (4, 5, 6))
    return {
        "anyOf": [
            {"enum": ["ALL", "MEM", *groups, *codes, *(rule.name for rule in rules)]},
            {"pattern": f"^([Aa][Ll][Ll]|[Mm][Ee][Mm]({'|'.join(sorted(endings))})?)$"},
        ],
        "type": "string",
    }


def text() -> str:
    """Return the schema as the file holds it."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    EXTENSION.write_text(extension(), encoding="utf-8")
