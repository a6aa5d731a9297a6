"""Documents packed into one row that attend to each other.

Only their positions, which begin at 0 again, tell packed documents apart. transformers makes masks
of them from 4.53 on, where no cache is built and no 2D mask is given; before, only flash attention
reads them. Otherwise every document sees those before it, and the model learns from text that will
not be there. Packing that cuts all text into equal blocks (TRL's ``wrapped``, run_clm's
``group_texts``) has no documents left to keep apart: by design, so it is a hint. Source:
``transformers/masking_utils.py``; ``modeling_flash_attention_utils.py``; Zhao et al., "Analysing
The Impact of Sequence Composition on Language Model Pre-Training", arXiv:2402.13991.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Config,
    Edit,
    Example,
    Finding,
    Fix,
    Level,
    Object,
    Rule,
    Script,
    SetKeyword,
    Span,
    Trainer,
)
from memlint_rules._checkpointing import ENABLERS
from memlint_rules._libraries import LIBRARIES
from memlint_rules._packing import attention, packs, sets_attention_elsewhere
from memlint_rules._training import runs_in_training_loop

_FLATTENING = "transformers.DataCollatorWithFlattening"
_PADDING_COLLATORS = (
    "transformers.DataCollatorForLanguageModeling",
    "transformers.DataCollatorForSeq2Seq",
    "transformers.DataCollatorWithPadding",
    "transformers.default_data_collator",
)


def check(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.off_cuda:
        return
    elsewhere = sets_attention_elsewhere(script)
    for trainer in script.training:
        config = trainer.config
        if trainer.kind != "trl.SFTTrainer":
            continue
        if trainer.has_option("packing") and trainer.setting("packing").value is True:
            yield _by_design(script, None, script.span(trainer.node.func))
        elif config is not None:
            yield from _in_sft(script, trainer, config, elsewhere=elsewhere)
    if not elsewhere:
        yield from _in_loops(script)
    yield from _in_blocks(script)


def _in_sft(
    script: Script, trainer: Trainer, config: Config, *, elsewhere: bool
) -> Iterator[Finding]:
    strategy = packs(config)
    if strategy is None:
        return
    option = "padding_free" if strategy == "padding_free" else "packing"
    node = config.setting(option).node
    place = script.span(node if node is not None else config.node.func)
    if strategy == "wrapped":
        yield _by_design(script, config, place)
        return
    collator = trainer.setting("data_collator")
    if _made_by(collator.value) in _PADDING_COLLATORS:
        yield Finding(
            script.span(collator.node if collator.node is not None else trainer.node.func),
            "this collator drops where packed documents begin: they attend to each other",
            Fix("Leave `data_collator` to the trainer", (), Applicability.DISPLAY),
        )
    elif script.api.behaviour("packed-positions") == "flash" and not elsewhere:
        used = attention(script, trainer, config)
        if used in ("default", "sdpa", "eager"):
            yield Finding(
                place,
                f"documents in a row attend to each other: in this version of transformers only "
                f"flash attention reads their positions, and this model uses "
                f"{'the default' if used == 'default' else used}",
                Fix(
                    'Load the model with `attn_implementation="flash_attention_2"`',
                    (),
                    Applicability.DISPLAY,
                ),
            )


def _by_design(script: Script, config: Config | None, place: Span) -> Finding:
    edits, advice = None, "Pack whole documents (TRL 0.19 on)"
    if config is not None and config.has_option("packing_strategy"):
        edits = script.set_option(config, "packing_strategy", '"bfd"')
        advice = 'Set `packing_strategy="bfd"`'
    return Finding(
        place,
        "`wrapped` packing cuts documents anywhere and lets those in a row attend to each other",
        Fix(advice, edits or (), Applicability.UNSAFE if edits else Applicability.DISPLAY),
        Level.HINT,
    )


def _made_by(value: object) -> str:
    if isinstance(value, Object) and value.made_by is not None:
        return value.type or value.made_by.name
    return getattr(value, "name", "")


def _in_loops(script: Script) -> Iterator[Finding]:
    """Flattened batches in a loop whose forward passes build a cache, which rules masks out."""
    if not script.loops or not script.calls_to(_FLATTENING):
        return
    if script.api.behaviour("packed-positions") != "all" or script.method_calls(*ENABLERS):
        return
    if any(node.attr == "use_cache" for node in script.nodes(ast.Attribute)):
        return
    for call in script.calls:
        if not call.name.endswith(".__call__") or not isinstance(call.receiver, Object):
            continue
        facts = script.model_facts(call.receiver)
        if facts.causal_lm is not True or not runs_in_training_loop(script, call.node):
            continue
        load = facts.load
        given = load.setting("attn_implementation") if load is not None else None
        flash = given is not None and given.given is not False
        if flash or (load is not None and load.setting("use_cache").given is not False):
            continue
        if call.setting("use_cache").value is True or "use_cache" not in call.keywords:
            edits: tuple[Edit, ...] = (
                SetKeyword(call.span, "use_cache", "False", beside_unpacking=True),
            )
            yield Finding(
                call.span,
                "flattened documents attend to each other: with a key-value cache no mask is made "
                "of their positions",
                Fix("Pass `use_cache=False`", edits),
            )


def _in_blocks(script: Script) -> Iterator[Finding]:
    """run_clm's ``group_texts``: everything end to end, cut into blocks."""
    for function in script.nodes(ast.FunctionDef):
        if function.name != "group_texts":
            continue
        joins = any(
            isinstance(node, ast.Call)
            and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("sum", "chain")
            for node in ast.walk(function)
        )
        if joins and script.trains_causal_lm:
            start = script.span(function).start
            yield Finding(
                Span(start, start + len(f"def {function.name}")),
                "equal blocks cut documents anywhere and let those in a block attend to each other",
                Fix(
                    "Pack whole documents: `memlint_runtime.pack_dataset`",
                    (),
                    Applicability.DISPLAY,
                ),
                Level.HINT,
            )


RULE = Rule(
    code="MEM105",
    name="packed-documents-attend",
    level=Level.ERROR,
    summary="packed or flattened documents attend to each other",
    why=(
        "Packing and padding-free batches put several documents in one row, and only positions "
        "that begin again at 0 tell them apart. transformers before 4.53 reads them with flash "
        "attention only; later versions with any attention, but not where a key-value cache is "
        "built (the default in a hand-written loop without activation checkpointing) or where the "
        "collator drops them. Then each document attends to those before it, and the model learns "
        "to answer from contexts that it will never have. `wrapped` packing and run_clm's "
        "`group_texts` cut all text into equal blocks: that documents mix there is by design, a "
        "hint. Silent under Unsloth."
    ),
    fix_safety=(
        "Safe where one setting mends it (`use_cache=False`): documents stay apart as they were "
        "meant to. Another packing strategy is unsafe, since batches change. Advice only where the "
        "attention or the collator has to change."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"packing", "padding_free", "Flattening", "group_texts"})),
    references=(
        "https://arxiv.org/abs/2402.13991",
        "https://huggingface.co/docs/trl/reducing_memory_usage",
    ),
    examples=(
        Example(
            title="flattened batches and a cache",
            bad="""\
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorWithFlattening

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in DataLoader(dataset, collate_fn=DataCollatorWithFlattening()):
    model(**batch).loss.backward()
""",
            good="""\
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, DataCollatorWithFlattening

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in DataLoader(dataset, collate_fn=DataCollatorWithFlattening()):
    model(use_cache=False, **batch).loss.backward()
""",
        ),
        Example(
            title="documents mixed by design: a hint",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True, packing_strategy="wrapped")
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True, packing_strategy="bfd")
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
        ),
    ),
)
