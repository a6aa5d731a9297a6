"""What a script trains, by trainers and in loops of its own."""

from __future__ import annotations

import ast

from memlint.rule import Call, Object, Script
from memlint_rules._models import is_trained

# Families of decoders that have had sdpa since before the oldest version of the tables.
DECODERS = (
    r"llama|mistral|mixtral|qwen(1\.5|2|3)|phi-?(1|2|3|4)|smollm|pythia|gpt-?neox|starcoder2|olmo"
    r"|gpt2|zephyr|vicuna|falcon-?(7b|40b|3|180b)"
)


def runs_in_training_loop(script: Script, node: ast.AST) -> bool:
    """Whether a training loop runs a node, itself or in a function that the loop calls."""
    function = script.function(node)
    around = set(script.ancestors(node))
    for loop in script.loops:
        if loop.node in around:
            return True
        if function is None or function is loop.function:
            continue
        for inner in ast.walk(loop.node):
            if isinstance(inner, ast.Call) and callee(inner) == function.name:
                return True
    return False


def callee(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_trained_anywhere(script: Script, load: Call) -> bool:
    """Whether the model that ``load`` makes surely is trained, by a trainer or in a loop."""
    if is_trained(script, load):
        return True
    for loop in script.loops:
        for node in ast.walk(loop.node):
            call = script.call_at(node)
            if call is None or not call.name.endswith(".__call__"):
                continue
            if not isinstance(call.receiver, Object) or call.without_gradients:
                continue
            found = script.model_facts(call.receiver).load
            if found is not None and found.node is load.node:
                return True
    return False


def checkpoint(script: Script, load: Call) -> str:
    """The checkpoint that a ``from_pretrained`` names, in lower case; empty where nobody knows."""
    setting = load.setting("pretrained_model_name_or_path")
    value = setting.value if setting.given else None
    if value is None and load.node.args:
        value = script.python(load.node.args[0])
    return value.lower() if isinstance(value, str) else ""
