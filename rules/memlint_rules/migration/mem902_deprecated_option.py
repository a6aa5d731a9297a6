"""An option that still works at the target version and warns of its end."""

from collections.abc import Iterator

from memlint.rule import (
    UNSURE,
    Call,
    Finding,
    How,
    Level,
    Object,
    Rule,
    Script,
    Setting,
    Symbol,
    names_looked_up,
    triggers,
)
from memlint_rules.migration.calls_at_target import (
    calls_of_libraries,
    is_caught,
    settings_of_library,
)
from memlint_rules.migration.deprecated_methods import deprecated_methods
from memlint_rules.migration.option_places import option_span, successor_of
from memlint_rules.migration.recipe_keys import deprecated_keys
from memlint_rules.migration.succession import option_fix


def check(script: Script) -> Iterator[Finding]:
    looked_up = names_looked_up(script)
    for call in calls_of_libraries(script):
        yield from _options(script, call, looked_up)
    yield from deprecated_methods(script)


def _options(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    notable = list(settings_of_library(call))
    beside = [one.name for one in call.settings() if one.given is not False] if notable else []
    for setting in notable:
        if setting.given is False or setting.owner is None or setting.name in looked_up:
            continue
        if setting.how is How.ATTRIBUTE:
            # Warnings come from constructors; what is assigned later warns of nothing.
            continue
        if not _warns(script, call, setting, beside) or is_caught(script, call, setting):
            continue
        package = script.api.deprecated_by(call.name, setting.name)
        shown = f"`{setting.name}`"
        if not script.api.warns(call.name, setting.name):
            shown = f"`{setting.name}={setting.value!r}`"
        yield Finding(
            option_span(script, call, setting),
            f"{shown} is deprecated in {script.api.at_target(package)}",
            option_fix(script, call, setting, successor_of(script, call, setting)),
        )


def _warns(script: Script, call: Call, setting: Setting, beside: list[str]) -> bool:
    known = setting.value is not UNSURE and not isinstance(setting.value, Object | Symbol)
    if known:
        return script.api.warns(call.name, setting.name, setting.value, beside)
    return script.api.warns(call.name, setting.name, beside=beside)


RULE = Rule(
    level=Level.NOTICE,
    summary="an option that warns of its end in the target version",
    check=check,
    of_recipe=deprecated_keys,
    triggers=(triggers.LIBRARIES,),
)
