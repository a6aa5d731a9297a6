"""Settings that a script reads from files: YAML and JSON under a name that it writes out, and what
Hydra composes of the files that ``@hydra.main`` names.

A user may give others, or override single ones: they count as what a launch command gives.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from memlint.engine.command_line import VARIABLE
from memlint.engine.interpreter import Interpreter
from memlint.engine.settings_files import SETTINGS_FILES
from memlint.engine.values import (
    HERE,
    MAPPINGS,
    UNKNOWN,
    Binding,
    Constant,
    How,
    Invocation,
    Object,
    Provenance,
    Sequence,
    Value,
    constant_text,
    path_of,
    path_text,
)

_CONFIG = MAPPINGS[1]
_MOST_DEPTH = 6
_MOST_ITEMS = 400


def document_at(run: Interpreter, invocation: Invocation) -> Value | None:
    """``yaml.safe_load(open("train.yaml"))``, ``OmegaConf.load("train.yaml")``: what is in it."""
    named = [binding.value for name, binding in invocation.keywords.items() if name in _FILE]
    given = next(iter([*invocation.arguments, *named]), None)
    opened = given.made_by if isinstance(given, Object) else None
    if opened is not None:  # ``open(path)``, or ``path.open()``
        given = next(iter(opened.arguments), None) if opened.name == "open" else opened.receiver
    data = _read(run, path_text(given))
    kind = _CONFIG if invocation.name.startswith("omegaconf.") else "dict"
    return of_data(run, data, invocation, kind) if isinstance(data, Mapping) else None


def sections(run: Interpreter, made: Invocation, thing: Object) -> Value | None:
    """``config.read("train.ini")`` of configparser: the sections that the file has."""
    if not (thing.type or "").startswith("configparser."):
        return None
    data = _read(run, path_text(next(iter(made.arguments), None)))
    for name, section in data.items() if isinstance(data, Mapping) else ():
        value = of_data(run, section, made, "configparser.SectionProxy")
        run.set_binding(thing, name, Binding(value, How.FILE))
    return UNKNOWN


def variables(run: Interpreter, made: Invocation) -> Value:
    """``load_dotenv()``: the environment has the variables of the file, too."""
    data = _read(run, path_text(next(iter(made.arguments), None)) or ".env")
    if not isinstance(data, Mapping):
        return UNKNOWN
    if made.name.endswith("dotenv_values"):
        return of_data(run, data, made, "dict")
    for name, text in data.items():
        run.outside[f"{VARIABLE}{name}"] = Constant(text, None, Provenance.COMMAND_LINE)
    return Constant(True)


def beside(run: Interpreter, made: Invocation) -> Value | None:
    """``Path(__file__).with_name("run.toml")``, ``FOLDER.joinpath("run.toml")``."""
    named = made.receiver is HERE or made.name.endswith(".joinpath")
    return path_of((made.receiver, *made.arguments), made.node) if made.receiver and named else None


def path(run: Interpreter, made: Invocation) -> Value | None:
    """``Path(ROOT, "train.yaml")``, ``os.path.join``; of no parts, the working folder."""
    return path_of(made.arguments, made.node) if not made.open_arguments else None


def same_path(run: Interpreter, made: Invocation) -> Value | None:
    """``path.resolve()``: the same; of what is no path, nothing is known."""
    return made.receiver if path_text(made.receiver) is not None else None


def folder_of(run: Interpreter, made: Invocation) -> Value | None:
    """``os.path.dirname(__file__)``, ``Path.cwd()``: a folder near the script."""
    return HERE if all(one is HERE for one in made.arguments) else None


def composed(run: Interpreter, made: Invocation) -> Value:
    """The configuration that ``@hydra.main(config_path=..., config_name=...)`` hands over."""
    folder, name = (constant_text(_given(made, i, key)) for i, key in enumerate(_NAMES))
    data = _composed(run, folder or "", name) if name else None
    value = of_data(run, data, made, _CONFIG) if data else UNKNOWN
    _set_by_command(run, value, os.path.join(folder or "", name or ""))
    return value


def _set_by_command(run: Interpreter, value: Value, composed_by: str = "") -> None:
    """Give a configuration what the launch command sets, but for the groups of the file that it is
    composed by: these are chosen there."""
    if (given := run.command_line) is not None:
        groups = dict(_groups(_read(run, _with_suffix(composed_by)))) if composed_by else {}
        for name in given.names:
            if name in groups and _chosen(run, name) is not None:
                continue
            # ``group@place=chosen`` and ``group/inner=chosen``.
            place = name.rpartition("@")[2].replace("/", ".").split(".")
            _override(run, value, place, given.value(name, ""))


def _override(run: Interpreter, thing: Value, path: list[str], given: Value | None) -> None:
    """Give a setting what a launch command gives it; what chooses another file is not known."""
    first, *rest = path
    binding = run.get_binding(thing, first) if isinstance(thing, Object) else None
    if rest and binding is not None:
        _override(run, binding.value, rest, given)
    elif isinstance(thing, Object):
        is_group = rest or (binding is not None and isinstance(binding.value, Object))
        value: Value = UNKNOWN
        if isinstance(given, Constant) and not is_group:
            value = Constant(given.value, None, Provenance.COMMAND_LINE)
        run.set_binding(thing, first, Binding(value))


_NAMES = ("config_path", "config_name")
_FILE = ("json_file", "yaml_file", "stream", "fp", "file_")


def to_container(run: Interpreter, invocation: Invocation) -> Value | None:
    """``OmegaConf.to_container(cfg.trainer)``: a dict of the same."""
    thing = invocation.first_object
    return _plain(run, thing) if thing is not None and thing.type in MAPPINGS else None


FROM_COMMAND = ("omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist")


def of_command_line(run: Interpreter, invocation: Invocation) -> Value:
    """``OmegaConf.from_cli()``: what a command sets is added where its words are read."""
    return run.new_object(type=_CONFIG, made_by=invocation, node=invocation.node)


def merged(run: Interpreter, invocation: Invocation) -> Value | None:
    """``OmegaConf.merge(base, overrides)``: the later ones count, key by key."""
    parts = invocation.arguments
    if not all(isinstance(one, Object) and one.type in MAPPINGS for one in parts):
        return None
    made = run.new_object(type=_CONFIG, made_by=invocation, node=invocation.node)
    for part in parts:
        if isinstance(part, Object):
            _merge_into(run, made, part)
            if part.made_by is not None and part.made_by.name in FROM_COMMAND:
                _set_by_command(run, made)
    return made


def _merge_into(run: Interpreter, made: Object, other: Object, depth: int = 0) -> None:
    made.open |= other.open
    before = run.bindings(made)
    for name, binding in run.bindings(other).items():
        old, new = before[name].value if name in before else UNKNOWN, binding.value
        if isinstance(new, Object) and new.type in MAPPINGS and depth < _MOST_DEPTH:
            value = run.new_object(type=_CONFIG, made_by=new.made_by, node=new.node)
            for part in (old, new):
                if isinstance(part, Object) and part.type in MAPPINGS:
                    _merge_into(run, value, part, depth + 1)
            binding = Binding(value, binding.how, binding.owner)
        run.set_binding(made, name, binding)


def _plain(run: Interpreter, thing: Object) -> Object:
    made = run.new_dict(thing.node)
    for name, binding in run.bindings(thing).items():
        value = binding.value
        if isinstance(value, Object) and value.type == _CONFIG:
            value = _plain(run, value)
        run.set_binding(made, name, Binding(value, binding.how, binding.owner))
    made.open = thing.open
    return made


def of_data(run: Interpreter, data: object, made: Invocation, kind: str, depth: int = 0) -> Value:
    """What is written, as the run knows values. What a name or a user fills in is unknown."""
    if isinstance(data, Mapping) and depth < _MOST_DEPTH and len(data) < _MOST_ITEMS:
        thing = run.new_object(type=kind, made_by=made)
        for key, item in data.items():
            value = of_data(run, item, made, kind, depth + 1)
            run.set_binding(thing, str(key), Binding(value, How.FILE))
        return thing
    if isinstance(data, list) and len(data) < _MOST_ITEMS:
        return Sequence(tuple(of_data(run, one, made, kind, depth + 1) for one in data), "list")
    if isinstance(data, str) and ("${" in data or data == "???"):
        return UNKNOWN
    is_plain = data is None or isinstance(data, str | int | float | bool)
    return Constant(data, None, Provenance.COMMAND_LINE) if is_plain else UNKNOWN


def _composed(run: Interpreter, folder: str, name: str, depth: int = 0) -> dict[str, Any] | None:
    """A file, with what its ``defaults`` bring in: groups under their names, itself last. None
    where one of the files is not there: a class of the script's may stand for it."""
    found = _read(run, _with_suffix(os.path.join(folder, name)))
    if not isinstance(found, Mapping) or depth > _MOST_DEPTH:
        return None
    own = {str(key): value for key, value in found.items() if key != "defaults"}
    defaults = found.get("defaults")
    result: dict[str, Any] = {}
    for group, default in _groups(found):
        choice = _chosen(run, group) or default if depth == 0 else default
        part = own if choice == "_self_" else _of_group(run, folder, group, choice, depth)
        if part is None:
            return None
        _merge(result, part)
    if not isinstance(defaults, list) or "_self_" not in defaults:
        _merge(result, own)
    return result


def _with_suffix(path: str) -> str:
    return path if path.endswith(SETTINGS_FILES) else f"{path}.yaml"


def _groups(found: object) -> Iterator[tuple[str, object]]:
    """The files that a file's ``defaults`` bring in, each with its group; empty without one."""
    defaults = found.get("defaults") if isinstance(found, Mapping) else None
    for one in defaults if isinstance(defaults, list) else ():
        yield from one.items() if isinstance(one, Mapping) else [("", one)]


def _chosen(run: Interpreter, group: str) -> str | None:
    """The file of a group that the launch command chooses: ``model=large``."""
    given = run.command_line.value(group, "str") if run.command_line is not None else None
    return constant_text(given)


def _of_group(
    run: Interpreter, folder: str, group: str, chosen: object, depth: int
) -> dict[str, Any] | None:
    """``- trainer: sft``: the file of a group, under its name or where ``@`` puts it."""
    path, _, place = group.partition("@")
    if not isinstance(chosen, str) or path.startswith(("override ", "optional ")):
        return {}
    inner = _composed(run, folder, f"{path}/{chosen}" if path else chosen, depth + 1)
    if inner is None or not path:
        return inner
    for part in reversed((place or path).replace("/", ".").split(".")):
        inner = {part: inner} if part != "_global_" else inner
    return inner


def _merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        before = into.get(key)
        if isinstance(before, dict) and isinstance(value, Mapping):
            _merge(before, value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _read(run: Interpreter, name: str | None) -> object:
    if run.project is None or name is None:
        return None
    return run.project.settings_file(name)


def _given(made: Invocation, position: int, name: str) -> Value | None:
    binding = made.keywords.get(name)
    if binding is not None:
        return binding.value
    return made.arguments[position] if len(made.arguments) > position else None
