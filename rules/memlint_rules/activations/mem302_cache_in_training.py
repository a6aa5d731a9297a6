"""A hand-written training loop whose forward passes fill a key-value cache.

``use_cache`` is on by default, in training too (``Trainer`` turns it off, a loop has to do it by
itself). Autograd keeps the keys and values until backward has used them anyway; the cache keeps
them after that, for as long as the loop's ``outputs`` live: through the optimizer step and, since
the name is bound again only when the next forward has returned, into the next step's peak.
2 x layers x kv width x 2 bytes per token in bf16: 128 KiB for Llama 3 8B, 4 GiB for 32k tokens.
A forward without gradients (a reference model's) keeps them for nothing. It also lets packed
documents attend to each other: with a cache no mask is derived from their positions.
Measured: 8 layers, 256 hidden units, 512 tokens; autograd saves 100.3 MiB with and without the
cache, and 4 MiB of them stay for as long as the outputs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import Call, Example, Finding, Fix, Level, Object, Rule, Script, SetKeyword
from memlint_rules._libraries import LIBRARIES

_OPTION = "use_cache"
_NO_CACHE_UNDER = (
    "gradient_checkpointing_enable",
    "activation_checkpointing_enable",
    "apply_activation_checkpointing",
    "prepare_model_for_kbit_training",
    "prepare_model_for_int8_training",
)


def check(script: Script) -> Iterator[Finding]:
    if not script.loops or script.uses_unsloth or script.uses_vision:
        return
    if script.method_calls(*_NO_CACHE_UNDER) or _speaks_of_cache(script):
        return
    for call in script.calls:
        if (
            call.name.endswith((".__call__", ".forward"))
            and _OPTION not in call.keywords
            and _in_training_loop(script, call)
            and _builds_cache(script, call)
            and not _lets_go_at_once(script, call)
        ):
            yield _finding(call)


def _speaks_of_cache(script: Script) -> bool:
    """Whether the script decides about the cache, or uses what a forward left in it.

    Prefix tuning hands its prefix over as a cache.
    """
    if any("PrefixTuning" in full for _, _, full in script.imports):
        return True
    for node in script.nodes(ast.Attribute):
        if node.attr == "past_key_values" or (
            node.attr == _OPTION and isinstance(node.ctx, ast.Store)
        ):
            return True
    if any(node.value in (_OPTION, "past_key_values") for node in script.nodes(ast.Constant)):
        return True
    return any(
        node.arg in (_OPTION, "past_key_values") and not _in_generation(script, node)
        for node in script.nodes(ast.keyword)
    )


def _in_generation(script: Script, keyword: ast.keyword) -> bool:
    call = script.parent(keyword)
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "generate"
    )


def _in_training_loop(script: Script, call: Call) -> bool:
    """Whether a training loop runs the call, itself or by a function that it calls."""
    function = script.function(call.node)
    for loop in script.loops:
        if loop.node in script.ancestors(call.node):
            return True
        if function is None or function is loop.function:
            continue
        for node in ast.walk(loop.node):
            if isinstance(node, ast.Call) and _callee(node) == function.name:
                return True
    return False


def _callee(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _lets_go_at_once(script: Script, call: Call) -> bool:
    """Whether only the loss or the logits outlive the call: autograd keeps the rest anyway.

    Without gradients the cache is the only one that keeps them, through the whole forward.
    """
    parent = script.parent(call.node)
    taken = isinstance(parent, ast.Attribute) and parent.attr in ("loss", "logits")
    taken |= isinstance(parent, ast.Subscript) and parent.value is call.node
    return taken and not call.without_gradients


def _builds_cache(script: Script, call: Call) -> bool:
    """Whether the model surely is one whose forward builds a cache when given labels, too.

    BART and its like drop the cache where labels are given; T5 does not.
    """
    if call.receiver is None or not isinstance(call.receiver, Object):
        return False
    facts = script.model_facts(call.receiver)
    if facts.load is None or not facts.load.name.startswith("transformers."):
        return False
    if facts.causal_lm:
        return True
    t5 = isinstance(facts.name, str) and "t5" in facts.name.lower()
    return "T5ForConditionalGeneration" in facts.load.name or (
        "Seq2SeqLM" in facts.load.name and t5
    )


def _finding(call: Call) -> Finding:
    return Finding(
        call.span,
        "this forward pass keeps every layer's keys and values in a cache that training never "
        "reads, for as long as its outputs live",
        Fix(
            f"Pass `{_OPTION}=False`",
            (SetKeyword(call.span, _OPTION, "False", beside_unpacking=True),),
        ),
    )


RULE = Rule(
    code="MEM302",
    name="cache-in-training",
    level=Level.WASTE,
    summary="a training loop's forward passes build a key-value cache",
    why=(
        "`use_cache` is on by default, in training too. `Trainer` turns it off; a hand-written "
        "loop has to. The cache holds the keys and values of every layer for as long as the "
        "loop's outputs live: through backward and the optimizer step and, unless they are "
        "deleted, into the next forward pass, where memory peaks. That is 2 x layers x kv width x "
        "2 bytes per token in bf16, 128 KiB for Llama 3 8B. Packed sequences are hurt more: where "
        "a cache is built, no mask keeps documents apart. Silent where the script decides about "
        "`use_cache` anywhere, checkpoints activations (which turns the cache off), reads "
        "`past_key_values`, or keeps nothing of the outputs but the loss or the logits."
    ),
    fix_safety=(
        "Safe: the logits do not change. The call gets `use_cache=False`; batches of a data "
        "loader, unpacked into it, do not hold that name."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({".backward("})),
    references=("https://huggingface.co/docs/transformers/kv_cache",),
    examples=(
        Example(
            title="a causal language model",
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
            good="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
for batch in loader:
    outputs = model(use_cache=False, **batch)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
        ),
        Example(
            title="T5, prepared by accelerate, trained in a function of its own",
            bad="""\
from accelerate import Accelerator
from transformers import T5ForConditionalGeneration


def train(accelerator, model, optimizer, loader):
    for batch in loader:
        outputs = model(
            input_ids=batch["input_ids"],
            labels=batch["labels"],
        )
        accelerator.backward(outputs.loss)
        optimizer.step()


accelerator = Accelerator()
model = T5ForConditionalGeneration.from_pretrained("google-t5/t5-base")
model, optimizer, loader = accelerator.prepare(model, make_optimizer(model), make_loader())
train(accelerator, model, optimizer, loader)
""",
            good="""\
from accelerate import Accelerator
from transformers import T5ForConditionalGeneration


def train(accelerator, model, optimizer, loader):
    for batch in loader:
        outputs = model(
            input_ids=batch["input_ids"],
            labels=batch["labels"],
            use_cache=False,
        )
        accelerator.backward(outputs.loss)
        optimizer.step()


accelerator = Accelerator()
model = T5ForConditionalGeneration.from_pretrained("google-t5/t5-base")
model, optimizer, loader = accelerator.prepare(model, make_optimizer(model), make_loader())
train(accelerator, model, optimizer, loader)
""",
        ),
    ),
)
