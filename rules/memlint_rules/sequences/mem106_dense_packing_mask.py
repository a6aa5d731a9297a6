"""Packed or padding-free rows on attention that needs a mask of tokens times tokens."""

from collections.abc import Iterator

from memlint.rule import Config, Finding, Rule, Script, Skip, call_after_trainer, triggers

_CALL = "memlint_runtime.use_variable_length_attention"


def check(script: Script) -> Iterator[Finding]:
    # Before, sdpa made no mask of positions: documents attended to each other (MEM105).
    if script.api.behaviour("packed-positions") != "all" or script.sets_attention:
        return
    for trainer in script.training:
        config = trainer.config
        if trainer.kind != "trl.SFTTrainer" or config is None:
            continue
        whole = config.packing not in (None, "wrapped")
        if not whole or trainer.setting("data_collator").given is not False:
            continue
        used = script.attention_of(trainer.model, config)
        if used in ("default", "sdpa"):
            made = call_after_trainer(script, trainer, _CALL, "{}.model")
            yield Finding(script.span(config.node.func), _message(config), made)


def _message(config: Config) -> str:
    rows = config.effective("per_device_train_batch_size").value
    length = config.effective("max_length").value
    text = (
        "documents in a row are kept apart by a mask of tokens times tokens, which also keeps "
        "flash kernels away"
    )
    if type(rows) is int and type(length) is int and config.setting("packing").value is True:
        mebibytes = (rows * length) ** 2 // 2**20
        if mebibytes:
            text += f": up to {mebibytes:,} MiB for {rows} x {length:,} tokens"
    return text


RULE = Rule(
    summary="packed or padding-free rows on attention that needs a T x T mask",
    check=check,
    triggers=(triggers.LIBRARIES, frozenset({"packing", "padding_free"})),
    skips=(Skip.UNSLOTH, Skip.VISION, Skip.OFF_CUDA),
)
