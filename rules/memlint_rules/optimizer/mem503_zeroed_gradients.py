"""Gradients that are filled with zeros instead of freed.

``zero_grad(set_to_none=False)`` keeps every gradient's memory through the next forward pass, where
activations pile up: 2 bytes a parameter in bf16, 4 in float32, 15 GiB or 30 for 8 billion. Set to
None (the default since PyTorch 2.0) they are freed until backward makes new ones. Source: PyTorch
documentation, ``torch.optim.Optimizer.zero_grad``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
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
    Span,
    advise,
    fix,
)

_OPTION = "set_to_none"


def check(script: Script) -> Iterator[Finding]:
    if not script.imports_package("torch", "accelerate", "transformers"):
        return
    for call in script.method_calls("zero_grad"):
        setting = call.setting(_OPTION)
        own = isinstance(call.receiver, Object) and call.receiver.cls is not None
        if setting.value is not False or own or "." not in call.name:
            continue
        if script.needs_gradients_in_place:
            return
        yield Finding(
            _place(script, call, setting),
            "gradients are kept, as zeros, through the next forward pass: 2 bytes a trained "
            "parameter in bf16, 4 in float32"
            + (f" ({setting.origin})" if setting.by_default else ""),
            _fix(script, call),
        )


def _place(script: Script, call: Call, setting: Setting) -> Span:
    """The value where it is in the call, else the call."""
    if setting.node is None:
        return call.span
    span = script.span(setting.node)
    return span if call.span.contains(span) else call.span


def _fix(script: Script, call: Call) -> Fix:
    keyword = call.keyword_node(_OPTION)
    written = keyword is not None and script.text(keyword.value) == "False"
    if not written or script.reads_gradients_unchecked:
        return advise(f"Call it without `{_OPTION}=False`")
    return fix(f"Remove `{_OPTION}=False`", (RemoveKeyword(call.span, _OPTION),))


RULE = Rule(
    code="MEM503",
    name="zeroed-gradients",
    level=Level.WASTE,
    summary="gradients filled with zeros instead of freed",
    why=(
        "`zero_grad(set_to_none=False)` keeps the memory of all gradients through the next forward "
        "pass, which is when activations pile up: 2 bytes a trained parameter in bf16, 4 in "
        "float32, for 8 billion parameters 15 or 30 GiB. Set to None, the default since PyTorch "
        "2.0, they are freed until backward makes new ones. Silent where CUDA graphs are captured: "
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
