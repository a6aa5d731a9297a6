"""Supervised fine-tuning that pads every row of a batch to the longest.

Padding tokens take part in every layer: their activations cost as much memory and time as real
ones. Were lengths exponentially distributed (many short, few long, as conversations are), the
longest of B rows would be H_B = 1 + 1/2 + ... + 1/B times the mean, and 1 - 1/H_B of the batch
would be padding: 33 % at 2, 52 % at 4, 63 % at 8, 70 % at 16. Packing puts whole examples end to
end and keeps them apart by their positions; it costs one pass over the lengths, and the number of
optimizer steps in an epoch falls as the batches get fuller. Source: Krell et al., "Efficient
Sequence Packing without Cross-contamination", arXiv:2107.02027; TRL documentation, "Reducing
Memory Usage" (packing, padding-free).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    MISSING,
    Applicability,
    Call,
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Object,
    Rule,
    Script,
    Setting,
    Trainer,
)
from memlint_rules._decisions import unless_switched_off
from memlint_rules._libraries import LIBRARIES
from memlint_rules._packing import learns_prompts
from memlint_rules._row_lengths import lengths_may_differ, share_of_padding

_TRAINER = "trl.SFTTrainer"
_OPTIONS = ("packing", "padding_free")
_BATCH = "per_device_train_batch_size"


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.uses_vision or script.off_cuda or learns_prompts(script):
        return
    seen: set[ast.AST] = set()
    for trainer in script.training:
        config = trainer.config
        if trainer.kind != _TRAINER or (config is None and trainer.args.given is not False):
            continue
        holder = trainer if config is None or trainer.setting("packing").given else config
        if holder.node in seen or not _trainer_prepares(script, trainer, config):
            continue
        if not lengths_may_differ(script, trainer):
            continue
        if all(_is_off(trainer, name) and _is_off(config, name) for name in _OPTIONS):
            seen.add(holder.node)
            yield _finding(script, holder, config)


def _is_off(call: Call | None, name: str) -> bool:
    """Whether an option is off for certain; one that is neither given nor known is off."""
    if call is None:
        return True
    setting = call.effective(name)
    if setting.given is False and not call.has_option(name):
        return not call.open_ended
    return setting.value is False


def _trainer_prepares(script: Script, trainer: Trainer, config: Config | None) -> bool:
    """Whether the trainer would pack if asked: it prepares and collates the data by itself."""
    if trainer.setting("data_collator").given is not False:
        return False
    holders = [one for one in (trainer, config) if one is not None]
    return all(_prepares(script, one.setting("dataset_kwargs")) for one in holders)


def _prepares(script: Script, given: Setting) -> bool:
    if given.given is False or given.is_none:
        return True
    if not isinstance(given.value, Object) or given.value.type != "dict":
        return False
    skip = script.item(given.value, "skip_prepare_dataset")
    return skip is False or skip is MISSING


def _finding(script: Script, holder: Call, config: Config | None) -> Finding:
    packing = holder.setting("packing")
    rows = _rows(script, config)
    return Finding(
        script.span(packing.node if packing.given and packing.node else holder.node.func),
        _message(rows) + (f" ({packing.origin})" if packing.by_default else ""),
        _fix(script, holder),
        # At 1 nothing is padded, and an unknown batch may be 1.
        Level.HINT if rows is None or rows == 1 else None,
    )


def _rows(script: Script, config: Config | None) -> int | None:
    """Sequences in a micro-batch, None where that is not known."""
    if config is None:
        value = _default_rows(script)
    else:
        value = config.effective(_BATCH).value
    return value if type(value) is int and value > 0 else None


def _default_rows(script: Script) -> object:
    """The default of the arguments that the trainer makes; before `SFTConfig`, transformers'."""
    kind = script.api.config_of("trl.SFTTrainer")
    signature = script.api.signature(kind) if kind is not None else None
    parameter = signature.parameters.get(_BATCH) if signature is not None else None
    return parameter.default if parameter is not None else None


def _message(rows: int | None) -> str:
    if rows == 1:
        return (
            "trains one unpacked sequence at a time: nothing is padded, but short sequences leave "
            "the GPU idle"
        )
    if rows is None:
        return "pads every sequence of a batch to the longest: neither packing nor padding-free"
    return f"pads every sequence to the longest of {rows}: {share_of_padding(rows)}"


def _fix(script: Script, holder: Call) -> Fix:
    if not holder.has_option("packing"):
        where = (
            "to `SFTTrainer`" if script.api.accepts(_TRAINER, "packing") else "in an `SFTConfig`"
        )
        return Fix(f"Set `packing=True` {where}", (), Applicability.DISPLAY)
    if holder.has_option("max_length") and holder.effective("max_length").is_none:
        return Fix("Set `max_length`, then `packing=True`", (), Applicability.DISPLAY)
    edits = script.set_option(holder, "packing", "True")
    if not edits:
        return Fix("Set `packing=True`", (), Applicability.DISPLAY)
    fix = Fix("Set `packing=True`", edits, Applicability.UNSAFE)
    return unless_switched_off(holder.setting("packing"), fix)


RULE = Rule(
    code="MEM103",
    name="unpacked-short-sequences",
    level=Level.WASTE,
    summary="supervised fine-tuning with neither packing nor padding-free",
    why=(
        "Without packing every sequence of a micro-batch is padded to the longest one, and padding "
        "costs what real tokens cost: activations, logits and time. With many short and few long "
        "sequences (exponentially distributed lengths) a third of a batch of 2 is padding, half of "
        "a batch of 4, 63 % of a batch of 8. Packing fills each row with whole examples up to "
        "`max_length`. With one sequence in the micro-batch nothing is padded, so there, and where "
        "the size of the micro-batch is not known, it is a hint. Silent for images, for Unsloth "
        "(which packs by itself), for learned prompts (for which PEFT drops the positions that keep "
        "documents apart), for collators of the script's own, for data that the trainer does "
        "not prepare, and where the making of the data is out of sight or makes rows equally long."
    ),
    fix_safety=(
        "Unsafe: the same examples are seen in other batches and fewer optimizer steps make an "
        "epoch, so learning rate and batch size may want another look. Documents stay apart only "
        "under attention that reads their positions; versions before TRL 1.16 warn where it does "
        "not. Withheld where `max_length` is None, which packing refuses."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"SFTTrainer"})),
    references=(
        "https://arxiv.org/abs/2107.02027",
        "https://huggingface.co/docs/trl/reducing_memory_usage",
    ),
    examples=(
        Example(
            title="the defaults",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", max_length=2048)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig(output_dir="out", max_length=2048, packing=True)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
        ),
        Example(
            title="turned off on the command line's default",
            bad="""\
import argparse
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--packing", type=bool, default=False)
parser.add_argument("--batch", type=int, default=4)
flags = parser.parse_args()
args = SFTConfig("out", packing=flags.packing, per_device_train_batch_size=flags.batch)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
            good="""\
import argparse
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--packing", type=bool, default=True)
parser.add_argument("--batch", type=int, default=4)
flags = parser.parse_args()
args = SFTConfig("out", packing=flags.packing, per_device_train_batch_size=flags.batch)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
        ),
    ),
)
