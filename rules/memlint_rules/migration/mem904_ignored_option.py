"""An option that is accepted and does nothing."""

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    How,
    Level,
    Rule,
    Script,
    Setting,
    advise,
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
from memlint_rules.migration.removal import meant, nearest
from memlint_rules.migration.succession import option_fix

# transformers/utils/quantization_config.py: it logs what it does not use, where nobody looks.
_SWALLOWING = "transformers.BitsAndBytesConfig"
# What its own dictionary has beside them.
_OF_ITS_DICT = "quant_method"


def check(script: Script) -> Iterator[Finding]:
    for call in calls_of_libraries(script):
        yield from of_settings(script, call, settings_of_library(call), _thrown_away)
        yield from of_settings(script, call, read_once(call), too_late)
        findings = list(_swallowed(script, call))
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


def _swallowed(script: Script, call: Call) -> Iterator[Finding]:
    """``BitsAndBytesConfig(bnb_8bit_compute_dtype=...)``: a keyword that it takes unknown."""
    if script.api.canonical(call.name) != _SWALLOWING or call.subclass is not None:
        return
    signature = script.api.signature(_SWALLOWING)
    if signature is None or script.api.is_beyond_tables("transformers"):
        return
    for setting in call.settings():
        if setting.name not in signature.parameters and _is_given(setting):
            near = nearest(setting.name, signature.parameters)
            yield Finding(
                option_span(script, call, setting),
                f"`BitsAndBytesConfig` has no `{setting.name}`, and throws it away",
                meant(f"`{near}`") if near else advise(f"Leave `{setting.name}` out"),
            )


def _is_given(setting: Setting) -> bool:
    written = setting.how in (How.KEYWORD, How.ITEM, How.SUBSCRIPT)
    named = setting.name == _OF_ITS_DICT or setting.name.startswith("_")
    return setting.given is True and setting.owner is not None and written and not named


RULE = Rule(
    level=Level.ERROR,
    summary="an option that is accepted and has no effect",
    check=check,
    of_recipe=ignored_keys,
    triggers=(triggers.LIBRARIES,),
)
