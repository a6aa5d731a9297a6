"""A forward pass in a training step whose result nobody reads."""

import ast
from collections.abc import Iterator

from memlint.rule import Finding, Fix, Rule, Script, Skip, advise, edits, facts, fix, triggers

# Hooks read activations; calibration and a cache are filled by running, and what is measured is
# warmed up.
_READERS = ("hook", "calibrat", "observer", "update_bn", "past_key_values", "capture")
_MEASURES = ("synchronize", "perf_counter", "reset_peak", "elapsed_time")


def check(script: Script) -> Iterator[Finding]:
    for forward in script.forwards:
        is_unread = _is_plain(script, forward) and script.fields_read(forward) == frozenset()
        if is_unread and not script.may_use(*_READERS, *_MEASURES):
            kept = "" if forward.gradients is False else ", with its activations"
            yield Finding(
                forward.span,
                f"`{forward.called_as}` runs forward and nothing reads what it returns: a third of "
                f"a step's time{kept}",
                _fix(script, forward),
            )


def _is_plain(script: Script, forward: facts.Forward) -> bool:
    """True if it certainly is a model's pass of every training step, for its result alone."""
    return (
        forward.in_training_step
        and forward.certainty is facts.Certainty.DEFINITE
        and not forward.own
        and forward.language_model is True
        and not _is_optional(script, forward)
    )


def _is_optional(script: Script, forward: facts.Forward) -> bool:
    """True if only some steps run it, or it runs by itself for some turns, as a warm-up does."""
    kinds = ast.If | ast.Try | ast.For | ast.While
    around = [one for one in script.ancestors(forward.node) if isinstance(one, kinds)]
    return bool(around) and around[0] not in {loop.node for loop in script.loops}


def _fix(script: Script, forward: facts.Forward) -> Fix:
    """A name for the result may be deleted elsewhere; arguments that are calls may do something."""
    if not script.is_statement(forward.node) or script.text(forward.node).count("(") > 1:
        return advise("Remove the forward pass")
    edit = edits.RemoveStatement(script.span(forward.statement))
    return fix("Remove the forward pass", (edit,), unsafe=True)


RULE = Rule(
    summary="a forward pass in a training step whose result nobody reads",
    check=check,
    skips=(Skip.TESTS,),
    triggers=(triggers.STEPS, triggers.UPDATES),
)
