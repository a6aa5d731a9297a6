"""The calls of a script as the target's libraries would take them."""

from collections.abc import Callable, Iterable, Iterator

from memlint.rule import (
    Call,
    Finding,
    Script,
    Setting,
    facts,
    is_guarded,
    names_looked_up,
    successors,
    triggers,
)


def calls_at_target(script: Script) -> Iterator[Call]:
    """Yield every call of a library, once, as one of what took its callee's place."""
    calls: dict[object, Call] = {}
    others = script.library_calls(*triggers.COMPARED)
    for call in (*script.configs, *script.trainers, *others):
        calls.setdefault(call.node, call)
    parsed = facts.parsed_arguments_of(script)
    return (_as_at_target(script, call) for call in (*calls.values(), *parsed))


def calls_of_libraries(script: Script) -> Iterator[Call]:
    """Yield each call of a library whose keywords are its own, once, as one at the target."""
    for call in calls_at_target(script):
        if call.name.partition(".")[0] in triggers.PACKAGES and not _hides_keywords(call):
            yield call


def _hides_keywords(call: Call) -> bool:
    """True if a class of the script's own may keep any keyword from the library's."""
    is_unsure = call.subclass is not None and call.has_unknown_keywords
    return is_unsure and facts.kept_by_subclass(call) is None


def settings_of_library(call: Call) -> Iterator[Setting]:
    """Yield the settings of a call that reach the library's class: none of the script's own."""
    kept = facts.kept_by_subclass(call) or ()
    # What ``super().__init__(**kwargs)`` hands on is the caller's.
    handed_on = call.script.text(call.node.func).startswith("super(")
    for setting in () if _hides_keywords(call) else call.notable_settings():
        if setting.name not in kept and not (handed_on and not call.keyword_node(setting.name)):
            yield setting


def is_caught(script: Script, call: Call, setting: Setting) -> bool:
    """True if the script goes on without the option where the call that has it fails."""
    if not is_guarded(script, call.node):
        return False
    retries = facts.retries_of(script, call)
    return not any(retry.setting(setting.name).given is True for retry in retries)


def of_settings(
    script: Script,
    call: Call,
    settings: Iterable[Setting],
    question: Callable[[Script, Call, Setting], Iterator[Finding]],
) -> Iterator[Finding]:
    """Yield what is said of each setting that a call may get, unless the script minds versions."""
    looked_up = names_looked_up(script)
    for setting in settings:
        if setting.given is not False and setting.name not in looked_up:
            findings = list(question(script, call, setting))
            if findings and not is_caught(script, call, setting):
                yield from findings


def of_several(script: Script, question: Callable[[Call], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what is said of a call of one of several things: what none takes, and a fix for all."""
    for calls in script.calls_of_several(*triggers.COMPARED):
        first, *others = (list(question(_as_at_target(script, call))) for call in calls)
        for finding in first:
            same = [
                next((other for other in more if other.span == finding.span), None)
                for more in others
            ]
            if None in same:
                continue
            fix = finding.fix
            if fix is not None and any(other.fix != fix for other in same if other is not None):
                fix = fix.as_advice()
            yield finding._replace(fix=fix)


def _as_at_target(script: Script, call: Call) -> Call:
    """The call as one of what took its callee's place, where the target lacks the callee.

    What stands in the call is then as wrong as the import, and reported in the same run.
    """
    if call.name.endswith(".__init__"):
        # What a class of the script's own hands to the one that it derives from.
        call = call.as_call_of(call.name.removesuffix(".__init__"))
    name, method = call.name, ""
    if name.rpartition(".")[2] == "from_pretrained":
        name, _, method = name.rpartition(".")
        base = name.replace("peft.AutoPeftModel", "transformers.AutoModel")
        if base != name and script.api.exists(base):
            # It loads the base with the keywords that it is given.
            return call.as_call_of(f"{base}.{method}")
    if script.api.exists(name) is not False:
        return call
    replacement = script.api.successor(name)
    if (
        not isinstance(replacement, successors.Replace)
        or replacement.arguments
        or replacement.written
    ):
        # Keywords that change with the callee are changed together with it.
        return call
    if replacement.qualname.partition(".")[0] not in triggers.COMPARED or not script.api.exists(
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
