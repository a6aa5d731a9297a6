"""Attention that writes out the score of every pair of tokens."""

import ast
from collections.abc import Iterator

from memlint.rule import (
    Call,
    Config,
    Finding,
    Level,
    Object,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
    by_change,
    edits,
    facts,
    fix,
    triggers,
)
from memlint_rules.activations.kernels_of_torch import without_kernels

_OPTION = "attn_implementation"
_MESSAGE = (
    "eager attention keeps some 6 bytes for every head and pair of tokens until backward: 3 GiB a "
    "row and layer at 4,096 tokens and 32 heads"
)
# The load of a model, where eager attention is asked for, and edits that take that back.
_Asked = tuple[Call, ast.expr, tuple[edits.Edit, ...] | None]
# What needs the scores: reading them, or differentiating twice, which sdpa cannot.
_NEEDS = ("output_attentions", "head_mask", "create_graph", "attentions")


def check(script: Script) -> Iterator[Finding]:
    if script.is_named(*_NEEDS) or script.may_use(*_NEEDS):
        return
    for load, node, changes in (*_at_loads(script), *_afterwards(script)):
        if script.trains_model(load):
            model = script.model_facts(script.value(load.node))
            yield from _finding(script, node, model, None if load.loads_own_code else changes)
    for config in script.configs:
        yield from _in_config(script, config)
    yield from without_kernels(script, _MESSAGE)


def _at_loads(script: Script) -> Iterator[_Asked]:
    """``attn_implementation="eager"`` of a load, or of the ``AutoConfig`` that is given to it."""
    for load in script.model_loads:
        config = script.call_at(getattr(load.setting("config").value, "node", None))
        is_plain = config is not None and config.method == "from_pretrained"
        call = config if config and is_plain and not load.setting(_OPTION).given else load
        setting = call.setting(_OPTION)
        if setting.value == "eager":
            changes = edits.set_option(script, call, _OPTION, '"sdpa"')
            yield load, setting.node or call.node.func, changes


def _afterwards(script: Script) -> Iterator[_Asked]:
    """``model.set_attn_implementation("eager")``, ``config._attn_implementation = "eager"``."""
    for node, holder in script.attention_setters:
        made = script.value(holder)
        loads = (
            one
            for one in script.model_loads
            if one.setting("config").value is made and not one.setting(_OPTION).given
        )
        load = next(loads, script.model_facts(made).load)
        if script.python(node) == "eager" and load is not None:
            own = isinstance(node, ast.Constant)
            change = edits.ReplaceExpression(script.span(node), '"sdpa"')
            yield load, node, (change,) if own else None


def _in_config(script: Script, config: Config) -> Iterator[Finding]:
    """``model_init_kwargs``, with which a TRL trainer loads a model that is given by name."""
    made = config.setting("model_init_kwargs").value
    trainers = [one for one in script.training_with(config) if one.model.by_name]
    models = [one.model for one in trainers]
    if not isinstance(made, Object) or made.type != "dict" or not models:
        return
    if script.item(made, _OPTION) != "eager":
        return
    own_code = any(one.trains_own_code for one in trainers)
    changes = None if own_code else edits.set_item(script, made, _OPTION, '"sdpa"')
    node = getattr(script.final_bindings(made)[_OPTION].value, "node", None) or made.node
    same = len({model.checkpoint for model in models}) == 1
    yield from _finding(script, node or config.node.func, models[0] if same else None, changes)


def _finding(
    script: Script,
    node: ast.AST,
    model: facts.ModelFacts | None,
    changes: tuple[edits.Edit, ...] | None,
) -> Iterator[Finding]:
    span = script.span(node)
    if model is not None and model.family.has("is_gemma"):
        advice = _advice_for_gemma(script, model)
        if advice:
            yield Finding(span, _MESSAGE, advise(advice), Level.HINT)
        return
    message = f'Set `{_OPTION}="sdpa"`'
    if changes and model is not None and model.is_decoder:
        # Weights that dropout leaves out are others then.
        drops = model.family.has("drops_attention")
        yield Finding(span, _MESSAGE, fix(message, changes, unsafe=drops))
    else:
        yield Finding(span, _MESSAGE, advise(f"{message}, if the model supports it"))


def _advice_for_gemma(script: Script, model: facts.ModelFacts) -> str:
    """What may take eager attention's place; empty where nothing does.

    Gemma 2 soft-caps its scores, which sdpa cannot; the others have no cap.
    """
    if model.family.has("caps_scores"):
        if script.api.behaviour("gemma-2-flex") != "supported":
            return ""
        return f'Compare with `{_OPTION}="flex_attention"`, which caps and masks as eager does'
    advice = f'Compare with `{_OPTION}="sdpa"`, which this model supports'
    if model.family.has("is_gemma_3") and script.api.behaviour("gemma-training") == "eager":
        advice += "; this version of transformers recommends eager attention for its training"
    return advice


def of_run(run: TrainingRun) -> Iterator[Finding]:
    if run.attention.is_value("eager"):
        message = "eager attention keeps a score for every pair of tokens and head"
        yield Finding(run.attention.span, message, by_change(run.set(attention="sdpa")))


RULE = Rule(
    summary="attention that writes out the score of every pair of tokens",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"eager", "enable_flash_sdp", "sdpa_kernel"})),
    effect={"attention": "sdpa"},
)
