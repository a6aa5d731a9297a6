"""What recipes of torchtune, LLaMA-Factory and axolotl may say, read from their releases.

A schema is sections of keys: ``keys`` are those at the top of a recipe, ``keys datasets`` those of
its part ``datasets``, ``recipe lora_finetune_distributed`` those that a recipe of torchtune reads.
torchtune names components by import path as well: their parameters are sections too.
"""

import ast
import re
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memlint.api.extract.exported_names import Namespace
from memlint.api.extract.history import Encoder, ranges
from memlint.api.extract.tabulate import lines
from memlint.api.extract.wheel import Assigned, Defined, Wheel, strings

PACKAGES = ("torchtune", "llamafactory", "axolotl")

_TRAINING = "transformers.Seq2SeqTrainingArguments"
_LLAMAFACTORY_CLASSES = (
    "ModelArguments",
    "DataArguments",
    "TrainingArguments",
    "FinetuningArguments",
    "GeneratingArguments",
)
_USE = re.compile(r"`?(\w+)`? is deprecated[\w ]*[,.;]? *(?:[Pp]lease )?[Uu]se `?([\w.]+)`?")
_FIELD_USE = re.compile(r"[Uu]se `?([\w.]+)(?:: ([\w.]+))?`?(?: instead|$|\.)")
_REFUSED = re.compile(
    r"`?(\w+)`?(?: \([^)]*\))? (?:is no longer supported|has been (?:removed|deprecated))"
)
_TOP_KEY = re.compile(r"^([A-Za-z_]\w*):", re.MULTILINE)


@dataclass
class Schema:
    """One release.

    sections: name -> keys. aliases: other paths of a component -> its path. replaced: key -> what
    the release says to use instead, ``key`` or ``key=value``. refused: keys that stop the run.
    inherits: a class whose options are keys as well.
    """

    sections: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    aliases: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    deprecated: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    inherits: str = ""


def read_schema(package: str, version: str, path: Path) -> Schema:
    """Read one wheel or source distribution."""
    if package == "torchtune":
        return _torchtune(version, path)
    if package == "llamafactory":
        return _llamafactory(path)
    return _axolotl(path)


def encode_schemas(versions: list[str], days: list[str], schemas: list[Schema]) -> bytes:
    """Return the table of one package, oldest release first."""
    newest = len(versions) - 1
    encoder = Encoder(newest)
    records: dict[str, Any] = {"!": dict(zip(versions, days, strict=True))}
    for section in sorted({name for schema in schemas for name in schema.sections}):
        held = {n: s.sections[section] for n, s in enumerate(schemas) if section in s.sections}
        record = {"at": ranges(held, newest), "keys": encoder.members(held, held)}
        records[section] = record
    every = range(len(versions))
    notes: dict[str, Any] = {
        "aliases": encoder.members(
            {n: [f"{a}={b}" for a, b in s.aliases.items()] for n, s in enumerate(schemas)}, every
        ),
        "replaced": encoder.members(
            {n: [f"{a}={b}" for a, b in s.replaced.items()] for n, s in enumerate(schemas)}, every
        ),
        "deprecated": encoder.members({n: s.deprecated for n, s in enumerate(schemas)}, every),
        "refused": encoder.members({n: s.refused for n, s in enumerate(schemas)}, every),
        "inherits": encoder.members({n: s.inherits.split() for n, s in enumerate(schemas)}, every),
    }
    records["notes"] = {name: value for name, value in notes.items() if value}
    return lines(records)


# -- files ----------------------------------------------------------------------------------------


def _files(path: Path, keep: re.Pattern[str]) -> dict[str, str]:
    """Return the texts of the files of a wheel or source distribution whose whole path matches.

    The folders that a source distribution puts around a package are left out.
    """
    found: dict[str, bytes] = {}
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if keep.fullmatch(name):
                    found[name] = archive.read(name)
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                name = re.sub(r"^[^/]+/(?:src/)?", "", member.name)
                if member.isfile() and keep.fullmatch(name):
                    stream = tar.extractfile(member)
                    assert stream is not None
                    found[name] = stream.read()
    return {name: data.decode("utf-8", "replace") for name, data in sorted(found.items())}


@dataclass
class _Class:
    node: ast.ClassDef
    bases: list[str]

    def fields(self) -> Iterator[ast.AnnAssign]:
        for part in self.node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                yield part


def _classes(files: dict[str, str]) -> dict[str, _Class]:
    found: dict[str, _Class] = {}
    for text in files.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
                found.setdefault(node.name, _Class(node, bases))
    return found


def _with_bases(classes: dict[str, _Class], name: str) -> Iterator[_Class]:
    pending, seen = [name], set()
    while pending:
        current = pending.pop()
        if current in classes and current not in seen:
            seen.add(current)
            yield classes[current]
            pending.extend(classes[current].bases)


def _target(part: ast.AnnAssign) -> str:
    assert isinstance(part.target, ast.Name)
    return part.target.id


def _options(part: ast.AnnAssign) -> dict[str, ast.expr]:
    """Keywords of the ``Field(...)`` or ``field(...)`` that a field is set to."""
    if not isinstance(part.value, ast.Call):
        return {}
    return {item.arg: item.value for item in part.value.keywords if item.arg}


def _text(node: ast.expr | None) -> str:
    try:
        value = ast.literal_eval(node) if node is not None else ""
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


# -- LLaMA-Factory --------------------------------------------------------------------------------


def _llamafactory(path: Path) -> Schema:
    schema = Schema(inherits=_TRAINING)
    files = _files(path, re.compile(r"(?:llamafactory|llmtuner)/hparams/\w+\.py"))
    classes = _classes(files)
    for name in _LLAMAFACTORY_CLASSES:
        for cls in _with_bases(classes, name):
            for part in cls.fields():
                init = _options(part).get("init")
                if not (isinstance(init, ast.Constant) and init.value is False):
                    schema.sections["keys"].add(_target(part))
    return schema


# -- axolotl --------------------------------------------------------------------------------------


def _axolotl(path: Path) -> Schema:
    schema = Schema()
    files = _files(
        path,
        re.compile(
            r"axolotl/(?:utils/schemas/(?!internal).*|utils/config/models/input/v0_4_1/.*"
            r"|integrations/\w+/args)\.py"
        ),
    )
    classes = _classes(files)
    tops = ["AxolotlInputConfig", *_plugins(files, classes)]
    for top in tops:
        for cls in _with_bases(classes, top):
            _axolotl_fields(schema, "keys", cls, classes)
            for text in strings(cls.node):
                schema.replaced.update((old, new) for old, new in _USE.findall(text) if new != old)
            schema.refused.update(_refused(cls.node))
    keys = schema.sections["keys"]
    schema.replaced = {
        old: new
        for old, new in schema.replaced.items()
        if old in keys and re.split("[.=]", new)[0] in keys
    }
    schema.refused &= keys
    schema.deprecated |= schema.replaced.keys()
    schema.deprecated &= keys
    return schema


def _plugins(files: dict[str, str], classes: dict[str, _Class]) -> list[str]:
    """Classes whose keys a plugin adds: those that are no part of another."""
    texts = (text for name, text in files.items() if "/integrations/" in name)
    names = [
        name for text in texts for name in re.findall(r"^class (\w+)\(BaseModel\)", text, re.M)
    ]
    parts = {
        word
        for cls in classes.values()
        for part in cls.fields()
        for word in re.findall(r"\w+", ast.unparse(part.annotation))
    }
    return [name for name in names if name not in parts]


def _axolotl_fields(
    schema: Schema, section: str, cls: _Class, classes: dict[str, _Class], depth: int = 0
) -> None:
    for part in cls.fields():
        name, options = _target(part), _options(part)
        alias = _text(options.get("alias"))
        schema.sections[section].update(filter(None, (name, alias)))
        message = options.get("deprecated")
        if message is not None and section == "keys":
            schema.deprecated.add(name)
            use = _FIELD_USE.search(_text(message))
            if use is not None:
                schema.replaced[name] = f"{use[1]}={use[2]}" if use[2] else use[1]
        for word in re.findall(r"\w+", ast.unparse(part.annotation)):
            inner = classes.get(word)
            if depth < 3 and inner is not None and not _is_enumeration(classes, word):
                own = f"{section} {alias or name}"
                for base in _with_bases(classes, word):
                    _axolotl_fields(schema, own, base, classes, depth + 1)


def _is_enumeration(classes: dict[str, _Class], name: str) -> bool:
    return any(base.endswith("Enum") for cls in _with_bases(classes, name) for base in cls.bases)


def _refused(node: ast.ClassDef) -> Iterator[str]:
    """Keys whose validator raises as soon as they are set."""
    for inner in ast.walk(node):
        match inner:
            case ast.Raise(exc=ast.Call(func=ast.Name(id="DeprecationWarning"))):
                for text in strings(inner):
                    yield from _REFUSED.findall(text)


# -- torchtune ------------------------------------------------------------------------------------


def _torchtune(version: str, path: Path) -> Schema:
    schema = Schema()
    _components(schema, version, path)
    files = _files(path, re.compile(r"recipes/.*\.(?:py|yaml)|torchtune/_recipe_registry\.py"))
    for recipe, script, configs in _registered(files["torchtune/_recipe_registry.py"]):
        keys = schema.sections[f"recipe {recipe}"]
        keys.update(_read_of_config(files.get(f"recipes/{script}", "")))
        for config in configs:
            keys.update(_TOP_KEY.findall(files.get(f"recipes/configs/{config}", "")))
        schema.sections["keys"] |= keys
    return schema


def _registered(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name, script and configurations of the recipes that ``tune run`` knows."""
    for call in ast.walk(ast.parse(text)):
        match call:
            case ast.Call(func=ast.Name(id="Recipe"), keywords=keywords):
                given = {item.arg: item.value for item in keywords}
                configs = [
                    _text(item.value)
                    for inner in ast.walk(given["configs"])
                    if isinstance(inner, ast.Call)
                    for item in inner.keywords
                    if item.arg == "file_path"
                ]
                yield _text(given["name"]), _text(given["file_path"]), configs


def _read_of_config(text: str) -> Iterator[str]:
    """Keys that a recipe reads from its configuration ``cfg``."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="cfg"), attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                yield key
            case ast.Attribute(value=ast.Name(id="cfg"), attr=key) if key not in ("get", "pop"):
                yield key
            case ast.Subscript(value=ast.Name(id="cfg"), slice=ast.Constant(value=str(key))):
                yield key
            case ast.Compare(
                left=ast.Constant(value=str(key)),
                ops=[ast.In() | ast.NotIn()],
                comparators=[ast.Name(id="cfg")],
            ):
                yield key


def _components(schema: Schema, version: str, path: Path) -> None:
    """Public classes and functions with their parameters, and the other paths that lead to them."""
    wheel = Wheel.open(
        "torchtune",
        version,
        path,
        re.compile(r"torchtune(?:\.(?!_cli|_recipe).*)?"),
        re.compile(r"(?!)"),
    )
    names = Namespace(wheel)
    for module in sorted(wheel.modules):
        if "._" in module:
            continue
        for name, place in names.offers(module).items():
            if place.kind == "outside" and place.module.startswith("torchao"):
                schema.sections[f"{module}.{name}"] = {"**"}
            if name.startswith("_") or place.module not in wheel.modules or place.name is None:
                continue
            canonical = names.canonical(place)
            bound = wheel.modules[place.module].bindings.get(place.name)
            node = bound.node if isinstance(bound, Defined) else _partial(bound)
            if node is None:
                continue
            if canonical not in schema.sections:
                parameters = _parameters(names, place.module, node, 0)
                schema.sections[canonical].update(parameters or ["**"])
            if f"{module}.{name}" != canonical:
                schema.aliases[f"{module}.{name}"] = canonical


def _partial(bound: object) -> ast.AST | None:
    """Return the value in ``name = partial(function, ...)`` and ``name = function``."""
    match bound:
        case Assigned(value=ast.Call(func=function, args=[ast.Name(), *_]) as call):
            return call.args[0] if ast.unparse(function).endswith("partial") else None
        case Assigned(value=ast.Name() as other):
            return other
        case _:
            return None


def _parameters(names: Namespace, module: str, node: ast.AST, depth: int) -> set[str]:
    """Return the parameters' names; ``**`` if any name is accepted or the names are unknown."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        given = node.args
        found = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        return found | ({"**"} if given.kwarg is not None else set())
    if isinstance(node, ast.Name):
        return _of_name(names, module, node.id, depth)
    if not isinstance(node, ast.ClassDef) or depth > 5:
        return {"**"}
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return _parameters(names, module, part, depth) - {part.args.args[0].arg}
    if any("dataclass" in ast.unparse(item) for item in node.decorator_list):
        return {_target(part) for part in _Class(node, []).fields()}
    return _of_name(names, module, ast.unparse(node.bases[0]) if node.bases else "", depth)


def _of_name(names: Namespace, module: str, name: str, depth: int) -> set[str]:
    place = names.place(module, name)
    if place is not None and place.kind == "definition" and place.name is not None:
        bound = names.modules[place.module].bindings.get(place.name)
        if isinstance(bound, Defined):
            return _parameters(names, place.module, bound.node, depth + 1)
    return {"**"}
