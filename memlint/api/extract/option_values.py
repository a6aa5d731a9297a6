"""The values that an option may have, where the library's code names them.

An option that ``__post_init__`` turns into an enumeration (``self.optim =
OptimizerNames(self.optim)``) takes that enumeration's values. A loss, or another option that a
trainer picks by name and refuses where it knows none such, takes the names that it is compared
with. Enumerations that another library reads are listed under their own names.
"""

import ast
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memlint.api.extract.history import Encoder
from memlint.api.extract.wheel import strings

# Files in which options are turned into enumerations, and the class whose options they are.
_FILES: Mapping[str, tuple[str, ...]] = {
    "transformers": ("transformers/training_args.py", "transformers/trainer_utils.py"),
    "accelerate": ("accelerate/utils/dataclasses.py",),
    "trl": (),
}
_OWNER = "transformers.TrainingArguments"
_LISTED = ("DynamoBackend", "PrecisionType")
_LOSS = "loss_type"
# Other options that TRL's trainers compare with each name they know, and refuse at the end.
_PICKED = ("f_divergence_type", "truncation_mode", "vllm_mode", "importance_sampling_level")


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
    """Return the table of what was read of every release, oldest first."""
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
        tree = _read(archive, name)
        config = _read(archive, name.replace("_trainer.py", "_config.py"))
        owners = {
            node.name.removesuffix("Trainer")
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name.endswith("Trainer")
        }
        named = {option: _picked(tree, option) for option in _PICKED}
        if any(_refuses(node, _LOSS) for node in ast.walk(tree)):
            named[_LOSS] = _compared(tree, _LOSS)
        for option, known in named.items():
            allowed = _seen_by_config(config, option, known)
            for owner in sorted(owners) if known else ():
                yield f"trl.{owner}Config.{option}", allowed


def _read(archive: zipfile.ZipFile, path: str) -> ast.Module:
    return ast.parse(archive.read(path) if path in archive.namelist() else "")


def _seen_by_config(config: ast.Module, option: str, known: Sequence[str]) -> tuple[str, ...]:
    """What its trainer knows, less what the configuration refuses before, with what it turns into
    something that the trainer knows."""
    taken: dict[str, str] = {}
    refused: set[str] = set()
    for node in ast.walk(config):
        match node:
            case ast.If(test=ast.Compare(ops=[ast.Eq()]) as test, body=body):
                for value in _constants(test, option):
                    if any(isinstance(part, ast.Raise) for part in body):
                        refused.add(value)
                    taken.update((value, meant) for meant in _becomes(body, option))
    kept = [value for value in known if value not in refused]
    added = [value for value, meant in taken.items() if meant in kept]
    return tuple(dict.fromkeys((*kept, *added)))


def _becomes(body: Sequence[ast.stmt], option: str) -> Iterator[str]:
    """Read ``self.option = "another"``."""
    for statement in body:
        match statement:
            case ast.Assign(
                targets=[ast.Attribute(attr=name)], value=ast.Constant(value=str(meant))
            ) if name == option:
                yield meant


def _refuses(node: ast.AST, option: str) -> bool:
    """True if comparisons of an option end in an error."""
    if not isinstance(node, ast.If) or not _constants(node.test, option):
        return False
    excluding = isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.NotIn)
    last = node.body if excluding else node.orelse
    return len(last) == 1 and isinstance(last[0], ast.Raise)


def _picked(tree: ast.Module, option: str) -> tuple[str, ...]:
    """What an option is compared with from a first ``if`` on to the last, which is refused."""
    refused = [node for node in ast.walk(tree) if _refuses(node, option)]
    if not refused:
        return ()
    chains = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and _constants(node.test, option)
        and any(inner in refused for inner in ast.walk(node))
    ]
    compared = (_constants(node.test, option) for node in chains)
    return tuple(dict.fromkeys(value for each in compared for value in each))


def _compared(tree: ast.Module, option: str) -> tuple[str, ...]:
    tests = (node for node in ast.walk(tree) if isinstance(node, ast.Compare))
    return tuple(dict.fromkeys(value for test in tests for value in _constants(test, option)))


def _constants(test: ast.expr, option: str) -> list[str]:
    """Return the strings that a comparison holds an option against."""
    if not isinstance(test, ast.Compare):
        return []
    name = getattr(test.left, "attr", getattr(test.left, "id", ""))
    if name != option:
        return []
    return [text for comparator in test.comparators for text in strings(comparator)]
