"""Options, and values of options, that the target's signatures no longer take."""

from collections.abc import Iterator
from itertools import islice

from memlint.rule import (
    Call,
    Config,
    Finding,
    How,
    Object,
    Script,
    Setting,
    is_elsewhere,
    is_guarded,
    successors,
)
from memlint_rules.migration.calls_at_target import (
    calls_at_target,
    of_settings,
    of_several,
    settings_of_library,
)
from memlint_rules.migration.option_places import option_span, successor_of, written
from memlint_rules.migration.prompt_limits import takers
from memlint_rules.migration.removal import not_taken, since, without
from memlint_rules.migration.succession import option_fix
from memlint_rules.migration.unknown_options import unknown_option, unknown_values


def removed_options(script: Script) -> Iterator[Finding]:
    for call in calls_at_target(script):
        yield from _of_call(script, call)
    yield from of_several(script, lambda call: _of_call(script, call))


_MOST = 500  # findings of a call


def _of_call(script: Script, call: Call) -> Iterator[Finding]:
    if script.uses_unsloth and call.name.startswith("trl."):
        # Its shim takes the old keywords of TRL's trainers.
        return
    settings = (written(call, setting) for setting in settings_of_library(call))
    reached = (one for one in settings if one.owner is not None or _is_given_elsewhere(one))
    yield from islice(of_settings(script, call, reached, _of_setting), _MOST)


def _is_given_elsewhere(setting: Setting) -> bool:
    """True if another file certainly gives it: what a parser may drop has no form."""
    is_written = setting.given is True and setting.how in (How.ITEM, How.SUBSCRIPT, How.KEYWORD)
    return is_written or setting.how is How.FILE


def _of_setting(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    if script.api.accepts(call.name, setting.name) is False:
        if not _is_version_switch(script, call, setting):
            yield from _removed_option(script, call, setting)
    elif setting.known and not setting.is_overridable_default:
        removed = list(_removed_value(script, call, setting))
        yield from removed or unknown_values(script, call, setting)


def _is_version_switch(script: Script, call: Call, setting: Setting) -> bool:
    """True if the old name is given on some paths, where the script may have asked for versions."""
    if setting.given is not None or setting.owner is None or setting.owner is call.node:
        return False
    if is_guarded(script, setting.owner):
        return True
    replacement = script.api.successor(call.name, setting.name)
    new = getattr(replacement, "parameter", None)
    # The new name is given on the other paths.
    return new is not None and call.setting(new).given is None and new in call.keywords


def _removed_option(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    replacement = successor_of(script, call, setting)
    history = script.api.history(call.name, setting.name)
    signature = script.api.signature(call.name)
    has_unknown_keywords = signature is not None and signature.accepts_any
    if replacement is None and (has_unknown_keywords or call.name in _TAKE_ANY):
        # What it does not name is taken all the same, among ``**kwargs``.
        return
    if replacement is None and history is None:
        yield from unknown_option(script, call, setting)
        return
    if setting.how is How.ATTRIBUTE and _is_meant(script, call, setting, replacement):
        return
    span = option_span(script, call, setting)
    message = not_taken(script, call.name.removesuffix(".from_pretrained"), setting.name)
    message += since(script, history) + _place(script, call, setting)
    fix = option_fix(script, call, setting, replacement)
    if setting.how is How.ATTRIBUTE and fix is not None and fix.edits:
        is_gone = isinstance(replacement, successors.Environment | successors.Remove)
        if not is_gone or takers(script, call):
            # The script has run without it so far, or what gets the configuration may read it.
            fix = fix.as_unsafe()
    yield Finding(span, message, fix or without(script, f"`{setting.name}`", history))


def _place(script: Script, call: Call, setting: Setting) -> str:
    """Return what is said of how the option is given."""
    if setting.how is How.ATTRIBUTE:
        is_read = _is_read(script, call, setting)
        return ", which only this script reads" if is_read else ", which does nothing here"
    return ", which a settings file gives it" if setting.how is How.FILE else ""


def _is_read(script: Script, call: Call, setting: Setting) -> bool | None:
    """True if the script reads the attribute that it assigns; None where it may."""
    asked = [one.value for one in script.reads_of_attribute(setting.name, anywhere=True)]
    texts = [(one, script.parent(one) or one) for one in script.places_of_string(setting.name)]
    begins = ("getattr(", "hasattr(", "(", "[")  # a call, a tuple or list of names
    asked += [one for one, around in texts if script.text(around).startswith(begins)]
    own = script.span(setting.owner or call.node)
    values = [
        script.value(one)
        for one in asked
        if is_elsewhere(one) or not own.contains(script.span(one))
    ]
    things = [value for value in values if isinstance(value, Object)]
    if len(things) < len(values):
        return None
    made = call.made if isinstance(call, Config) else ()
    return any(thing.root in made for thing in things)


def _is_meant(
    script: Script, call: Call, setting: Setting, replacement: successors.Successor | None
) -> bool:
    """True if an attribute is set on purpose, whatever the class makes of it."""
    is_read = _is_read(script, call, setting)
    keeps_reads = isinstance(replacement, successors.Rename | successors.Build)
    if setting.name.startswith("_") or is_read is None or (is_read and not keeps_reads):
        return True
    # A trainer of the project's own, or a function of it, may read it.
    has_trainer = not isinstance(call, Config) or script.trainers_with(call)
    return not has_trainer and bool(takers(script, call))


# Their fields are a dataclass's; whatever else they are given becomes an attribute.
_TAKE_ANY = frozenset({"transformers.PretrainedConfig", "transformers.PreTrainedConfig"})


def _removed_value(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """An option that is still there, with a value that is not."""
    if not isinstance(setting.value, str) or script.api.warns(
        call.name, setting.name, setting.value
    ):
        return
    replacement = script.api.successor(call.name, setting.name, setting.value)
    if replacement is None or replacement == script.api.successor(call.name, setting.name):
        return
    replaced = isinstance(replacement, successors.Build) and replacement.parameter == setting.name
    if not (replaced or isinstance(replacement, successors.Advice)):
        return
    yield Finding(
        option_span(script, call, setting),
        f"`{setting.name}` of {script.api.at_target(call.name)} does not take {setting.value!r}",
        option_fix(script, call, setting, replacement),
    )
