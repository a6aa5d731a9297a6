"""Options as plain values, whether a call, a dictionary or a JSON file gives them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint.engine.values import ABSENT, Object, OneOf, Provenance, Symbol, merge
from memlint.script.call_settings import MISSING, UNSURE, Setting, python_value, setting_of, unified
from memlint.script.called import Call, Called
from memlint.source.record import NamedTuple

Options = dict[str, Any]
# The option, the setting that it decides, and what reads its value; None: not understood.
Rows = tuple[tuple[str, str, Callable[[Any], object]], ...]
OPEN = "?"  # what nobody can tell


class Either(NamedTuple):
    """The values of which a switch that nobody knows takes one."""

    values: tuple[Any, ...]


_DEFAULTS = (Provenance.PARSED_FIELD,)
_DTYPES = ("bfloat16", "float16", "float32")


def plain(script: Called, value: object) -> Any:
    """A value without the engine's types: dictionaries opened, names as text; what a call makes
    stays an object. None: it is not given."""
    if value is UNSURE or value is MISSING:
        return OPEN if value is UNSURE else None
    if isinstance(value, Object) and value.type == "dict":
        return items_of(script, value)
    return value.name if isinstance(value, Symbol) else value


def items_of(script: Called, made: Object) -> Options:
    """What a dictionary or a configuration holds when the script ends, as far as it is bound."""
    bound = script.final_bindings(made).items()
    each = ((name, setting_of(name, one, has_unknown_keywords=False)) for name, one in bound)
    return {name: settled(script, one) for name, one in each}


def settled(script: Called, setting: Setting) -> Any:
    """The plain value of a setting; of several that by the branches that defaults take."""
    if setting.value is not UNSURE or not isinstance(setting.raw, OneOf):
        return plain(script, setting.value)
    defaults = [one for one in setting.raw.options if getattr(one, "origin", None) in _DEFAULTS]
    left = unified(merge(defaults[:1] or script.taken(setting.raw.options)))
    if not isinstance(left, OneOf):
        return plain(script, MISSING if left is ABSENT else python_value(left))
    values = [MISSING if one is ABSENT else python_value(one) for one in left.options]
    return OPEN if UNSURE in values else Either(tuple(plain(script, one) for one in values))


def options_of(call: Call) -> Options:
    """The options that a call gets by keyword."""
    return {name: settled(call.script, call.setting(name)) for name in call.keywords}


def mapping_of(script: Called, value: object) -> Options | None:
    """The options that a dictionary, or a JSON file of this name, holds; None where it is none."""
    given = plain(script, value)
    given = script.settings_file(given) if isinstance(given, str) else given
    return dict(given) if isinstance(given, Mapping) else None


def by_rows(options: Mapping[str, Any], rows: Rows) -> Options:
    """The settings that options decide; of several for one setting the last row's."""
    read = ((field, reader(options.get(name))) for name, field, reader in rows)
    return {field: value for field, value in read if value is not None}


def dtype_in(value: object) -> str | None:
    """``bfloat16`` of ``torch.bfloat16`` and of itself; None for all else, ``auto`` too."""
    name = value.rpartition(".")[2] if isinstance(value, str) else ""
    return name if name in _DTYPES else None


def count_in(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def flag_in(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def names_in(value: object) -> object:
    """One name or a pattern, or a list of names."""
    if isinstance(value, (list, tuple)):
        return list(value) if all(isinstance(one, str) for one in value) else None
    return value if isinstance(value, str) and value != OPEN else None


def made_by_call(script: Called, value: object) -> Call | None:
    """The call that made a value, in another file of the project too."""
    return script.call_anywhere(value.node) if isinstance(value, Object) else None


def calls_anywhere(script: Called, *ends: str) -> Iterator[Call]:
    """Yield the calls whose names end so, those in files around the script too."""
    for name, nodes in script.nodes_by_name_anywhere.items():
        if name.endswith(ends):
            yield from filter(None, map(script.call_anywhere, nodes))
