"""Evaluation that records a graph nobody will run backward through.

``model.eval()`` turns dropout off, not autograd: without ``no_grad`` or ``inference_mode`` every
forward pass keeps what backward would need, the activations of all layers, until its outputs are
released. Transformers' ``generate`` and ``Trainer.evaluate`` have their own. Source: PyTorch
documentation, "Autograd mechanics" (locally disabling gradient computation).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    TESTS,
    AddDecorator,
    Evaluation,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Span,
    WrapStatements,
    advise,
    fix,
    reference_to,
)


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "transformers", "accelerate"):
        return
    for evaluation in script.evaluations:
        first = evaluation.forwards[0]
        if any(forward.gradients is not True for forward in evaluation.forwards):
            continue
        if not (evaluation.sets_mode or evaluation.called):
            continue
        yield Finding(
            first.span,
            f"`{first.called_as}` runs in evaluation with autograd on: the activations of all "
            "layers are kept for a backward pass that never comes",
            _fix(script, evaluation),
        )


def _fix(script: Script, evaluation: Evaluation) -> Fix:
    """A function that does not set evaluation mode itself may be called elsewhere to train."""
    unsafe = not evaluation.sets_mode
    if evaluation.function is not None:
        reference = reference_to(script, "torch.no_grad", evaluation.function)
        if reference is None:
            return advise("Decorate the function with `torch.no_grad()`")
        decorator = AddDecorator(script.span(evaluation.function), f"{reference.text}()")
        return fix("Decorate the function with `no_grad`", (decorator, *reference.edits))
    if not evaluation.statements:
        return advise("Evaluate under `torch.no_grad()`")
    reference = reference_to(script, "torch.no_grad", evaluation.statements[0])
    if reference is None:
        return advise("Evaluate under `torch.no_grad()`")
    first, last = script.span(evaluation.statements[0]), script.span(evaluation.statements[-1])
    wrapped = WrapStatements(Span(*first), Span(*last), f"with {reference.text}():")
    return fix("Evaluate under `no_grad`", (wrapped, *reference.edits), unsafe=unsafe)


RULE = Rule(
    code="MEM703",
    name="autograd-in-evaluation",
    level=Level.WASTE,
    summary="evaluation without no_grad or inference_mode",
    why=(
        "`model.eval()` switches dropout and batch statistics, not autograd. Without "
        "`torch.no_grad()` or `torch.inference_mode()` every forward pass of an evaluation keeps "
        "the activations of all layers until its outputs are released: as much as training, on "
        "batches that are often larger. `generate` of transformers and the evaluation of "
        "`Trainer` and Lightning turn autograd off by themselves. Silent where anything between "
        "`eval()` and `train()` asks for a gradient, where the model is frozen, and under contexts "
        "and decorators that are not known, and in tests, whose models are small."
    ),
    fix_safety=(
        "Safe: the numbers are the same. A function that only evaluates is decorated; elsewhere "
        "the statements that run the model are put under `with torch.no_grad():`."
    ),
    check=check,
    skips=(TESTS,),
    triggers=(frozenset({".eval()", ".train(False)"}),),
    references=("https://docs.pytorch.org/docs/stable/notes/autograd.html",),
    examples=(
        Example(
            title="a function that evaluates",
            bad="""\
import torch


def evaluate(model, loader):
    model.eval()
    total = 0.0
    for batch in loader:
        total += model(**batch).loss.item()
    return total / len(loader)
""",
            good="""\
import torch


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = 0.0
    for batch in loader:
        total += model(**batch).loss.item()
    return total / len(loader)
""",
        ),
        Example(
            title="within the training loop",
            bad="""\
import torch

for epoch in range(3):
    model.train()
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
    model.eval()
    losses = []
    for batch in test_loader:
        losses.append(model(**batch).loss.item())
    print(sum(losses))
""",
            good="""\
import torch

for epoch in range(3):
    model.train()
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
    model.eval()
    losses = []
    with torch.no_grad():
        for batch in test_loader:
            losses.append(model(**batch).loss.item())
    print(sum(losses))
""",
        ),
    ),
)
