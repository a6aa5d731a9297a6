"""Architectures by name: a shipped table, a ``config.json``, or the local hub cache."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from memlint.memory.architecture import Architecture, Layer
from memlint.memory.families import ConfigError, read_config
from memlint.memory.settings import SettingsError

_TAIL = re.compile(
    r"[-_.](?:unsloth-bnb-4bit|bnb-4bit|bnb-8bit|gptq(?:-int[48]|-4bit|-8bit)?|int[48]|awq"
    r"|gguf|fp8|bf16|4bit|8bit|instruct|chat|base|it|hf|pt)$",
    re.IGNORECASE,
)


@cache
def _table() -> dict[str, dict[str, Any]]:
    """Plain names (no organization, no punctuation) to rows."""
    text = (Path(__file__).parent / "data" / "models.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, Any]] = {}
    rows = json.loads(text)["models"]
    # Without dots 1.3b is 13b: a name that has none comes first.
    named = [(name, row) for row in rows for name in (row["name"], *row["aliases"])]
    for name, row in sorted(named, key=lambda pair: "." in pair[0]):
        table.setdefault(plain_name(name), row)
    for name, row in named:
        table.setdefault(_last(name), row)
    for row in rows:
        for name in (row["name"], *row["aliases"]):
            table.setdefault(plain_name(_strip(name)), row)
    return table


def table_configs() -> dict[str, Mapping[str, Any]]:
    """The table's hub names and their configurations."""
    return {row["name"]: row["config"] for row in _table().values()}


def plain_name(name: str) -> str:
    """A hub name without organization, case and punctuation."""
    return "".join(character for character in _last(name) if character.isalnum())


def _last(name: str) -> str:
    """A hub name without organization and case."""
    return name.rstrip("/").rpartition("/")[2].lower()


def _strip(name: str) -> str:
    """The name without suffixes of variants (``-Instruct``, ``-bnb-4bit``, ``-GPTQ``)."""
    last = name.rstrip("/").rpartition("/")[2]
    while True:
        shorter = _TAIL.sub("", last)
        if shorter == last or not shorter:
            return last
        last = shorter


def find_architecture(model: str | Mapping[str, Any]) -> Architecture:
    """The architecture of a hub name, a path or a configuration.

    Raises:
        SettingsError: nothing of that name is known, with the nearest names.
    """
    if not isinstance(model, str):
        return _read(model, "the given configuration")
    config = _local(model)
    if config is not None:
        return _read(config, model)
    try:
        return _read(find_config(model), model)
    except KeyError:
        table = _table()
    import difflib

    near = difflib.get_close_matches(plain_name(_strip(model)), table, 3, 0.6)
    names = list(dict.fromkeys(str(table[key]["name"]) for key in near))
    hint = f"; near: {', '.join(names)}" if names else ""
    raise SettingsError(
        f"the shape of model {model!r} is not known{hint}: give its config.json "
        "(--model-config PATH)"
    )


def find_config(model: str) -> Mapping[str, Any]:
    """The configuration of a hub name in the shipped table.

    Raises:
        KeyError: the table has no such name.
    """
    table = _table()
    for name in _candidates(model):
        row = table.get(_last(name)) or table.get(plain_name(name))
        if row is not None:
            config: Mapping[str, Any] = row["config"]
            return config
    raise KeyError(model)


def _candidates(model: str) -> list[str]:
    """The name, then shorter ones: suffixes off, a remark in brackets off."""
    bare = re.sub(r"\s*\(.*\)\s*$", "", model).strip()
    return list(dict.fromkeys((model, bare, _strip(bare))))


def _read(config: Mapping[str, Any], name: str) -> Architecture:
    try:
        architecture = read_config(config)
    except ConfigError as error:
        raise SettingsError(f"{name}: {error}") from None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # Configurations come from anywhere: a list where a number belongs is the user's to see.
        raise SettingsError(f"{name}: the configuration cannot be read ({error})") from None
    if architecture.depth < 1 or not all(_sound(layer) for layer, _ in architecture.layers):
        raise SettingsError(f"{name}: the configuration describes layers without width or heads")
    return architecture


def _sound(layer: Layer) -> bool:
    attention = layer.attention
    sizes = [attention.heads, attention.key_heads, attention.key_dim, attention.value_dim]
    if attention.projections and attention.kind in ("full", "sliding", "latent") and 0 in sizes:
        return False
    return all(min(item.inputs, item.outputs, item.experts) > 0 for item in layer.linears)


def _local(model: str) -> Mapping[str, Any] | None:
    """A ``config.json`` at a path, in a folder, or in the local hub cache."""
    path = Path(model)
    places = [path] if path.suffix == ".json" else [path / "config.json"]
    if "/" in model and not path.exists():
        home = os.environ.get("HF_HOME")
        root = Path(
            os.environ.get("HF_HUB_CACHE")
            or (Path(home) / "hub" if home else Path.home() / ".cache" / "huggingface" / "hub")
        )
        folder = root / f"models--{model.replace('/', '--')}" / "snapshots"
        if folder.is_dir():
            places.extend(sorted(folder.glob("*/config.json")))
    for place in places:
        try:
            text = place.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        try:
            data = json.loads(text)
        except ValueError as error:
            raise SettingsError(f"{place} is no JSON: {error}") from None
        if isinstance(data, Mapping):
            return data
    return None
