"""Options, and values of options, that the target's signatures no longer take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from memlint.rule import (
    COMPARED,
    Advice,
    Applicability,
    Build,
    Call,
    Config,
    Environment,
    Finding,
    Fix,
    How,
    Remove,
    Replace,
    Runtime,
    Script,
    Setting,
    Successor,
)
from memlint.rule.migration.option_places import option_span, successor_of, written
from memlint.rule.migration.prompt_limits import takers
from memlint.rule.migration.removal import since, without
from memlint.rule.migration.succession import option_fix
from memlint.rule.migration.unknown_options import unknown_option, unknown_values
from memlint.script.subclasses import kept_by_subclass
from memlint.script.version_guards import is_guarded, names_looked_up, retries_of


def removed_options(script: Script) -> Iterator[Finding]:
    looked_up = names_looked_up(script)
    for call in (*script.configs, *script.trainers, *_other_calls(script)):
        yield from _of_call(script, _as_at_target(script, call), looked_up)
    for calls in script.calls_of_several(*COMPARED):
        yield from _of_several(script, calls, looked_up)


def _as_at_target(script: Script, call: Call) -> Call:
    """The call as one of what took its callee's place, where the target lacks the callee.

    What stands in the call is then as wrong as the import, and reported in the same run.
    """
    name, method = call.name, ""
    if name.rpartition(".")[2] == "from_pretrained":
        name, _, method = name.rpartition(".")
    if script.api.exists(name) is not False:
        return call
    replacement = script.api.successor(name)
    if not isinstance(replacement, Replace) or replacement.arguments or replacement.written:
        # Keywords that change with the callee are changed together with it.
        return call
    if replacement.qualname.partition(".")[0] not in COMPARED or not script.api.exists(
        replacement.qualname
    ):
        return call
    if any(
        script.api.canonical(imported) == name and is_guarded(script, statement)
        for statement, _, imported in script.imports
    ):
        # The script does without it.
        return call
    return call.as_call_of(f"{replacement.qualname}.{method}" if method else replacement.qualname)


def _of_several(
    script: Script, calls: tuple[Call, ...], looked_up: frozenset[str]
) -> Iterator[Finding]:
    """A call of one of several things: what none of them takes, with the fix that suits all."""
    found = [list(_of_call(script, _as_at_target(script, call), looked_up)) for call in calls]
    first, others = found[0], found[1:]
    for finding in first:
        same = [next((one for one in more if one.span == finding.span), None) for more in others]
        if None in same:
            continue
        agree = all(one is not None and one.fix == finding.fix for one in same)
        fix = finding.fix
        if fix is not None and not agree:
            fix = fix._replace(edits=(), applicability=Applicability.DISPLAY)
        yield finding._replace(fix=fix)


_MOST = 500  # findings of a call


def _other_calls(script: Script) -> Iterator[Call]:
    known = {one.node for one in (*script.configs, *script.trainers)}
    for call in script.library_calls(*COMPARED):
        if call.node not in known:
            yield call


def _of_call(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    if call.subclass is not None and call.has_unknown_keywords and kept_by_subclass(call) is None:
        return
    if script.uses_unsloth and call.name.startswith("trl."):
        # Its shim takes the old keywords of TRL's trainers.
        return
    yield from islice(_of_settings(script, call, looked_up), _MOST)


def _is_caught(script: Script, call: Call, setting: Setting) -> bool:
    """True if the script goes on without the option where the call that has it fails."""
    if not is_guarded(script, call.node):
        return False
    retries = retries_of(script, call)
    return not any(retry.setting(setting.name).given is True for retry in retries)


def _of_settings(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    kept = kept_by_subclass(call) or ()
    for found in call.notable_settings():
        setting = written(call, found)
        if setting.name in kept:
            continue
        if setting.given is False or setting.name in looked_up or setting.owner is None:
            continue
        if isinstance(call, Config) and call.declares(setting.name):
            # A field of the script's own class, whatever its base has.
            continue
        findings = list(_of_setting(script, call, setting))
        if findings and not _is_caught(script, call, setting):
            yield from findings


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
    owner = call.name.removesuffix(".from_pretrained").rpartition(".")[2]
    span = option_span(script, call, setting)
    message = (
        f"`{owner}` of {_target(script, call)} does not take `{setting.name}`"
        f"{since(script, history)}{_LATE if setting.how is How.ATTRIBUTE else ''}"
    )
    fix = _taking_effect(option_fix(script, call, setting, replacement), setting, replacement)
    yield Finding(span, message, fix or without(script, f"`{setting.name}`", history))


def _is_meant(script: Script, call: Call, setting: Setting, replacement: Successor | None) -> bool:
    """True if an attribute is set on purpose, whatever the class makes of it."""
    if setting.name.startswith("_"):
        return True
    if not isinstance(replacement, Runtime) or not isinstance(call, Config):
        return False
    # A trainer of the project's own may read it.
    return not script.trainers_with(call) and bool(takers(script, call))


_LATE = ", which does nothing here"


def _taking_effect(fix: Fix | None, setting: Setting, replacement: Successor | None) -> Fix | None:
    """The fix of an option; unsafe where the script has run without it so far."""
    if fix is None or setting.how is not How.ATTRIBUTE:
        return fix
    if not fix.edits or isinstance(replacement, Environment | Remove):
        return fix
    return fix._replace(applicability=Applicability.UNSAFE)


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
    replaced = isinstance(replacement, Build) and replacement.parameter == setting.name
    if not (replaced or isinstance(replacement, Advice)):
        return
    yield Finding(
        option_span(script, call, setting),
        f"`{setting.name}` of {_target(script, call)} does not take {setting.value!r}",
        option_fix(script, call, setting, replacement),
    )


def _target(script: Script, call: Call) -> str:
    package = call.name.partition(".")[0]
    return f"{package} {script.api.target.version(package).version}"
