"""An option that is accepted and does nothing."""

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Level,
    Rule,
    Script,
    Setting,
    is_guarded,
    successors,
    triggers,
)
from memlint_rules.migration.calls_at_target import (
    calls_of_libraries,
    of_settings,
    settings_of_library,
)
from memlint_rules.migration.late_assignment import read_once, too_late
from memlint_rules.migration.option_places import option_span, plain_value
from memlint_rules.migration.recipe_keys import ignored_keys
from memlint_rules.migration.succession import option_fix
from memlint_rules.migration.swallowed_options import swallowed_options


def check(script: Script) -> Iterator[Finding]:
    for call in calls_of_libraries(script):
        yield from of_settings(script, call, settings_of_library(call), _thrown_away)
        yield from of_settings(script, call, read_once(call), too_late)
        findings = list(swallowed_options(script, call))
        if findings and not is_guarded(script, call.node):
            yield from findings


def _thrown_away(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    ignored = script.api.ignored(call.name, setting.name, *plain_value(setting))
    if ignored is None or setting.owner is None:
        return
    if ignored.harmless and setting.value in (None, False):
        return
    yield Finding(
        option_span(script, call, setting),
        f"`{setting.name}` does nothing in {script.api.at_target(call.name)}: {ignored.note}",
        option_fix(script, call, setting, successors.Remove()),
        Level.HINT if ignored.harmless else None,
        # A leftover that changes no byte.
        on_request=ignored.harmless,
    )


RULE = Rule(
    level=Level.ERROR,
    summary="an option that is accepted and has no effect",
    check=check,
    of_recipe=ignored_keys,
    triggers=(triggers.LIBRARIES,),
)
