"""Evaluation that records a graph nobody will run backward through."""

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Fix,
    Rule,
    Script,
    Skip,
    Span,
    advise,
    edits,
    facts,
    fix,
    is_elsewhere,
    triggers,
)


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "transformers", "accelerate"):
        return
    for evaluation in facts.evaluations_of(script):
        if not all(forward.records_gradients for forward in evaluation.forwards):
            continue
        if not (evaluation.sets_mode or evaluation.called):
            continue
        yield Finding(
            evaluation.forwards[0].span,
            f"`{evaluation.forwards[0].called_as}` runs in evaluation with autograd on: the "
            "activations of all layers are kept for a backward pass that never comes",
            _fix(script, evaluation),
        )
    yield from _frozen_models(script)


def _fix(script: Script, evaluation: facts.Evaluation) -> Fix:
    """A function that does not set evaluation mode itself may be called elsewhere to train."""
    unsafe = not evaluation.sets_mode
    effect = {"graph_in_evaluation": False}
    if evaluation.function is not None:
        reference = edits.reference_to(script, "torch.no_grad", evaluation.function)
        if reference is None:
            return advise("Decorate the function with `torch.no_grad()`", effect)
        decorator = edits.AddDecorator(script.span(evaluation.function), f"{reference.text}()")
        changes = (decorator, *reference.edits)
        return fix("Decorate the function with `no_grad`", changes, effect=effect)
    if not evaluation.statements:
        return advise("Evaluate under `torch.no_grad()`", effect)
    reference = edits.reference_to(script, "torch.no_grad", evaluation.statements[0])
    if reference is None:
        return advise("Evaluate under `torch.no_grad()`", effect)
    first, last = script.span(evaluation.statements[0]), script.span(evaluation.statements[-1])
    wrapped = edits.WrapStatements(Span(*first), Span(*last), f"with {reference.text}():")
    changes = (wrapped, *reference.edits)
    return fix("Evaluate under `no_grad`", changes, unsafe=unsafe, effect=effect)


def _frozen_models(script: Script) -> Iterator[Finding]:
    """References, teachers and reward models that a step runs with autograd on."""
    for frozen in script.frozen_passes:
        if frozen.run.gradients is True and not is_elsewhere(frozen.place):
            yield Finding(
                script.span(frozen.place),
                "a model that nothing trains runs in the training step with autograd on: its "
                "activations are kept for a gradient that nobody wants",
                advise("Run it under `torch.no_grad()`"),
            )


RULE = Rule(
    summary="evaluation without no_grad or inference_mode",
    check=check,
    skips=(Skip.TESTS,),
    # Evaluation needs a mode, a frozen model beside a trained one the parameters of that.
    triggers=(triggers.PASSES, frozenset({"parameters(", ".eval()", ".train(False)"})),
)
