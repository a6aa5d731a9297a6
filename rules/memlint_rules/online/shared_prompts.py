"""When the runtime's trainers, which forward each prompt once, can take the place of TRL's."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from memlint.rule import Fix, Script, Trainer, advise, edits, fix

_HOME = "memlint_runtime.trl"


class Obstacle(NamedTuple):
    """Why the runtime's trainer would not do as it is; ``edits`` clear it where edits can.

    is_doubt: it may train a little differently: the author decides.
    """

    reason: str
    edits: tuple[edits.Edit, ...] = ()
    is_doubt: bool = False


def prompt_sharing_trainer(trainer: Trainer) -> str:
    """The runtime's trainer in place of TRL's."""
    return f"{_HOME}.{trainer.kind.rpartition('.')[2]}"


def share_prompts(script: Script, trainer: Trainer, benefit: str) -> Fix:
    """Another import, or another callee, and nothing else; advice where that would not do."""
    name = prompt_sharing_trainer(trainer)
    message = f"Train with `{name}`, {benefit}"
    callee = ast.dump(trainer.node.func)
    found = [
        obstacle
        for one in script.trainers
        if ast.dump(one.node.func) == callee and one.kind == trainer.kind
        for obstacle in _obstacles(script, one)
    ]
    reasons = " and ".join(dict.fromkeys(obstacle.reason for obstacle in found))
    if found:
        message = f"{message}; {reasons}"
    changes = _swapping(script, trainer)
    if not changes or any(not (obstacle.edits or obstacle.is_doubt) for obstacle in found):
        return advise(message)
    clearing = dict.fromkeys(edit for obstacle in found for edit in obstacle.edits)
    return fix(message, (*changes, *clearing), unsafe=bool(found))


def _swapping(script: Script, trainer: Trainer) -> tuple[edits.Edit, ...]:
    callee = trainer.node.func
    if isinstance(callee, ast.Call) and callee.args:
        # limit_prompts(GRPOTrainer, 512), which takes the runtime's class as well.
        callee = callee.args[0]
    name = trainer.kind.rpartition(".")[2]
    if isinstance(callee, ast.Name):
        changes: list[edits.Edit] = [
            edits.RenameImport(script.span(node), node.module or "", alias.name, _HOME, name)
            for node, alias, full in script.imports
            if isinstance(node, ast.ImportFrom)
            and (alias.asname or alias.name) == callee.id
            and script.api.canonical(full) == trainer.kind
        ]
        return tuple(changes) if len(changes) == 1 else ()
    reference = edits.reference_to(script, f"{_HOME}.{name}", trainer.node)
    if not isinstance(callee, ast.Attribute) or reference is None or trainer.is_partial:
        return ()
    if callee is not trainer.node.func:
        return (edits.ReplaceExpression(script.span(callee), reference.text), *reference.edits)
    return (edits.ReplaceCallee(script.span(trainer.node), reference.text), *reference.edits)


def _obstacles(script: Script, trainer: Trainer) -> Iterator[Obstacle]:
    if script.api.behaviour("shared-prompt-trainers") != "drop-in":
        yield Obstacle("it builds on a newer TRL than the target's")
    gone = [
        f"`{name}`"
        for one in filter(None, (trainer, trainer.config))
        for name in one.keywords
        if script.api.of_newest.accepts(one.name, name) is False
    ]
    if gone:
        yield Obstacle(f"the TRL that it builds on takes no {', '.join(gone)}", is_doubt=True)
    if _is_inspected(script, trainer.kind.rpartition(".")[2]):
        yield Obstacle("the script inspects its parameters, and it takes them as `**kwargs`")
    if trainer.subclass is not None:
        yield Obstacle("what the script's own subclass overrides has to agree with it")
    config = trainer.config
    if config is not None and config.setting("torch_compile").value is True:
        yield Obstacle("it refuses `torch_compile=True`")
    if trainer.trains_own_code:
        yield Obstacle("the model's code may not be transformers' own", is_doubt=True)
    yield from _of_model(script, trainer.checkpoint)
    yield from _of_micro_batches(script, trainer)
    if config is None or config.effective("disable_dropout").value is not True:
        if trainer.model.family.has("drops_out"):
            yield Obstacle("it wants the model's dropouts at 0")
        yield from _adapter_dropout(script, trainer)


def _of_model(script: Script, name: str | None) -> Iterator[Obstacle]:
    """What the checkpoint's name says, or does not."""
    family = script.api.family(name)
    if family.refused:
        yield Obstacle(family.refused)
    elif family.shares_images:
        yield Obstacle("it shares a prompt's images only as TRL's GRPO gives them", is_doubt=True)
    elif family.carries_state:
        yield Obstacle("it hands on the state of its layers once it has tried that", is_doubt=True)
    elif not family.shares_prompts:
        yield Obstacle(
            "it takes only decoders whose attention, or whose state, can follow a shared prompt",
            is_doubt=True,
        )


def _of_micro_batches(script: Script, trainer: Trainer) -> Iterator[Obstacle]:
    """Settings under which it matters which rows are in a micro-batch: the runtime's trainers keep
    whole groups together, where TRL mixes the rows of all prompts."""
    if trainer.kind == "trl.DPOTrainer":
        return
    accumulated = trainer.number("gradient_accumulation_steps")
    slices, is_written = slices_of(trainer)
    if slices == 1 or trainer.config is None:
        return
    if is_written and (slices is None or accumulated is None or accumulated % slices):
        yield Obstacle("a step then sees whole groups of fewer prompts", is_doubt=True)
    for option, usual in _BY_MICRO_BATCH:
        if trainer.config.has_option(option) and trainer.config.effective(option).value != usual:
            yield Obstacle(f"`{option}` looks at each micro-batch by itself", is_doubt=True)
    if trainer.config.effective("loss_type").value == "bnpo":
        yield Obstacle('`loss_type="bnpo"` averages each micro-batch by itself', is_doubt=True)
    balanced = trainer.config.effective("router_aux_loss_coef").value != 0
    if balanced and trainer.model.family.experts:
        yield Obstacle("the router's loss looks at each micro-batch by itself", is_doubt=True)


def slices_of(trainer: Trainer) -> tuple[int | None, bool]:
    """The most micro-batches that a generation batch is cut into, None where that is unknown; and
    whether the script says it. Otherwise they are those of an optimizer step."""
    config = trainer.config
    if config is None or config.setting("generation_batch_size").given is False:
        if config is None or config.setting("steps_per_generation").given is False:
            return trainer.number("gradient_accumulation_steps"), False
        return trainer.number("steps_per_generation"), True
    size = trainer.number("generation_batch_size")
    rows = trainer.number("per_device_train_batch_size")
    # On several GPUs fewer, each a divisor of what one has.
    return None if size is None or rows is None else max(size // rows, 1), True


# Options whose effect depends on which rows are in a micro-batch, and their usual value.
_BY_MICRO_BATCH = (
    ("top_entropy_quantile", 1.0),
    ("entropy_coef", 0.0),
    ("use_adaptive_entropy", False),
)


def _is_inspected(script: Script, name: str) -> bool:
    """True if the script asks for the parameters of what is called so."""
    asked = script.calls_to("inspect.signature", "inspect.getfullargspec")
    return any(name in script.text(one.node.args[0]) for one in asked if one.node.args)


def _adapter_dropout(script: Script, trainer: Trainer) -> Iterator[Obstacle]:
    """A group that shares its prompt would draw the adapter's dropout once instead of G times."""
    if trainer.peft is False:
        return
    adapters, told = script.calls_to("peft.LoraConfig"), False
    for adapter in adapters:
        dropout = adapter.setting("lora_dropout")
        if dropout.given is False or dropout.is_value(0, 0.0):
            continue
        known = isinstance(dropout.value, int | float)
        changes = edits.set_option(script, adapter, "lora_dropout", "0.0") if known else None
        told = True
        yield Obstacle("it wants `lora_dropout=0.0`", changes or ())
    if not told and _is_loaded_adapter(script, trainer):
        yield Obstacle("it wants an adapter whose dropout is 0", is_doubt=True)
    given = trainer.setting("peft_config")
    if not adapters and given.given is not False and given.value is not None:
        yield Obstacle("it wants an adapter without dropout")


def _is_loaded_adapter(script: Script, trainer: Trainer) -> bool:
    """True if an adapter comes from a file, or may: its configuration, dropout included, is there.

    A checkpoint may be an adapter too: transformers then loads its base and puts it in.
    """
    objects = trainer.model.objects
    made = [one.made_by.name for one in objects if one.made_by is not None]
    return any("peft.AutoPeftModel" in name or "peft.PeftM" in name for name in made)
