"""The allocator's cache, emptied in every training step."""

import ast
import re
from collections.abc import Iterator

from memlint.rule import Call, Config, Finding, Fix, Rule, Script, Skip, advise, edits, facts, fix

_OPTION = "torch_empty_cache_steps"
_FLUSHES = ("torch.cuda.empty_cache", "gc.collect", "torch.cuda.memory.empty_cache")
_MORE = r"generat|rollout|evaluat|sampl|encode_image|\bdecode"
_MEASURES = frozenset({"memory_allocated", "memory_reserved", "reset_peak_memory_stats"})


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        steps = config.setting(_OPTION)
        if steps.is_value(1) and config.has_option(_OPTION) and script.may_train_with(config):
            yield _of_config(script, config)
    flushes = script.calls_to(*_FLUSHES)
    for body in facts.step_bodies(script) if flushes else ():
        inside = [one for one in flushes if facts.makes_each_turn(script, body, one)]
        if inside and not _does_more(script, body):
            yield _finding(script, inside)


def _does_more(script: Script, body: ast.AST) -> bool:
    """True if a step generates or evaluates too, whose memory has other shapes, or measures it."""
    methods = script.nodes_by_method_anywhere
    more = [one for one in methods if one in _MEASURES or re.search(_MORE, one)]
    return any(
        body in script.ancestors(call.node) or any(body in one.loops for one in call.invocations)
        for call in script.method_calls_anywhere(*more)
    )


def _finding(script: Script, calls: list[Call]) -> Finding:
    """One finding for all that a step empties."""
    names = " and ".join(dict.fromkeys(f"`{script.text(call.node.func)}()`" for call in calls))
    first = next((call for call in calls if call.method == "empty_cache"), calls[0])
    return Finding(
        first.span,
        f"{names} in every step: cached memory is free for the next step anyway, which now waits "
        "and allocates anew",
        _remove(script, calls, names),
    )


def _remove(script: Script, calls: list[Call], names: str) -> Fix:
    """Removes statements that are nothing but the call."""
    message = f"Remove {names} from the step"
    statements = [script.statement(call.node) for call in calls]
    bare = {script.text(call.node) for call in calls}
    loops = {id(one.loops[-1]) if one.loops else None for call in calls for one in call.invocations}
    if len(loops) > 1:
        return advise(f"{message}: a function that is called elsewhere too makes the call")
    if any(script.text(statement) not in bare for statement in statements):
        return advise(message)
    changes = tuple(edits.RemoveStatement(script.span(statement)) for statement in statements)
    return fix(message, changes, unsafe=True)


def _of_config(script: Script, config: Config) -> Finding:
    steps = config.setting(_OPTION)
    return Finding(
        script.span(steps.node if steps.node is not None else config.node.func),
        f"`{_OPTION}=1` empties the allocator's cache in every step: each step waits and allocates "
        "anew, some 10 % slower",
        fix(
            f"Set `{_OPTION}=None`", edits.set_option(script, config, _OPTION, "None"), unsafe=True
        ),
    )


RULE = Rule(
    summary="the allocator's cache emptied in every training step",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(frozenset({"empty_cache", _OPTION, "gc.collect"}),),
)
