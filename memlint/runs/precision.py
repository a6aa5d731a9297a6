"""In which precision weights can be put: what the GPU has, and what is compared with them.

A policy and its reference are put in another precision together or not at all: the difference of
their log-probabilities is what is learned from, and it starts at 0 only where they round alike.
"""

import ast
import itertools
from collections.abc import Sequence

from memlint.engine.nodes import Node, Statement
from memlint.engine.values import Constant, Object, Symbol
from memlint.flow.evaluated import query
from memlint.runs.changes import add_item, configure, set_item, set_option, together
from memlint.runs.references import reference_to
from memlint.runs.run import Change, Field, span_in
from memlint.script.call_settings import UNSURE, Setting
from memlint.script.called import Call
from memlint.script.calls import Trainer
from memlint.script.forward_passes import Forward
from memlint.script.loaded_models import model_facts
from memlint.script.model import Script
from memlint.script.weight_precision import DTYPE_OPTIONS
from memlint.source.edits import Edit, WrapStatements
from memlint.source.patterns import lazy_pattern

FLOAT32 = "torch.float32"
_WIDE = "float32"
# GPUs without bf16, where they are free, and probes for it. A guess, which only silences.
_OLDER_GPU = lazy_pattern(
    r"\b(T4|V100|P100|P40|K80|RTX ?20\d\d|GTX|Turing|Volta)\b|is_bf16_supported|"
    r"get_device_capability|google\.colab|/kaggle/|[cC]olab"
)
# The GPU that Colab and Kaggle note beside a notebook's cells.
_OLDER_GPU_NOTED = lazy_pattern(rb'"(gpuType|accelerator)": ?"(nvidiaTesla)?(T4|V100|P100)"')
# Trainers of TRL that compare the model with no reference.
_ALONE = ("SFTTrainer", "RewardTrainer", "PRMTrainer", "ORPOTrainer", "CPOTrainer")
# What calls a thing of which nothing is known: perhaps a reference.
_UNKNOWN = ("?", "?.__call__")
_REFERENCES = ("ref_model", "teacher_model")


@query
def may_lack_bf16(script: Script) -> bool:
    """True if the script or its notebook says that its GPU may have no bf16."""
    return script.matches(_OLDER_GPU) or bool(_OLDER_GPU_NOTED.search(script.source.raw))


@query
def trains_without_bf16(script: Script) -> bool:
    """True if the GPU may have no bf16, or the script trains in fp16 or writes bf16 off."""
    scaled = any(
        call.setting("mixed_precision").value == "fp16"
        for call in script.calls_anywhere("accelerate.Accelerator")
    )
    return (
        scaled
        or may_lack_bf16(script)
        or script.may_use("GradScaler")
        or any(
            config.setting("fp16").value is True or config.setting("bf16").value is False
            for config in script.configs
            if not config.setting("bf16").is_overridable_default
        )
    )


def read_load(script: Script, load: Call, *, frozen: bool) -> Field:
    """The dtype of a language model's load, where it is float32 for nothing.

    frozen: its weights are only read. Without bf16 losses are scaled, which wants float32 weights;
    what shards them computes in its own dtype, and keeps float32 to step.
    """
    layers = script.model_facts(script.value(load.node)).is_stack_of_layers
    if not layers or script.is_quantized(load) is not False:
        return Field()
    if not frozen and (may_lack_bf16(script) or script.is_sharded):
        return Field()
    if not frozen and load.method != "from_pretrained":
        # Weights that begin at random learn from small steps, which bfloat16 rounds away.
        return Field()
    setting = script.given_dtype(load)
    if setting is None:
        plain = script.api.behaviour("load-dtype") == "float32" and not load.has_unknown_keywords
        said = "the model is loaded in float32, this version's default"
        return Field(_WIDE if plain else UNSURE, span_in(script, load.node.func), said)
    wide = setting.given and script.dtype_name(setting) == FLOAT32
    span = span_in(script, setting.node if setting.node is not None else load.node)
    return Field(_WIDE if wide else UNSURE, span, f"`{setting.name}` is float32")


def write_load(script: Script, load: Call, value: str, *, frozen: bool) -> Change:
    """Another dtype for a load, and for what its model is compared with."""
    setting, lacking = script.given_dtype(load), trains_without_bf16(script)
    option = setting.name if setting is not None else script.dtype_option(load.name)
    changed = {"weights_dtype": "float16" if lacking else value}
    if lacking and not frozen:
        return Change(changed, f"Set `{option}=torch.{value}`, on a GPU that has it")
    dtype = f"torch.{changed['weights_dtype']}"
    several = len(script.model_loads) > 1
    message = f"Set `{option}={dtype}`{', for what it is compared with too' if several else ''}"
    # A head of classes is trained beside adapters.
    headed = not script.loads_language_model(load)
    unsafe = lacking or not frozen or headed or is_decided(script, load)
    return Change(changed, message, load_in(script, load, dtype), unsafe)


def load_in(script: Script, load: Call, dtype: str) -> tuple[Edit, ...] | None:
    """Edits that load a float32 model in ``dtype``, and with it those that it is compared with.

    None where one of them cannot be changed, or its precision is not certain.
    """
    beside = _compared_with(script, load)
    if beside is None:
        return None
    return together(*(_loaded_in(script, one, dtype) for one in (load, *beside)))


def load_by_name_in(script: Script, trainer: Trainer, dtype: str) -> tuple[Edit, ...] | None:
    """Edits with which a TRL trainer loads its model in ``dtype``, its reference alike."""
    options = trainer.loading_options
    beside = loads_beside(script)
    if any(_is_given_out_of_sight(trainer, name) for name in _REFERENCES):
        return None
    if beside is None and any(map(script.loads_language_model, script.model_loads)):
        return None
    others = (_loaded_in(script, one, f"torch.{dtype}") for one in beside or ())
    return together(_with_dtype(script, trainer, options, dtype), *others)


def dtype_node(script: Script, options: Setting) -> ast.AST | None:
    """Where a dict of loading options says a dtype; None where it does not."""
    if not isinstance(options.value, Object):
        return None
    written = script.final_bindings(options.value)
    values = (written[name].value for name in DTYPE_OPTIONS if name in written)
    return next((value.node for value in values if isinstance(value, Constant | Symbol)), None)


def _with_dtype(
    script: Script, trainer: Trainer, options: Setting, dtype: str
) -> tuple[Edit, ...] | None:
    name, source = script.dtype_option(), f'"{dtype}"'
    if not isinstance(options.value, Object):
        whole = f'{{"{name}": {source}}}'
        if trainer.config is None:
            return configure(script, trainer, options.name, whole)
        return set_option(script, trainer.config, options.name, whole)
    written = [one for one in DTYPE_OPTIONS if one in script.final_bindings(options.value)]
    if written:
        return set_item(script, options.value, written[0], source)
    return add_item(script, options.value, name, source)


def loads_beside(script: Script) -> tuple[Call, ...] | None:
    """The loads of float32 models in sight; None where some model's precision is not certain."""
    found = []
    for load in script.model_loads:
        if not script.loads_language_model(load):
            continue
        dtype = _dtype(script, load)
        if dtype is None:
            return None
        if dtype == FLOAT32:
            found.append(load)
    return tuple(found)


def is_decided(script: Script, load: Call) -> bool:
    """True if a dtype is written for a load, or for a model that it is compared with."""
    beside = _compared_with(script, load)
    return any(script.given_dtype(one) is not None for one in (load, *(beside or ())))


def _compared_with(script: Script, load: Call) -> tuple[Call, ...] | None:
    if _is_compared_out_of_sight(script, load):
        return None
    loads = loads_beside(script)
    if loads is None:
        every = [one for one in script.model_loads if script.loads_language_model(one)]
        return () if all(one.node is load.node for one in every) else None
    return tuple(one for one in loads if one.node is not load.node)


def _is_compared_out_of_sight(script: Script, load: Call) -> bool:
    """True if a model may be compared with one of which nobody can tell how it was loaded."""
    trainers = [
        one
        for one in script.all_training
        if one.model.load is not None and one.model.load.node is load.node
    ]
    steps = [one.step for one in script.loop_models if one.load.node is load.node]
    return (
        any(map(_has_reference_out_of_sight, trainers))
        or any(_is_out_of_sight(script, run) for step in steps for run in step.all_forwards)
        or any(call.name in _UNKNOWN and call.without_gradients for call in script.calls)
    )


def _is_out_of_sight(script: Script, forward: Forward) -> bool:
    """True if nobody can tell how a model that a step runs was loaded."""
    loaded = {load.node for load in script.model_loads}
    if forward.own or not forward.facts.loads:
        return not forward.own and not forward.facts.objects
    return any(
        one.node not in loaded and not one.name.startswith("torch.nn.")
        for one in forward.facts.loads
    )


def _is_given_out_of_sight(trainer: Trainer, name: str) -> bool:
    setting = trainer.setting(name)
    given = setting.given is not False and not setting.is_none
    return given and not model_facts(trainer.script, setting.raw).loads


def _has_reference_out_of_sight(trainer: Trainer) -> bool:
    """True if a trainer compares its model with one whose load is not in sight."""
    if trainer.subclass is not None:
        return True
    settings = [trainer.setting(name) for name in _REFERENCES]
    if any(setting.given is not False and not setting.is_none for setting in settings):
        return any(_is_given_out_of_sight(trainer, name) for name in _REFERENCES)
    if not trainer.kind.startswith("trl.") or trainer.is_kind(*_ALONE) or trainer.peft is True:
        return False
    # TRL loads the reference, in the policy's precision in some releases only.
    config = trainer.config
    options = config.setting("model_init_kwargs") if config is not None else None
    plain = options is None or options.given is False or options.is_none
    topic = "reference-dtype" if not trainer.is_kind("DPOTrainer") else "reference-of-dpo"
    return not plain or trainer.script.api.behaviour(topic) != "policy"


def _dtype(script: Script, load: Call) -> str | None:
    """The dtype in which a load's weights stay, ``quantized``, or None where it is not certain."""
    quantized = script.is_quantized(load)
    if quantized is not False:
        return "quantized" if quantized else None
    facts = script.model_facts(script.value(load.node))
    casts = [name for _, name in script.casts_of(facts)]
    if casts:
        return None if FLOAT32 in casts else casts[-1]
    setting = script.given_dtype(load)
    if setting is None:
        plain = script.api.behaviour("load-dtype") == "float32" and not load.has_unknown_keywords
        return FLOAT32 if plain else None
    name = script.dtype_name(setting) if setting.given else None
    return name if name in (FLOAT32, "torch.bfloat16", "torch.float16") else None


def _loaded_in(script: Script, load: Call, dtype: str) -> tuple[Edit, ...] | None:
    reference, setting = reference_to(script, dtype, load.node), script.given_dtype(load)
    if reference is None:
        return None
    option = setting.name if setting is not None else script.dtype_option(load.name)
    edits = set_option(script, load, option, reference.text)
    return (*edits, *reference.edits) if edits is not None else None


def under_autocast(
    script: Script, passes: Sequence[Forward], dtype: str
) -> tuple[Edit, ...] | None:
    """Edits that run forward passes, and what follows up to their backward, under autocast.

    None where one of them is in another file, or torch's names are taken. The losses belong to it:
    they are computed in float32 there.
    """
    edits: tuple[Edit, ...] = ()
    wrapped: set[Node] = set()
    for forward in passes:
        if forward.elsewhere or not script.is_simple(forward.statement):
            return None
        if forward.statement in wrapped:
            continue
        statements = _up_to_backward(script, forward)
        narrow = reference_to(script, f"torch.{dtype}", forward.statement)
        under = reference_to(script, "torch.autocast", forward.statement)
        if not statements or narrow is None or under is None:
            return None
        wrapped.update(statements)
        first, last = script.span(statements[0]), script.span(statements[-1])
        header = f'with {under.text}("cuda", dtype={narrow.text}):'
        edits += (WrapStatements(first, last, header), *under.edits, *narrow.edits)
    return edits or None


def _up_to_backward(script: Script, forward: Forward) -> list[Statement]:
    """The statements from a forward pass to the last before its backward, if these differ."""
    steps = {script.statement(one.node) for one in script.method_calls(*_AFTER_THE_LOSS)}
    block = script.flow.block(forward.statement)
    rest = block[block.index(forward.statement) :]
    around = {each for one in steps for each in (one, *script.ancestors(one))}
    return list(itertools.takewhile(lambda one: one not in around, rest))


_AFTER_THE_LOSS = ("backward", "manual_backward", "step", "zero_grad", "item")
