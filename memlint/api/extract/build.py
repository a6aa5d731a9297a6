"""What is read of one release: its modules, their names, and the classes and functions in scope."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memlint.api.extract.declarations import ClassFacts, FunctionFacts, Reader
from memlint.api.extract.exported_names import Namespace, Place
from memlint.api.extract.wheel import Assigned, Defined, Module, Outlined, Wheel


@dataclass(frozen=True)
class Scope:
    """What of a package is read.

    keep: modules that are read. outline: those of them that are not parsed, whose names are listed
    in a table of their own. described: modules whose classes and functions are described in full.
    """

    keep: re.Pattern[str]
    described: re.Pattern[str]
    outline: re.Pattern[str] = re.compile(r"(?!)")


SCOPES: Mapping[str, Scope] = {
    "trl": Scope(keep=re.compile(r".*"), described=re.compile(r".*")),
    "transformers": Scope(
        keep=re.compile(r"(?!.*\.(convert_|modular_)).*"),
        outline=re.compile(r"transformers\.models\.(?!auto\b).*"),
        described=re.compile(
            r"transformers\.("
            r"training_args\w*|trainer\w*|data\.data_collator|generation(\..*)?"
            r"|utils\.(quantization_config|hub|generic|import_utils)"
            r"|modeling_utils|tokenization_\w+|configuration_utils|models\.auto\..*"
            r"|optimization|cache_utils|hf_argparser|processing_utils|feature_extraction_\w+"
            r"|image_processing_\w+|masking_utils|modeling_attn_mask_utils"
            r"|modeling_flash_attention_utils|integrations\..*|deepspeed|pytorch_utils|loss\..*"
            r"|data\.datasets\..*|distributed\..*|debug_utils|trainer_pt_utils)"
        ),
    ),
    "peft": Scope(
        keep=re.compile(r".*"),
        described=re.compile(
            r"peft\.(config|peft_model|mapping\w*|helpers|mixed_model|auto|utils(\..*)?"
            r"|tuners\.\w+\.config|tuners\.tuners_utils|optimizers(\..*)?|functional)"
        ),
    ),
    "accelerate": Scope(
        keep=re.compile(r"(?!accelerate\.(commands|test_utils)).*"), described=re.compile(r".*")
    ),
    "datasets": Scope(
        keep=re.compile(
            r"datasets(\.(load|arrow_dataset|dataset_dict|iterable_dataset|combine|splits|info"
            r"|builder|fingerprint|config|inspect|metric|search|streaming|distributed"
            r"|features(\.\w+)?|filesystems(\.\w+)?|tasks(\.\w+)?|utils(\.\w+)?"
            r"|download(\.\w+)?|io(\.\w+)?))?"
        ),
        described=re.compile(
            r"datasets\.(load|arrow_dataset|dataset_dict|iterable_dataset|combine)"
        ),
    ),
    "torch": Scope(
        keep=re.compile(
            r"torch(\.(optim(\.(?!_multi_tensor)\w+)?|utils(\.(data(\.\w+)?|checkpoint))?|nn"
            r"|nn\.parallel(\.distributed|\.data_parallel)?|nn\.attention(\.\w+)?|nn\.utils(\.clip_grad|\.rnn)?"
            r"|nn\.functional|nn\.modules(\.(module|loss|linear|sparse|normalization))?"
            r"|serialization|amp(\.\w+)?|cuda|cuda\.(amp(\.\w+)?|memory)|autograd(\.(grad_mode|anomaly_mode|graph|function))?"
            r"|distributed(\.(fsdp(\.(fully_sharded_data_parallel|api|_fully_shard(\._fully_shard|\._fsdp_api)?))?|optim))?"
            r"|profiler(\.profiler)?|compiler|backends(\.(cuda|cudnn))?|multiprocessing))?"
        ),
        described=re.compile(r".*"),
    ),
}


@dataclass
class Reading:
    """All that was read of one release."""

    names: dict[str, dict[str, str]] = field(default_factory=dict)
    open_modules: set[str] = field(default_factory=set)
    classes: dict[str, ClassFacts] = field(default_factory=dict)
    functions: dict[str, FunctionFacts] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    unread: dict[str, list[str]] = field(default_factory=dict)


def read(package: str, version: str, path: Path) -> Reading:
    """Read one wheel."""
    scope = SCOPES[package]
    return read_release(Wheel.open(package, version, path, scope.keep, scope.outline))


def read_release(wheel: Wheel) -> Reading:
    """Read one release, of which the modules in scope are given."""
    package = wheel.package
    scope = SCOPES[package]
    names = Namespace(wheel)
    reader = Reader(names)
    result = Reading()
    for name, module in sorted(wheel.modules.items()):
        result.names[name] = _offered(names, module)
        if names.is_open(name):
            result.open_modules.add(name)
        if not module.outline and scope.described.fullmatch(name):
            _describe(reader, module, result)
    _read_bases(reader, wheel, names, result)
    result.unread = _unread(wheel)
    if package == "transformers":
        result.families = _families(names, package, set(result.classes))
    return result


def _offered(names: Namespace, module: Module) -> dict[str, str]:
    return {
        name: _target(names, module.name, name, place, brief=module.outline)
        for name, place in names.offers(module.name).items()
        if name.isidentifier() and name != "_"
        if not name.startswith("__") or name == "__version__"
    }


def _describe(reader: Reader, module: Module, result: Reading) -> None:
    """Describe the classes and functions that a module defines, and its other names for them."""
    names = reader.names
    for name, bound in module.bindings.items():
        if isinstance(bound, Assigned) and isinstance(bound.value, ast.Name):
            meant = names.place(module.name, bound.value.id)
            if meant is not None and meant.kind == "definition":
                alias = names.canonical(Place(module.name, name, "value"))
                result.aliases[alias] = names.canonical(meant)
        elif isinstance(bound, Defined):
            canonical = names.canonical(Place(module.name, name, "definition"))
            if isinstance(bound.node, ast.ClassDef):
                result.classes[canonical] = reader.class_(module, bound.node)
            elif not name.startswith("_"):
                result.functions[canonical] = reader.function(module, bound.node)
            else:
                continue
            result.homes[canonical] = module.name


def _unread(wheel: Wheel) -> dict[str, list[str]]:
    """Module -> its submodules that are not read."""
    found: dict[str, list[str]] = {}
    for name in sorted(wheel.unread):
        parent, _, child = name.rpartition(".")
        if parent in wheel.modules and not child.startswith(("convert_", "modular_")):
            found.setdefault(parent, []).append(child)
    return found


def _read_bases(reader: Reader, wheel: Wheel, names: Namespace, result: Reading) -> None:
    """Describe the base classes of what is described, wherever they are defined."""
    pending = sorted({base for facts in result.classes.values() for base in facts.bases})
    while pending:
        base = pending.pop()
        if base in result.classes or not base.startswith(f"{wheel.package}."):
            continue
        module_name, _, name = base.rpartition(".")
        place = names.place(module_name, name) if module_name in wheel.modules else None
        if place is None or place.kind != "definition" or place.name is None:
            continue
        module = wheel.modules[place.module]
        bound = module.bindings.get(place.name)
        if isinstance(bound, Defined) and isinstance(bound.node, ast.ClassDef):
            result.classes[base] = facts = reader.class_(module, bound.node)
            result.homes[base] = place.module
            pending.extend(facts.bases)


def _target(names: Namespace, module: str, name: str, place: Place, *, brief: bool) -> str:
    """Where an offered name leads: empty for a thing known by this very path, ``^`` for one that
    the package itself offers under the same name."""
    if brief:
        return ""
    if place.kind == "outside":
        known = f"{place.module}.{place.name}" if place.name else place.module
    else:
        known = names.canonical(place)
    if known == f"{module}.{name}":
        return ""
    return "^" if known == f"{names.wheel.package}.{name}" else known


def _families(names: Namespace, package: str, described: set[str]) -> dict[str, str]:
    """Described ancestors of the outlined classes that the package offers."""
    known: dict[Place, tuple[str, ...]] = {}

    def ancestors(place: Place) -> tuple[str, ...]:
        if place in known:
            return known[place]
        known[place] = ()
        canonical = names.canonical(place)
        if canonical in described:
            known[place] = (canonical,)
            return known[place]
        found: list[str] = []
        module = names.modules.get(place.module)
        bound = module.bindings.get(place.name or "") if module else None
        if isinstance(bound, Outlined):
            for base in bound.bases:
                inner = names.place(place.module, base.partition(".")[0])
                if inner is not None and inner.kind == "definition" and "." not in base:
                    found.extend(a for a in ancestors(inner) if a not in found)
        known[place] = tuple(found)
        return known[place]

    result: dict[str, str] = {}
    for name, place in names.offers(package).items():
        module = names.modules.get(place.module)
        if place.kind == "definition" and module is not None and module.outline:
            found = ancestors(place)
            if found:
                result[name] = ",".join(found)
    return result
