"""Picks the line of the hand-written knowledge that holds at a target."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from memlint.api.knowledge.gone import MIGRATIONS
from memlint.api.knowledge.migrations import Migration
from memlint.api.signatures import Signature
from memlint.api.successors import (
    Advice,
    Build,
    Inline,
    Move,
    Remove,
    Rename,
    Replace,
    Runtime,
    Successor,
)
from memlint.api.versions import Version, is_between


def _by_parameter(lines: Iterable[Migration]) -> dict[str | None, list[Migration]]:
    found: dict[str | None, list[Migration]] = {}
    for line in lines:
        found.setdefault(line.parameter, []).append(line)
    return found


_BY_PARAMETER = _by_parameter(MIGRATIONS)


class Lookup(Protocol):
    """What is asked of the tables at one target."""

    def canonical(self, qualname: str) -> str: ...
    def exists(self, qualname: str) -> bool | None: ...
    def accepts(self, qualname: str, parameter: str) -> bool | None: ...
    def is_about(self, name: str, owner: str) -> bool: ...
    def version(self, package: str) -> Version: ...
    def signature(self, qualname: str) -> Signature | None: ...
    def last_signature(self, qualname: str) -> Signature | None: ...
    def config_of(self, trainer: str) -> str | None: ...
    def homes(self, package: str, name: str) -> tuple[str, ...]: ...


def successor(api: Lookup, qualname: str, parameter: str | None, value: object) -> Successor | None:
    """Return the successor that fits the target: of a line, else of what the tables show."""
    name = api.canonical(qualname)
    if parameter is None and _is_reached_otherwise(api, qualname, name):
        return Replace(name)
    replacements = _replacements(api, name, parameter, value)
    if replacements and not isinstance(replacements[0], Advice):
        return replacements[0]
    if parameter is None:
        moved = _moved_name(api, name)
    else:
        moved = _moved_to_config(api, name, parameter, value)
    # What can be done goes before what can only be said.
    return moved or next(iter(replacements), None)


def _is_reached_otherwise(api: Lookup, qualname: str, name: str) -> bool:
    """True if a thing is still there under its canonical ``name``, and only this way to it gone."""
    return name != qualname and api.exists(qualname) is False and bool(api.exists(name))


def _replacements(api: Lookup, name: str, parameter: str | None, value: object) -> list[Successor]:
    """Return the successors of hand-written lines that the target accepts."""
    known = [line.replacement for line in _matching(api, name, parameter, value)]
    replacements = [replacement for replacement in known if _possible(api, name, replacement)]
    if replacements or parameter is None or api.accepts(name, parameter) is not False:
        return replacements
    # What warns is better than what is refused.
    return [
        replacement
        for replacement in known
        if isinstance(replacement, Rename) and api.accepts(name, replacement.parameter) is True
    ]


def _matching(api: Lookup, name: str, parameter: str | None, value: object) -> Iterator[Migration]:
    for line in _BY_PARAMETER.get(parameter, ()):
        if (
            api.is_about(name, line.owner)
            and _within(api, line)
            # 1 is not True here.
            and (not line.values or any(value == o and type(value) is type(o) for o in line.values))
        ):
            yield line


def _within(api: Lookup, line: Migration) -> bool:
    if not line.since and not line.until:
        return True
    return is_between(api.version(line.owner.partition(".")[0]), line.since, line.until)


def _possible(api: Lookup, name: str, replacement: Successor) -> bool:
    """True if the target can take ``replacement``."""
    match replacement:
        case Rename(parameter=new):
            return api.accepts(name, new) is not False and not _warns(api, name, new)
        case Build(parameter=new, imports=imports):
            return api.accepts(name, new) is not False and all(
                api.exists(each) is not False for each in imports
            )
        case Replace(qualname=new):
            return new.endswith(".__call__") or api.exists(new) is not False
        case Inline(imports=imports):
            return all(api.exists(each) is not False for each in imports)
        case _:
            return True


def _warns(api: Lookup, name: str, parameter: str) -> bool:
    signature = api.signature(name)
    return (
        signature is not None
        and parameter in signature.parameters
        and signature.parameters[parameter].deprecated
    )


def _moved_to_config(api: Lookup, name: str, parameter: str, value: object) -> Successor | None:
    """Return a trainer's keyword that its config has, under this name or its successor's."""
    config = api.config_of(name)
    if config is None:
        return None
    if api.accepts(config, parameter) and not _warns(api, config, parameter):
        return Move(parameter)
    match successor(api, config, parameter, value):
        case Rename(parameter=new, source=source, note=note, safe=safe):
            return Move(new, source, note=note, safe=safe)
        case Remove() | Runtime() | Advice() as replacement:
            return replacement
        case _:
            return None


def _moved_name(api: Lookup, name: str) -> Successor | None:
    """Return the one place where the target still offers a name that left its module."""
    package, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    if not last or api.exists(name) is not False:
        return None
    if last.endswith("FeatureExtractor") and package == "transformers":
        # Those of images were other names of the image processors.
        homes = api.homes(package, f"{last.removesuffix('FeatureExtractor')}ImageProcessor")
    else:
        homes = api.homes(package, last)
    if len(homes) == 1 and homes[0] != name and not _is_another(api, name, homes[0]):
        return Replace(homes[0])
    return None


def _is_another(api: Lookup, gone: str, found: str) -> bool:
    """True if what has the name of a function that is gone is not known to be called as it was."""
    was = api.last_signature(gone)
    if was is None:
        return False
    now = api.last_signature(found)
    return now is None or _required(was) != _required(now)


def _required(signature: Signature) -> list[str]:
    return [parameter.name for parameter in signature.parameters.values() if parameter.required]
