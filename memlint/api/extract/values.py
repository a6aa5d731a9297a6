"""The values that an option may have, where the library's code names them.

An option that ``__post_init__`` turns into an enumeration (``self.optim =
OptimizerNames(self.optim)``) takes that enumeration's values; a loss that a trainer picks by name,
and refuses where it knows none such, takes the names that it is compared with. Enumerations that
another library reads are listed under their own names.
"""

from __future__ import annotations

import ast
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memlint.api.extract.history import Encoder

# Files in which options are turned into enumerations, and the class whose options they are.
_FILES: Mapping[str, tuple[str, ...]] = {
    "transformers": ("transformers/training_args.py", "transformers/trainer_utils.py"),
    "accelerate": ("accelerate/utils/dataclasses.py",),
    "trl": (),
}
_OWNER = "transformers.TrainingArguments"
_LISTED = ("DynamoBackend", "PrecisionType")
_LOSS = "loss_type"


def values(package: str, path: Path) -> dict[str, tuple[str, ...]]:
    """Qualified option (``transformers.TrainingArguments.optim``) -> what it may be."""
    with zipfile.ZipFile(path) as archive:
        if package == "trl":
            return dict(_losses(archive))
        trees = [ast.parse(archive.read(name)) for name in _FILES.get(package, ())]
    enumerations = {name: found for tree in trees for name, found in _enumerations(tree)}
    read = {f"{package}.{name}": enumerations[name] for name in _LISTED if name in enumerations}
    for tree in trees:
        for option, name in _converted(tree):
            if name in enumerations:
                read[f"{_OWNER}.{option}"] = enumerations[name]
    return read


def encode_values(
    versions: Sequence[str], days: Sequence[str], read: Sequence[Mapping[str, tuple[str, ...]]]
) -> bytes:
    """The table of what was read of every release, oldest first."""
    encoder = Encoder(len(versions) - 1)
    by_option: dict[str, dict[int, tuple[str, ...]]] = defaultdict(dict)
    for number, found in enumerate(read):
        for option, named in found.items():
            by_option[option][number] = named
    lines = {"!": json.dumps(dict(zip(versions, days, strict=True)))}
    for option, named_at in by_option.items():
        # An option that is not named in some release is open there.
        lines[option] = json.dumps(encoder.members(named_at, range(len(versions))))
    return "".join(f"{name}\t{lines[name]}\n" for name in sorted(lines)).encode()


def _enumerations(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(b) for b in node.bases):
            found = [
                statement.value.value
                for statement in node.body
                if isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ]
            if found:
                yield node.name, tuple(found)


def _converted(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """``self.optim = OptimizerNames(self.optim)`` in a constructor: option and enumeration."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name != "__post_init__":
            continue
        for node in ast.walk(function):
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(attr=option)],
                    value=ast.Call(
                        func=ast.Name(id=name), args=[ast.Attribute(attr=given)], keywords=[]
                    ),
                ) if option == given:
                    yield option, name


def _losses(archive: zipfile.ZipFile) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in archive.namelist():
        folder, _, file = name.rpartition("/")
        if folder != "trl/trainer" or not file.endswith("_trainer.py"):
            continue
        tree = ast.parse(archive.read(name))
        if not any(_refuses_losses(node) for node in ast.walk(tree)):
            continue
        owners = {
            node.name.removesuffix("Trainer")
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name.endswith("Trainer")
        }
        named = tuple(dict.fromkeys(_compared(tree)))
        for owner in sorted(owners):
            yield f"trl.{owner}Config.{_LOSS}", named


def _refuses_losses(node: ast.AST) -> bool:
    """Whether comparisons with losses end in an error."""
    if not isinstance(node, ast.If) or not _loss_constants(node.test):
        return False
    excluding = isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.NotIn)
    last = node.body if excluding else node.orelse
    return len(last) == 1 and isinstance(last[0], ast.Raise)


def _compared(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield from _loss_constants(node)


def _loss_constants(test: ast.expr) -> list[str]:
    """The strings that a comparison holds a loss against."""
    if not isinstance(test, ast.Compare):
        return []
    name = getattr(test.left, "attr", getattr(test.left, "id", ""))
    if name != _LOSS:
        return []
    return [
        node.value
        for comparator in test.comparators
        for node in ast.walk(comparator)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
