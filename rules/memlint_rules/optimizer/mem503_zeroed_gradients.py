"""Gradients that are filled with zeros instead of let go of.

``zero_grad(set_to_none=False)`` keeps every gradient's memory through the next forward pass, where
activations pile up: 2 bytes a parameter in bf16, 4 in float32, 15 GiB or 30 for 8 billion. Set to
None (the default since PyTorch 2.0) they are gone until backward makes them anew, and a kernel that
writes zeros and one that adds to them are saved. Source: PyTorch documentation,
``torch.optim.Optimizer.zero_grad``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Call,
    Example,
    Finding,
    Fix,
    Level,
    Object,
    RemoveKeyword,
    Rule,
    Script,
    Setting,
)

_OPTION = "set_to_none"
# Captured graphs write into the gradients that they were captured with.
_STATIC = frozenset({"CUDAGraph", "graph", "make_graphed_callables"})


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "accelerate", "transformers"):
        return
    findings = list(_kept(script))
    if findings and not _is_static(script) and not _adds_by_hand(script):
        yield from findings


def _kept(script: Script) -> Iterator[Finding]:
    for call in script.method_calls("zero_grad"):
        if not isinstance(call.node.func, ast.Attribute):
            continue
        if isinstance(call.receiver, Object) and call.receiver.cls is not None:
            continue
        setting = call.setting(_OPTION)
        if setting.value is False:
            yield Finding(
                script.span(_place(call, setting)),
                "gradients are kept, as zeros, through the next forward pass: 2 bytes a trained "
                "parameter in bf16, 4 in float32"
                + (f" ({setting.origin})" if setting.by_default else ""),
                _fix(script, call, setting),
            )


def _is_static(script: Script) -> bool:
    return any(
        node.attr in _STATIC and ast.unparse(node.value).endswith("cuda")
        for node in script.nodes(ast.Attribute)
    )


def _adds_by_hand(script: Script) -> bool:
    """Whether the script adds into gradients by itself: there have to be some, then."""
    return any(
        isinstance(node.target, ast.Attribute) and node.target.attr == "grad"
        for node in script.nodes(ast.AugAssign)
    )


def _place(call: Call, setting: Setting) -> ast.AST:
    """The value where it stands in the call, else the call."""
    node = setting.node
    return node if node is not None and node in ast.walk(call.node) else call.node


def _fix(script: Script, call: Call, setting: Setting) -> Fix:
    keyword = call.keyword_node(_OPTION)
    written = keyword is not None and isinstance(keyword.value, ast.Constant)
    if not written or _reads_gradients_after(script, call):
        return Fix(f"Call it without `{_OPTION}=False`", (), Applicability.DISPLAY)
    return Fix(f"Remove `{_OPTION}=False`", (RemoveKeyword(call.span, _OPTION),))


def _reads_gradients_after(script: Script, call: Call) -> bool:
    """Whether anything reads ``.grad`` where it may be None now: the script is not clear of it.

    A read that asks ``is not None`` first is one that expects None.
    """
    reads = [
        node
        for node in script.nodes(ast.Attribute)
        if node.attr == "grad" and not ast.unparse(node.value).endswith(("torch", "autograd"))
    ]
    asked = any(
        isinstance(node.left, ast.Attribute) and node.left.attr == "grad"
        for node in script.nodes(ast.Compare)
    )
    return bool(reads) and not asked


RULE = Rule(
    code="MEM503",
    name="zeroed-gradients",
    level=Level.WASTE,
    summary="gradients filled with zeros instead of let go of",
    why=(
        "`zero_grad(set_to_none=False)` keeps the memory of all gradients through the next forward "
        "pass, which is when activations pile up: 2 bytes a trained parameter in bf16, 4 in "
        "float32, for 8 billion parameters 15 or 30 GiB. Set to None, the default since PyTorch "
        "2.0, they are gone until backward makes them anew. Silent where CUDA graphs are captured: "
        "they need gradients that stay where they are; and where the script adds into `.grad` by "
        "itself."
    ),
    fix_safety=(
        "Safe: where every trained parameter takes part in every step, the steps are the same. "
        "(An optimizer skips a parameter without a gradient; one with a gradient of zeros it still "
        "decays.) Advice only where the script reads `.grad` without asking whether it is None, or "
        "the value comes from elsewhere."
    ),
    check=check,
    triggers=(frozenset({"set_to_none"}),),
    references=(
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
    ),
    examples=(
        Example(
            title="in a loop",
            bad="""\
import torch

optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
""",
            good="""\
import torch

optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
        ),
        Example(
            title="advice only: by a command line's default, or where gradients are read",
            findings=2,
            bad="""\
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--set_grads_to_none", action="store_true")
args = parser.parse_args()
optimizer.zero_grad(set_to_none=args.set_grads_to_none)
model.zero_grad(set_to_none=False)
print(sum(p.grad.norm() for p in model.parameters()))
""",
        ),
    ),
)
