"""An option that still works at the target version and warns of its end."""

from collections.abc import Iterator
from functools import partial

from memlint.rule import (
    Call,
    Finding,
    How,
    Level,
    Rule,
    Script,
    Setting,
    triggers,
)
from memlint_rules.migration.calls_at_target import (
    calls_of_libraries,
    of_settings,
    settings_of_library,
)
from memlint_rules.migration.deprecated_methods import deprecated_methods
from memlint_rules.migration.option_places import option_span, plain_value, successor_of
from memlint_rules.migration.recipe_keys import deprecated_keys
from memlint_rules.migration.succession import option_fix


def check(script: Script) -> Iterator[Finding]:
    for call in calls_of_libraries(script):
        notable = list(settings_of_library(call))
        beside = [one.name for one in call.settings() if one.given is not False] if notable else []
        yield from of_settings(script, call, notable, partial(_deprecated, beside))
    yield from deprecated_methods(script)


def _deprecated(
    beside: list[str], script: Script, call: Call, setting: Setting
) -> Iterator[Finding]:
    # Warnings come from constructors; what is assigned later warns of nothing.
    is_given_here = setting.owner is not None and setting.how is not How.ATTRIBUTE
    value = plain_value(setting)
    if not is_given_here or not script.api.warns(call.name, setting.name, *value, beside=beside):
        return
    package = script.api.deprecated_by(call.name, setting.name)
    shown = f"`{setting.name}`"
    if not script.api.warns(call.name, setting.name):
        shown = f"`{setting.name}={setting.value!r}`"
    yield Finding(
        option_span(script, call, setting),
        f"{shown} is deprecated in {script.api.at_target(package)}",
        option_fix(script, call, setting, successor_of(script, call, setting)),
    )


RULE = Rule(
    level=Level.NOTICE,
    summary="an option that warns of its end in the target version",
    check=check,
    of_recipe=deprecated_keys,
    triggers=(triggers.LIBRARIES,),
)
