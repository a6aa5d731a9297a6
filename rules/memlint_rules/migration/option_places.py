"""Where an option of a call stands, and what takes its place at the target.

``memlint.runs.places`` knows how each place is changed; here are the option that the target lacks
and where it is named to the eye.
"""

import ast
from typing import NamedTuple

from memlint.rule import (
    UNSURE,
    Call,
    How,
    Object,
    Script,
    Setting,
    Span,
    Symbol,
    places,
    successors,
)

Edits = places.Edits


class Option(NamedTuple):
    """An option that the target does not have, as a call writes it.

    value: the expression that is written for it.
    """

    script: Script
    call: Call
    setting: Setting
    place: places.Place
    value: ast.expr

    @property
    def name(self) -> str:
        """Its name, the old one."""
        return self.setting.name

    @property
    def text(self) -> str:
        """The source of its value."""
        return self.script.text(self.value)

    @property
    def says_nothing(self) -> bool | None:
        """True if it is None, which meant the library's own choice.

        None where only the default of a flag is: whoever gives the flag says something.
        """
        if self.setting.value is not None:
            return False
        return None if self.setting.is_overridable_default else True

    def where_unsaid(self) -> Edits | None:
        """What takes away an option that says nothing; None where a flag may still say it."""
        return self.place.removed() if self.says_nothing else None


def option_of(script: Script, call: Call, setting: Setting) -> Option | None:
    """The option where it is written out, in whatever form; None where nobody can see that."""
    place = places.place_of(script, setting)
    if place is None or place.value is None:
        return None
    return Option(script, call, setting, place, place.value)


def option_span(script: Script, call: Call, setting: Setting) -> Span:
    """Where the option is named, for the eye."""
    keyword = next(
        (one for one in getattr(setting.owner, "keywords", ()) if one.arg == setting.name), None
    )
    if keyword is not None:
        return script.span(keyword).beginning(setting.name)
    place = places.place_of(script, setting)
    key = place.key if isinstance(place, places.InDict) else None
    if key is not None:
        return script.span(key)
    value = place.value if place is not None else None
    return script.span(value if value is not None else call.node.func)


def successor_of(script: Script, call: Call, setting: Setting) -> successors.Successor | None:
    """What takes the option's place at the target, its value considered where it is known.

    The default of a command line or of a parameter is not: whoever runs it may say otherwise.
    """
    value = () if setting.is_overridable_default else plain_value(setting)
    return script.api.successor(call.name, setting.name, *value)


def plain_value(setting: Setting) -> tuple[object, ...]:
    """A setting's value, alone, where it is plain data that is known; else nothing."""
    is_plain = setting.known and not isinstance(setting.value, Object | Symbol)
    return (setting.value,) if is_plain else ()


def written(call: Call, setting: Setting) -> Setting:
    """The setting as the call spells it out, where its value depends on the path.

    A keyword that stands in the call is given whatever its value may be.
    """
    keyword = call.keyword_node(setting.name)
    if setting.given is not None or setting.owner is not None or keyword is None:
        return setting
    return setting._replace(
        given=True, value=UNSURE, how=How.KEYWORD, owner=call.node, node=keyword.value
    )


def assigned(source: str) -> str:
    """An argument's source as it may stand behind the ``=`` of a statement: without brackets around
    it, several lines and ``:=`` want parentheses."""
    return f"({source})" if "\n" in source or ":=" in source else source


def renamed_options(script: Script, call: Call) -> frozenset[str]:
    """The options that the call gives by names which the target no longer knows or deprecates."""
    replacements = (
        script.api.successor(call.name, name)
        for name in call.keywords
        if script.api.accepts(call.name, name) is False or script.api.warns(call.name, name)
    )
    return frozenset(
        replacement.parameter
        for replacement in replacements
        if isinstance(replacement, successors.Rename | successors.Build)
    )
