"""Architectures by name: a shipped table, a ``config.json``, or the local hub cache."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from memlint.memory.architecture import Architecture, Layer
from memlint.memory.config_reader import read_config
from memlint.memory.config_values import ConfigError
from memlint.memory.settings import Settings, SettingsError
from memlint.memory.trainer_kinds import head_of
from memlint.source.bounded import parse_json, read_regular
from memlint.source.patterns import lazy_pattern

_PLAIN = lazy_pattern(r"(?:true|false|-?\d+(?:\.\d+)?)$")  # what is no text
_TAIL = lazy_pattern(
    r"[-_.](?:unsloth-bnb-4bit|bnb-4bit|bnb-8bit|gptq(?:-int[48]|-4bit|-8bit)?|int[48]|awq"
    r"|gguf|fp8|bf16|4bit|8bit|instruct|chat|base|it|hf|pt)$",
    re.IGNORECASE,
)


# A path, a hub name and its remark are shorter.
_LONGEST_NAME = 512

Row = dict[str, Any]


@cache
def _named() -> list[tuple[str, Row]]:
    path = os.path.join(os.path.dirname(__file__), "data", "models.json")
    rows = json.loads(read_regular(path))["models"]
    return [(name, row) for row in rows for name in (row["name"], *row["aliases"])]


@cache
def _by(key: Callable[[str], str]) -> dict[str, Row]:
    """The rows by what ``key`` makes of their names; of several the first."""
    # Without dots 1.3b is 13b: a plain name that has none comes first.
    named = sorted(_named(), key=lambda pair: key is plain_name and "." in pair[0])
    return {key(name): row for name, row in reversed(named)}


def _stripped(name: str) -> str:
    return plain_name(_strip(name))


def _row(name: str) -> Row | None:
    """The row of a name without organization and case, or without punctuation as well."""
    is_plain = name.isalnum()
    return (
        (_by(plain_name).get(name) if is_plain else None)
        or _by(_last).get(name)
        or (_by(_stripped).get(name) if is_plain else None)
    )


def plain_name(name: str) -> str:
    """A hub name without organization, case and punctuation."""
    return "".join(filter(str.isalnum, _last(name)))


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


_ENDS = {"classes": "ForSequenceClassification", "tokens": "ForTokenClassification"}


def with_head(config: Mapping[str, Any], head: str | None, labels: int) -> Architecture:
    """The architecture of a configuration with the head of another class."""
    if head in _ENDS:
        config = {**config, "architectures": [_ENDS[head]]}
    if labels:
        config = {key: value for key, value in config.items() if key != "id2label"}
        config["num_labels"] = labels
    architecture = read_config(config)
    if head is None or architecture.towers:
        return architecture
    tied = architecture.tied and head == "lm"
    return architecture._replace(head=head, tied=tied, labels=labels or architecture.labels)


def find_architecture(
    model: str | Mapping[str, Any], head: str | None = None, labels: int = 0
) -> Architecture:
    """The architecture of a hub name, a path or a configuration, which may say only what differs
    from that of ``_name_or_path``, as a name may behind a question mark. head, labels: as
    ``with_head``.

    Raises:
        SettingsError: nothing of that name is known, with the nearest names.
    """
    if isinstance(model, str) and "?" in model:
        model = _with_changes(model)
    changes: Mapping[str, Any] = {} if isinstance(model, str) else model
    base = model if isinstance(model, str) else model.get("_name_or_path")
    if "model_type" in changes or not isinstance(base, str):
        return _read(changes, "the given configuration", head, labels)
    model = base
    try:
        return _read({**(_local(model) or find_config(model)), **changes}, model, head, labels)
    except KeyError:
        table = {**_by(_stripped), **_by(_last), **_by(plain_name)}
    import difflib

    model = model if len(model) <= _LONGEST_NAME else f"{model[:80]} ..."
    near = difflib.get_close_matches(plain_name(_strip(model)), table, 3, 0.6)
    names = list(dict.fromkeys(str(table[key]["name"]) for key in near))
    hint = f"; near: {', '.join(names)}" if names else ""
    raise SettingsError(
        f"the shape of model {model!r} is not known{hint}: give its config.json "
        '(--model-config PATH; in settings "model": {"config": {...}})'
    )


def _with_changes(name: str) -> dict[str, Any]:
    """The configuration of ``Qwen/Qwen2.5-7B?num_hidden_layers=14&tie_word_embeddings=false``."""
    base, _, changes = name.partition("?")
    parts = (one.partition("=") for one in changes.split("&"))
    values = {key: json.loads(text) if _PLAIN.match(text) else text for key, _, text in parts}
    return {**({"_name_or_path": base} if base else {}), **values}


def architecture_of(settings: Settings) -> Architecture:
    """The architecture of a run's model; raises as ``find_architecture`` does."""
    return find_architecture(
        settings.model, *head_of(settings.trainer, settings.head, settings.labels)
    )


def find_config(model: str) -> Mapping[str, Any]:
    """The configuration of a hub name in the shipped table.

    Raises:
        KeyError: the table has no such name.
    """
    for name in _candidates(model) if len(model) <= _LONGEST_NAME else ():
        row = _row(_last(name)) or _row(plain_name(name))
        if row is not None:
            config: Mapping[str, Any] = row["config"]
            return config
    raise KeyError(model)


def _candidates(model: str) -> Iterator[str]:
    """The name, then shorter ones: suffixes off, a remark in brackets off."""
    yield model
    bare = model.strip().replace("___", ".")  # as folders of ModelScope's cache write dots
    if bare.endswith(")") and "(" in bare:
        bare = bare.partition("(")[0].strip()
    if bare != model:
        yield bare
    yield _strip(bare)


def _read(
    config: Mapping[str, Any], name: str, head: str | None = None, labels: int = 0
) -> Architecture:
    try:
        architecture = with_head(config, head, labels)
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
    places = [model if model.endswith(".json") else os.path.join(model, "config.json")]
    if "/" in model and not os.path.exists(model):
        home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
        root = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
        folder = os.path.join(root, f"models--{model.replace('/', '--')}", "snapshots")
        if os.path.isdir(folder):
            snapshots = sorted(os.listdir(folder))
            places += [os.path.join(folder, each, "config.json") for each in snapshots]
    for place in places:
        try:
            text = read_regular(place).decode()
        except (OSError, ValueError):
            continue
        try:
            data = parse_json(text)
        except ValueError as error:
            raise SettingsError(f"{place} is no JSON: {error}") from None
        if isinstance(data, Mapping):
            return data
    return None
