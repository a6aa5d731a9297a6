"""Hidden states or attention weights asked for in training and never read.

``output_hidden_states=True`` hands out every layer's input and the last one's output: 2 x (layers +
1) x hidden size bytes per token in bf16, 264 KiB for Llama 3 8B. Backward needs most of them anyway,
so they cost where the outputs outlive it: in a loop that names them, until the next forward pass
has returned (counted: 0.27 GiB of 8.8 for a 1B model and 4,096 tokens), and in evaluation, where
nothing else would keep a layer's output. ``output_attentions=True`` costs more: fused attention cannot give weights, so that attention
becomes eager, and every layer's scores for all pairs of tokens stay. Source: transformers' models;
counted in ``tests/bench/outputs_outlive_step.py``.
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
    ReplaceExpression,
    Rule,
    Script,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._training import is_trained_anywhere, runs_in_training_loop

_ASKED = {
    "output_hidden_states": (
        "hidden_states",
        "nothing reads the hidden states of all layers, which live as long as the outputs do",
    ),
    "output_attentions": (
        "attentions",
        "attention becomes eager and the weights of all layers, one for every head and pair of "
        "tokens, are kept; nothing reads them",
    ),
}


def check(script: Script) -> Iterator[Finding]:
    for option, (name, why) in _ASKED.items():
        if not script.says(option):
            continue
        findings = list(_asked_for(script, option, why))
        if findings and not _is_read(script, name):
            yield from findings


def _asked_for(script: Script, option: str, why: str) -> Iterator[Finding]:
    for load in script.model_loads:
        asked = load.setting(option).value is True
        if asked and is_trained_anywhere(script, load) and not _gathered(script):
            yield _in_call(script, load, option, why, outlives=False)
    for call in script.calls:
        if call.setting(option).value is True and _is_training_forward(script, call):
            named = isinstance(script.parent(call.node), ast.Assign)
            yield _in_call(script, call, option, why, outlives=named)
    yield from _in_assignments(script, option, why)


def _is_read(script: Script, name: str) -> bool:
    """Whether anything may read the outputs: by name, by place, or in code that is elsewhere."""
    return (
        any(name in node.attr for node in script.nodes(ast.Attribute) if not _asks(node.attr))
        or any(name in node.id for node in script.nodes(ast.Name) if not _asks(node.id))
        or any(
            isinstance(node.value, str) and name in node.value and not _asks(node.value)
            for node in script.nodes(ast.Constant)
        )
        or any(_is_place(node) for node in script.nodes(ast.Subscript))
        or any(_unpacks_forward(script, node) for node in script.nodes(ast.Assign))
        or any(_hands_on(script, node) for node in script.nodes(ast.Name))
    )


def _asks(word: str) -> bool:
    return word in _ASKED


def _is_place(node: ast.Subscript) -> bool:
    """``outputs[2]``: a tuple's place that may be that of the hidden states."""
    if not isinstance(node.value, ast.Name | ast.Call):
        return False
    named = isinstance(node.value, ast.Call) or "out" in node.value.id or "pred" in node.value.id
    match node.slice:
        case ast.Constant(value=int(place)):
            return named and place != 0
        case ast.UnaryOp() | ast.Slice():
            return named
        case _:
            return False


def _unpacks_forward(script: Script, node: ast.Assign) -> bool:
    """``loss, logits, *rest = model(...)``."""
    if not isinstance(node.targets[0], ast.Tuple | ast.List):
        return False
    call = script.call_at(node.value)
    return call is not None and (call.name == "?" or call.name.endswith(".__call__"))


def _hands_on(script: Script, node: ast.Name) -> bool:
    """Whether outputs are handed on whole, to where nobody sees what is read."""
    if "output" not in node.id or not isinstance(node.ctx, ast.Load):
        return False
    parent = script.parent(node)
    if isinstance(parent, ast.Return | ast.Tuple | ast.List | ast.Yield | ast.keyword):
        return True
    return isinstance(parent, ast.Call) and node in parent.args


def _gathered(script: Script) -> bool:
    """Whether an evaluation hands all outputs to the script."""
    names = ("compute_metrics", "preprocess_logits_for_metrics", "compute_loss_func")
    return any(
        trainer.setting(name).given is not False for trainer in script.trainers for name in names
    )


def _is_training_forward(script: Script, call: Call) -> bool:
    if call.name != "?" and not call.name.endswith(".__call__"):
        return False
    if isinstance(call.receiver, Object):
        load = script.model_facts(call.receiver).load
        known = load is not None and load.name.startswith("transformers.")
    else:
        known = script.imports_package("transformers") and bool(script.model_loads)
    return known and runs_in_training_loop(script, call.node)


def _level(option: str, *, outlives: bool) -> Level | None:
    """Hidden states that go with the forward pass cost in evaluation only: a hint."""
    return None if outlives or option == "output_attentions" else Level.HINT


def _in_call(script: Script, call: Call, option: str, why: str, *, outlives: bool) -> Finding:
    level = _level(option, outlives=outlives)
    keyword = call.keyword_node(option)
    if keyword is None or not isinstance(keyword.value, ast.Constant):
        return Finding(
            script.span(call.node.func),
            f"`{option}=True`: {why}",
            Fix(f"Take `{option}` out", (), Applicability.DISPLAY),
            level,
        )
    return Finding(
        script.span(keyword.value),
        f"`{option}=True`: {why}",
        Fix(f"Remove `{option}`", (RemoveKeyword(call.span, option),)),
        level,
    )


def _in_assignments(script: Script, option: str, why: str) -> Iterator[Finding]:
    """``model.config.output_hidden_states = True`` on a model that is trained."""
    if _gathered(script):
        return
    for node in script.nodes(ast.Assign):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(attr=name, value=ast.Attribute(value=model, attr="config"))],
                value=ast.Constant(value=True) as value,
            ) if name == option and _is_trained(script, model):
                edits = (ReplaceExpression(script.span(value), "False"),)
                yield Finding(
                    script.span(node),
                    f"`{option} = True`: {why}",
                    Fix(f"Set `{option}` to False", edits),
                    _level(option, outlives=False),
                )
            case _:
                pass


def _is_trained(script: Script, model: ast.expr) -> bool:
    load = script.model_facts(script.value(model)).load
    if load is None or not load.name.startswith("transformers."):
        return False
    return is_trained_anywhere(script, load)


RULE = Rule(
    code="MEM306",
    name="unused-model-outputs",
    level=Level.WASTE,
    summary="hidden states or attention weights asked for in training and never read",
    why=(
        "`output_hidden_states=True` keeps the hidden states of every layer with the outputs: 2 x "
        "(layers + 1) x hidden size bytes per token in bf16, 264 KiB for Llama 3 8B, 1 GiB at "
        "4,096 tokens. Backward needs them anyway; they cost where the outputs outlive it, as in a "
        "loop that names them, and in evaluation. Elsewhere it is a hint. "
        "`output_attentions=True` is worse: attention "
        "becomes eager, and every layer's weights, heads x tokens x tokens, are kept. Silent where "
        "the script mentions hidden states or attentions, reads outputs by place, or hands them on "
        "whole."
    ),
    fix_safety="Safe: loss and gradients do not change; what is taken out is not read anywhere.",
    check=check,
    triggers=(LIBRARIES, frozenset(_ASKED)),
    references=("https://huggingface.co/docs/transformers/main_classes/output",),
    examples=(
        Example(
            title="in a loop's forward pass",
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch, output_hidden_states=True)
    outputs.loss.backward()
""",
            good="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward()
""",
        ),
        Example(
            title="when the model is loaded, and in its configuration",
            findings=2,
            bad="""\
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", output_attentions=True)
model.config.output_hidden_states = True
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
""",
            good="""\
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.config.output_hidden_states = False
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
""",
        ),
    ),
)
