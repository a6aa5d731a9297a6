"""A sum of losses that keeps the graph of every step.

``total += loss`` adds a node to the graph of ``total``, which holds the graph of ``loss``. A
backward pass frees the activations in it, not its nodes: a model of 28 layers leaves 2,600 of them,
1.4 MiB of host memory a step, and what functions keep outside the saved tensors. Without a backward
pass, as in evaluation with autograd on, the activations of all batches stay on the GPU. Source:
PyTorch FAQ, "Don't accumulate history across your training loop"; counted with Qwen3's layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    TESTS,
    Example,
    Finding,
    Fix,
    Graph,
    Level,
    ReplaceExpression,
    Rule,
    Script,
    Sum,
    fix,
    method_of,
)

_COSTS = {
    Graph.SPENT: "keeps the graph of every step, thousands of nodes each, for the whole loop",
    Graph.WHOLE: "keeps the graphs of all batches, with the activations of all layers: nothing "
    "runs backward and frees them",
}


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "transformers", "accelerate", "lightning"):
        return
    for each in script.sums:
        graph = script.graph_of(each.addend, each.loop)
        if graph is not None:
            yield Finding(
                script.span(each.statement),
                f"`{each.target}` adds up tensors with their graphs: it {_COSTS[graph]}",
                _fix(script, each),
            )


def _fix(script: Script, each: Sum) -> Fix:
    detached = method_of(script, each.addend, "detach")
    return fix(f"Add `{detached}`", (ReplaceExpression(script.span(each.addend), detached),))


RULE = Rule(
    code="MEM701",
    name="accumulated-graph",
    level=Level.ERROR,
    summary="a sum of losses that keeps the graph of every step",
    why=(
        "`total += loss` makes `total` the end of a graph that holds the graphs of all losses that "
        "went into it. The backward pass of a step frees its activations, but not its nodes: a "
        "model of 28 layers leaves 2,600 of them, 1.4 MiB of host memory each step, and whatever "
        "custom functions keep outside the tensors that they save. Where nothing runs backward, as "
        "in evaluation with autograd on, the activations of every batch stay on the GPU, until it "
        "is full. Found where a backward pass of the same turn starts from what is added, where a "
        "trainer's method returns it as its loss, or where the model is in evaluation mode with "
        "autograd on; silent for sums that are themselves run backward, and for those that the "
        "loop begins anew every so many steps."
    ),
    fix_safety=(
        "Safe: the sum has the same value, and no backward pass runs through it. `detach()` does "
        "not wait for the GPU, as `item()` would."
    ),
    check=check,
    skips=(TESTS,),
    triggers=(frozenset({"+=", " + "}), frozenset({"backward", ".eval()", "model(", "_step"})),
    references=(
        "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
    ),
    examples=(
        Example(
            title="a mean loss for the log",
            bad="""\
import torch

total = 0.0
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss
print(total / len(loader))
""",
            good="""\
import torch

total = 0.0
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss.detach()
print(total / len(loader))
""",
        ),
    ),
)
