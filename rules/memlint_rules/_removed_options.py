"""Options, and values of options, that the target's signatures no longer take."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Advice, Build, Call, Config, Finding, How, Runtime, Script, Setting
from memlint_rules._libraries import PACKAGES
from memlint_rules._option_places import option_span, successor_of, written
from memlint_rules._prompt_limits import takers
from memlint_rules._removal import since, without
from memlint_rules._succession import option_fix
from memlint_rules._version_guards import is_guarded, names_looked_up


def removed_options(script: Script) -> Iterator[Finding]:
    looked_up = names_looked_up(script)
    for call in (*script.configs, *script.trainers, *_other_calls(script)):
        yield from _of_call(script, call, looked_up)


def _other_calls(script: Script) -> Iterator[Call]:
    known = {one.node for one in (*script.configs, *script.trainers)}
    for call in script.library_calls(*PACKAGES):
        if call.node not in known:
            yield call


def _of_call(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    if call.subclass is not None and call.open_ended:
        return
    if script.uses_unsloth and call.name.startswith("trl."):
        # Its shim takes the old keywords of TRL's trainers.
        return
    findings = list(_of_settings(script, call, looked_up))
    if findings and not is_guarded(script, call.node):
        yield from findings


def _of_settings(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    for found in call.settings():
        setting = written(call, found)
        if setting.given is False or setting.name in looked_up or setting.owner is None:
            continue
        if isinstance(call, Config) and call.declares(setting.name):
            # A field of the script's own class, whatever its base has.
            continue
        if script.api.accepts(call.name, setting.name) is False:
            yield from _removed_option(script, call, setting)
        elif setting.known and not setting.by_default:
            yield from _removed_value(script, call, setting)


def _removed_option(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    way = successor_of(script, call, setting)
    history = script.api.history(call.name, setting.name)
    signature = script.api.signature(call.name)
    open_ended = signature is not None and signature.accepts_any
    if way is None and (history is None or open_ended or call.name in _TAKE_ANY):
        # Never an option of this class: a misspelling, or something that we do not know. Or what
        # it no longer names is taken all the same, among ``**kwargs``.
        return
    if (
        setting.how is How.ATTRIBUTE
        and isinstance(way, Runtime)
        and isinstance(call, Config)
        and not script.trainers_with(call)
        and takers(script, call)
    ):
        # Set for a trainer of the project's own, which may read it.
        return
    owner = call.name.removesuffix(".from_pretrained").rpartition(".")[2]
    span = option_span(script, call, setting)
    message = (
        f"`{owner}` of {_target(script, call)} does not take `{setting.name}`"
        f"{since(script, history)}"
    )
    fix = option_fix(script, call, setting, way)
    yield Finding(span, message, fix or without(script, f"`{setting.name}`", history))


# Their fields are a dataclass's; whatever else they are given becomes an attribute.
_TAKE_ANY = frozenset({"transformers.PretrainedConfig", "transformers.PreTrainedConfig"})


def _removed_value(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """An option that is still there, with a value that is not."""
    if not isinstance(setting.value, str) or script.api.warns(
        call.name, setting.name, setting.value
    ):
        return
    way = script.api.successor(call.name, setting.name, setting.value)
    if way is None or way == script.api.successor(call.name, setting.name):
        return
    replaced = isinstance(way, Build) and way.parameter == setting.name
    if not (replaced or isinstance(way, Advice)):
        return
    yield Finding(
        option_span(script, call, setting),
        f"`{setting.name}` of {_target(script, call)} does not take {setting.value!r}",
        option_fix(script, call, setting, way),
    )


def _target(script: Script, call: Call) -> str:
    package = call.name.partition(".")[0]
    return f"{package} {script.api.target.version(package).version}"
