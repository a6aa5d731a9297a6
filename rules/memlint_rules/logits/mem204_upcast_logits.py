"""A hand-written loss that copies the logits of every token and word to use one of each row.

``log_softmax(logits)`` followed by ``gather`` makes a second tensor as large as the logits, keeps
it for the backward pass, and makes a third for the gradient; ``logits.float()`` doubles each. One
number a token is wanted. Computed tile by tile from the hidden states, nothing of that size exists.
Source: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", arXiv:2411.09009.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Call,
    Edit,
    Example,
    Finding,
    Fix,
    InsertStatement,
    Level,
    Rule,
    Script,
)
from memlint_rules._logits import Chain, Gathered, chain_of, gathered_logprobs
from memlint_rules._models import loads_language_model

_SPARING = ("sequence_logprobs", "token_logprobs", "shared_prompt_logprobs", "fuse_trl_losses")
# What copies a model, compiles it, or takes its head's weights away, defers no logits.
_UNDEFERRABLE = ("deepcopy", "create_reference_model", "compile", "DataParallel")
_CLASSIFIERS = (
    "SequenceClassification",
    "TokenClassification",
    "QuestionAnswering",
    "MultipleChoice",
)


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.off_cuda or script.avoids_logits(*_SPARING):
        return
    if not _trains(script):
        return
    gathered = [one for one in gathered_logprobs(script) if _is_vocabulary(script, one.chain)]
    edits = _defer(script, gathered) if gathered else None
    for one in gathered:
        if script.without_gradients(one.node):
            continue
        yield Finding(
            script.span(one.node),
            "a log-softmax over every token and word, of which one entry a token is gathered: as "
            "large as the logits, kept for backward, and its gradient as large again",
            _fix(edits),
        )
        edits = None if edits is None else ()
    yield from _upcasts(script)


def _trains(script: Script) -> bool:
    """Whether it trains anything, in code that no known path reaches too."""
    return bool(script.training) or any(
        node.attr == "backward" for node in script.nodes(ast.Attribute)
    )


def _is_vocabulary(script: Script, chain: Chain) -> bool:
    """Whether the logits are certainly a language model's."""
    loads = script.model_loads
    if any(part in load.name for load in loads for part in _CLASSIFIERS):
        return False
    return chain.shifted or (bool(loads) and all(map(loads_language_model, loads)))


def _upcasts(script: Script) -> Iterator[Finding]:
    """``F.cross_entropy(logits.float(), ...)``."""
    for call in script.calls_to("torch.nn.functional.cross_entropy"):
        given = call.node.args[0] if call.node.args else None
        chain = chain_of(script, given) if given is not None else None
        if chain is None or not chain.upcast or not _is_vocabulary(script, chain):
            continue
        if not script.without_gradients(call.node):
            yield Finding(
                call.span,
                "a cross entropy over a float32 copy of all logits: twice their size, and their "
                "gradient in float32 too",
                Fix(
                    "Let the model compute its loss (`labels=`) after "
                    "`memlint_runtime.fuse_causal_lm_loss(model)`"
                ),
            )


def _fix(edits: tuple[Edit, ...] | None) -> Fix:
    if edits is None:
        return Fix(
            "Take the log-probabilities from the hidden states: "
            "`memlint_runtime.token_logprobs(hidden, model.lm_head.weight, tokens)`"
        )
    return Fix(
        "Call `defer_logits(model)` once the model is loaded: the gathered entries are then "
        "computed tile by tile from the hidden states",
        edits,
    )


def _defer(script: Script, gathered: list[Gathered]) -> tuple[Edit, ...] | None:
    """Edits after which the logits are computed as far as they are gathered. None where any of
    them is used otherwise, or where not all models that make them are known."""
    if script.method_calls(*_UNDEFERRABLE) or script.imports_package("deepspeed"):
        return None
    chains = [one.chain for one in gathered]
    if not all(one.only for one in gathered) or not _only_gathered(script, chains):
        return None
    loads: dict[ast.Call, Call] = {}
    for chain in chains:
        load = _load(script, chain.source)
        if load is None:
            return None
        loads[load.node] = load
    edits: list[Edit] = []
    for load in loads.values():
        statement = script.parent(load.node)
        reference = script.reference("memlint_runtime.losses.defer_logits", load.node)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if reference is not None:
                call = f"{reference.text}({name})"
                edits.append(InsertStatement(script.span(statement), call, "after"))
                edits.extend(edit for edit in reference.edits if edit not in edits)
            case _:
                return None
    return tuple(edits)


def _only_gathered(script: Script, chains: list[Chain]) -> bool:
    """Whether no logits are used but in ``chains``."""
    sources = {chain.source for chain in chains}
    if any(node.attr == "logits" and node not in sources for node in script.nodes(ast.Attribute)):
        return False
    followed = {name for chain in chains for name in chain.names}
    names = {(name.id, script.function(name)) for name in followed}
    for use in script.nodes(ast.Name):
        if (use.id, script.function(use)) not in names or not isinstance(use.ctx, ast.Load):
            continue
        parent = script.parent(use)
        measured = isinstance(parent, ast.Attribute) and parent.attr in ("shape", "size", "device")
        if use not in followed and not measured:
            return False
    return True


def _load(script: Script, source: ast.Attribute) -> Call | None:
    """The ``from_pretrained`` of the model whose output has these logits."""
    output: ast.expr = source.value
    if isinstance(output, ast.Name):
        function = script.function(output)
        found = [
            statement.value
            for statement in script.nodes(ast.Assign)
            if script.function(statement) is function
            and any(isinstance(one, ast.Name) and one.id == output.id for one in statement.targets)
        ]
        if len(found) != 1:
            return None
        output = found[0]
    if not isinstance(output, ast.Call) or not isinstance(output.func, ast.Name):
        return None
    load = script.model_facts(script.value(output.func)).load
    if load is None or load.method != "from_pretrained" or not loads_language_model(load):
        return None
    return load


RULE = Rule(
    code="MEM204",
    name="upcast-logits",
    level=Level.WASTE,
    summary="copies of all logits in a hand-written loss",
    why=(
        "Preference and policy losses written by hand take the log-softmax of all logits and "
        "gather one entry a token. The log-softmax is as large as the logits, autograd keeps it, "
        "and its gradient is as large again: with 151,936 words and 8,192 tokens 2.3 GiB each in "
        "bf16, 4.6 GiB each in float32. The log-probability of a token needs its hidden state and "
        "the head, tile by tile. Reported only where the logits are certainly a language model's, "
        "of all positions, and a gradient flows."
    ),
    fix_safety=(
        "Safe: the same values and gradients up to rounding. `defer_logits` makes the model's head "
        "return an object that computes log-softmax and gather together; all else that is done to "
        "logits computes them first, as before. Applied only where every use of the logits is such "
        "a gather, and the script loads the models itself; advice elsewhere, and where models are "
        "copied, compiled, or sharded by DeepSpeed."
    ),
    check=check,
    triggers=(
        frozenset({"logits"}),
        frozenset({"log_softmax", "cross_entropy"}),
        frozenset({".backward", "Trainer"}),
    ),
    references=("https://arxiv.org/abs/2411.09009",),
    examples=(
        Example(
            title="log-probabilities in a loop",
            bad="""\
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    logits = model(batch["input_ids"], use_cache=False).logits[:, :-1]
    logprobs = F.log_softmax(logits.float(), dim=-1)
    chosen = logprobs.gather(-1, batch["input_ids"][:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(chosen.sum(-1) * batch["advantages"]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
            good="""\
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(model)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    logits = model(batch["input_ids"], use_cache=False).logits[:, :-1]
    logprobs = F.log_softmax(logits.float(), dim=-1)
    chosen = logprobs.gather(-1, batch["input_ids"][:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(chosen.sum(-1) * batch["advantages"]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
        ),
        Example(
            title="indexed by position and token",
            bad="""\
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for ids in loader:
    logits = model(ids[None]).logits[0]
    shifted = logits[:-1]
    tokens = ids[1:]
    logprobs = F.log_softmax(shifted, dim=-1)[torch.arange(len(tokens)), tokens]
    (-logprobs.mean()).backward()
""",
        ),
    ),
)
