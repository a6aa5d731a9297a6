"""Quantized training that computes or keeps in float32 what 16 bits would do."""

from collections.abc import Iterator

from memlint.rule import (
    Call,
    Finding,
    Fix,
    Rule,
    Script,
    Setting,
    Skip,
    Trainer,
    advise,
    edits,
    facts,
    fix,
    trains_without_bf16,
    triggers,
)

_OPTION = "bnb_4bit_compute_dtype"
_PREPARE = "peft.prepare_model_for_kbit_training"
# Words of a vocabulary from which on embeddings and head are large.
_LARGE = 100_000
# Trainers that cast what is trained, and leave the embeddings as they are.
_TRL = ("SFTTrainer", "DPOTrainer", "KTOTrainer", "GRPOTrainer", "RLOOTrainer")


def check(script: Script) -> Iterator[Finding]:
    if not (script.may_train or script.calls_to(_PREPARE, "peft.get_peft_model")):
        return
    calls = [
        call
        for call in script.calls_to("transformers.BitsAndBytesConfig")
        if call.setting("load_in_4bit").value is True and _computes_in_float32(script, call)
    ]
    for call in calls:
        dtype = call.setting(_OPTION)
        yield Finding(
            script.span(dtype.node if dtype.node is not None else call.node.func),
            "4-bit layers compute in float32"
            + ("" if _is_written(dtype) else f", without a `{_OPTION}`")
            + ": unpacked weights and activations take 4 bytes where 2 would do",
            _fix(script, calls),
        )
    yield from _upcast_tables(script)


def _is_written(dtype: Setting) -> bool:
    return dtype.given is not False and not dtype.is_none


def _computes_in_float32(script: Script, call: Call) -> bool:
    dtype = call.setting(_OPTION)
    if call.has_unknown_keywords or dtype.given is None:
        return False
    return not _is_written(dtype) or script.dtype_name(dtype) == "torch.float32"


def _fix(script: Script, calls: list[Call]) -> Fix:
    """fp16 where the GPU may have no bf16. All models at once: they may be compared."""
    name = "torch.float16" if trains_without_bf16(script) else "torch.bfloat16"
    effect = {"quantized_compute": name.removeprefix("torch.")}
    dtype = edits.reference_to(script, name, calls[0].node)
    if dtype is None:
        return advise(f"Set `{_OPTION}` to a 16-bit dtype", effect)
    changes = edits.together(
        *(edits.set_option(script, call, _OPTION, dtype.text) for call in calls)
    )
    whole = (*changes, *dtype.edits) if changes is not None else None
    return fix(f"Set `{_OPTION}={dtype.text}`", whole, unsafe=True, effect=effect)


def _upcast_tables(script: Script) -> Iterator[Finding]:
    """Preparations whose embeddings and head stay in float32: nothing casts them back."""
    # What is prepared here may be trained in another file.
    trained = [(one.facts, one.peft, one.trainer) for one in script.trained] or [
        (one.model, one.peft, one) for one in script.all_training if one.trains_language_model
    ]
    if (
        len(trained) != 1
        or not _keeps_float32(script, *trained[0])
        or script.method_calls_anywhere("peft_module_casting_to_bf16")
    ):
        return
    model = trained[0][0]
    words = model.words
    for call in script.calls_to(_PREPARE):
        prepares = any(made.node is call.node for made in model.objects)
        if words is not None and words >= _LARGE and prepares:
            yield Finding(
                script.span(call.node.func),
                f"k-bit preparation casts embeddings and head ({words:,} words each) to float32: 2 "
                "bytes more for each of their numbers",
                advise(
                    "Cast them back: `model.get_input_embeddings().to(torch.bfloat16)`, and the "
                    "head likewise",
                    {"upcast_tables": False},
                ),
            )


def _keeps_float32(
    script: Script, model: facts.ModelFacts, peft: bool | None, trainer: Trainer | None
) -> bool:
    """True if nothing casts back: some releases of TRL do, for all trainers or some."""
    if model.kbit is not True or peft is not True:
        return False
    if trainer is None or not trainer.kind.startswith("trl."):
        return model.peft is True
    config = trainer.config
    if trainer.is_kind("ORPOTrainer", "CPOTrainer"):  # they cast back under bf16
        return config is not None and config.effective("bf16").value is False
    return trainer.is_kind(*_TRL) and script.api.behaviour("kbit-tables") == "float32"


RULE = Rule(
    summary="quantized training with float32 where 16 bits would do",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"load_in_4bit", "prepare_model_for_kbit_training"})),
)
