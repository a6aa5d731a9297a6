"""An option that is accepted and does nothing."""

from collections.abc import Iterator

from memlint.rule import (
    UNSURE,
    Call,
    Finding,
    Level,
    Object,
    Rule,
    Script,
    Setting,
    Symbol,
    is_guarded,
    names_looked_up,
    successors,
    triggers,
)
from memlint_rules.migration.calls_at_target import (
    calls_of_libraries,
    is_caught,
    settings_of_library,
)
from memlint_rules.migration.late_assignment import read_once, too_late
from memlint_rules.migration.option_places import option_span
from memlint_rules.migration.recipe_keys import ignored_keys
from memlint_rules.migration.succession import option_fix
from memlint_rules.migration.swallowed_options import swallowed_options


def check(script: Script) -> Iterator[Finding]:
    looked_up = names_looked_up(script)
    for call in calls_of_libraries(script):
        yield from _of_call(script, call, looked_up)
        findings = list(swallowed_options(script, call))
        if findings and not is_guarded(script, call.node):
            yield from findings


def _of_call(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    for settings, question in (
        (settings_of_library(call), _thrown_away),
        (read_once(call), too_late),
    ):
        for setting in settings:
            if setting.given is False or setting.owner is None or setting.name in looked_up:
                continue
            findings = list(question(script, call, setting))
            if findings and not is_caught(script, call, setting):
                yield from findings


def _thrown_away(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    known = setting.value is not UNSURE and not isinstance(setting.value, Object | Symbol)
    value = setting.value if known else None
    ignored = (
        script.api.ignored(call.name, setting.name, value)
        if known
        else script.api.ignored(call.name, setting.name)
    )
    if ignored is None or (ignored.harmless and setting.value in (None, False)):
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
