"""Debugging left on in training: anomaly detection, the history of allocations, profilers."""

import ast
from collections.abc import Iterator

from memlint.rule import Call, Finding, Fix, Rule, Script, Skip, advise, edits, facts, fix

_DETECTS = "torch.autograd.detect_anomaly"
_SETS = "torch.autograd.set_detect_anomaly"
_RECORDS = "torch.cuda.memory._record_memory_history"
_PROFILES = ("torch.profiler.profile", "torch.autograd.profiler.profile")
# What makes use of the history.
_READERS = ("_dump_snapshot", "_snapshot", "memory_snapshot")
_ANOMALY = (
    "anomaly detection is on in training: it records a stack trace for every operation and looks "
    "for NaN in every gradient"
)


def check(script: Script) -> Iterator[Finding]:
    if not script.may_train:
        return
    for call in script.calls_to(_SETS, _DETECTS):
        on = call.name != _SETS or call.setting("mode").value is True
        if on and _runs_always(script, call):
            yield Finding(call.span, _ANOMALY, _fix_anomaly(script, call))
    records = script.calls_to(_RECORDS)
    stops = any(call.setting("enabled").value is None for call in records)
    if not stops and not script.may_use(*_READERS):
        for call in records:
            if _runs_always(script, call):
                yield Finding(
                    call.span,
                    "the history of allocations is recorded and never written: a stack trace for "
                    "every allocation of the run, in host memory",
                    _fix(script, call),
                )

    for call in script.calls_to(*_PROFILES):
        if _is_unread(script, call) and _runs_always(script, call):
            yield Finding(
                call.span,
                "a profiler records every operation of the run, and nothing reads what it records",
                advise("Take the profiler out"),
            )


def _is_unread(script: Script, call: Call) -> bool:
    """True if a profiler has no name and hands its trace to nobody."""
    parent = script.parent(call.node)
    unnamed = isinstance(parent, ast.withitem) and parent.optional_vars is None
    return (
        unnamed and not call.has_unknown_keywords and call.setting("on_trace_ready").given is False
    )


def _runs_always(script: Script, call: Call) -> bool:
    """True if nothing but ``if __name__ == "__main__"`` decides whether it runs."""
    return not any(
        isinstance(around, ast.If | ast.IfExp) and "__name__" not in script.text(around.test)
        for around in script.ancestors(call.node)
    )


def _fix_anomaly(script: Script, call: Call) -> Fix:
    """Advice where the script may go on after a step that the detection ends, or asks for it."""
    if facts.survives_failed_steps(script) or script.may_use("is_anomaly_"):
        return advise("Turn it off, unless it decides which batches are trained on")
    return _fix(script, call)


def _fix(script: Script, call: Call) -> Fix:
    if script.is_statement(call.node):
        return fix("Remove the call", (edits.RemoveStatement(script.span(call.node)),))
    if call.name == _DETECTS and script.text(call.node.func).endswith("autograd.detect_anomaly"):
        off = (
            script.text(call.node.func).removesuffix("detect_anomaly") + "set_detect_anomaly(False)"
        )
        return fix("Turn anomaly detection off", (edits.ReplaceExpression(call.span, off),))
    return advise("Turn it off where nothing is searched for")


RULE = Rule(
    summary="anomaly detection, the memory history or a profiler left on in training",
    check=check,
    skips=(Skip.TESTS,),
    triggers=(frozenset({"detect_anomaly", "_record_memory_history", "profile("}),),
)
