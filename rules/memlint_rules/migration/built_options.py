"""Options that became part of another option's value.

``load_in_4bit=True`` is ``quantization_config=BitsAndBytesConfig(load_in_4bit=True)`` now, together
with all that the call says of quantization.
"""

import ast

from memlint.rule import Object, Setting, edits, successors
from memlint_rules.migration.option_places import Edits, Option, option_of

_QUANTIZATION = "quantization_config"
_QUANTIZE = ("load_in_4bit", "load_in_8bit")


def built(option: Option, replacement: successors.Build) -> Edits | None:
    """Edits that build the new option of the old ones; None where they would be a guess."""
    present = option.call.setting(replacement.parameter)
    if replacement.parameter == option.name or present.given is False:
        return _written(option, replacement)
    # What a function out of sight returns may be None, and then the old option counts.
    there = present.value
    may_be_none = there is None or (isinstance(there, Object) and there.type is None)
    if present.given and present.known and not may_be_none:
        # What it would build is there already: the old option has nothing left to say.
        return option.place.removed()
    beside = _quantization_there(option, replacement, present)
    return _written(option, replacement, beside) if beside is not None else None


def _written(option: Option, replacement: successors.Build, there: str = "") -> Edits | None:
    """The new option in the place of the old ones; ``there`` counts where it is not None."""
    place = option.place.beside(replacement.parameter)
    merged = _merged(option, replacement)
    references = _references(option, replacement)
    if place is None or merged is None or references is None:
        return None
    source = _expression(option, replacement, merged)
    condition = _condition([option, *(one for one in merged if not _is_off(one.setting))])
    if condition:
        source = f"{source} if {condition} else None"
        source = f"({source})" if there else source
    imports: list[edits.Edit] = []
    for qualname, reference in references.items():
        source = source.replace(qualname.rpartition(".")[2], reference.text)
        imports += reference.edits
    old = [one.place for one in (option, *merged) if one.name != replacement.parameter]
    gone = [edit for one in old for edit in one.removed() or ()]
    return (*gone, *place.changed(f"{there} or {source}" if there else source), *imports)


def _quantization_there(
    option: Option, replacement: successors.Build, present: Setting
) -> str | None:
    """The name of a quantization that may be None, given beside the old option."""
    beside = present.owner is option.setting.owner and replacement.parameter == _QUANTIZATION
    there = option_of(option.script, option.call, present) if beside else None
    named = there is not None and isinstance(there.value, ast.Name | ast.Attribute)
    return there.text if there is not None and named else None


def _merged(option: Option, replacement: successors.Build) -> list[Option] | None:
    """The other options that go into the same expression, the same place.

    None where one stands elsewhere. None too where another is the first of them: that one speaks
    for all, so that they are merged once.
    """
    call = option.call
    given = [
        one
        for one in map(call.setting, replacement.merge)
        if one.name == option.name or one.given is not False
    ]
    if given and given[0].name != option.name:
        return None
    merged = []
    for setting in given[1:]:
        other = option_of(option.script, call, setting)
        if other is None or setting.owner is not option.setting.owner:
            return None
        merged.append(other)
    return merged


def _references(option: Option, replacement: successors.Build) -> dict[str, edits.Reference] | None:
    """How the script can name what the expression uses; None where a name is taken."""
    found = {}
    for qualname in replacement.imports:
        reference = edits.reference_to(
            option.script, qualname, option.setting.owner or option.call.node
        )
        if reference is None:
            return None
        found[qualname] = reference
    return found


def _expression(option: Option, replacement: successors.Build, merged: list[Option]) -> str:
    then, chosen, otherwise = replacement.source.partition(" if {value} else ")
    if chosen and isinstance(option.value, ast.Constant):
        return then if option.value.value else otherwise
    source = replacement.source.format(value=option.text)
    for other in merged:
        if not _is_off(other.setting):
            source = f"{source[:-1]}, {other.name}={other.text})"
    return source


def _is_off(setting: Setting) -> bool:
    return (setting.value is False or setting.value is None) and not setting.is_overridable_default


def _condition(options: list[Option]) -> str:
    """Which flags have to be on; empty where one certainly is, or none decides.

    A configuration that asks for neither width would quantize all the same.
    """
    flags = [one for one in options if one.name in _QUANTIZE]
    if any(
        flag.setting.value is True and not flag.setting.is_overridable_default for flag in flags
    ):
        return ""
    return " or ".join(_operand(flag.text) for flag in flags)


def _operand(source: str) -> str:
    """An expression as an operand of ``or``."""
    plain = isinstance(
        # In parentheses, since it may take several lines.
        ast.parse(f"({source})", mode="eval").body,
        ast.Name | ast.Attribute | ast.Call | ast.Compare,
    )
    return source if plain and "\n" not in source else f"({source})"
