"""A 4-bit base in the format that bitsandbytes takes where nobody chooses."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, Level, Rule, Script, Skip, edits, fix, triggers

_TYPE, _NESTED = "bnb_4bit_quant_type", "bnb_4bit_use_double_quant"
_CONFIG = "transformers.BitsAndBytesConfig"
# Billions of parameters from which on the scales alone are worth a word; experts may have none.
_LARGE = 20


def check(script: Script) -> Iterator[Finding]:
    if not script.may_train:
        return
    sizes = [one.facts.billions or 0 for one in script.trained if not one.facts.family.experts]
    # Older versions take its options in the load of a model, too.
    loads = [
        load
        for load in script.model_loads
        if load.setting("quantization_config").given is False
        and script.api.accepts(load.name, "load_in_4bit") is not False
    ]
    for call in (*script.calls_to(_CONFIG), *loads):
        four_bits = call.setting("load_in_4bit")
        # A recipe's program has defaults of its own for what the recipe leaves out.
        of_recipe = four_bits.from_launch and not script.source.data
        unsure = call.has_unknown_keywords or script.runs_by_default(call.node) is None
        if not four_bits.is_value(True) or of_recipe or unsure:
            continue
        if finding := _of_config(script, call, max(sizes, default=0)):
            yield finding


def _of_config(script: Script, call: Call, billions: float) -> Finding | None:
    nested, others = call.setting(_NESTED), script.calls_to(_CONFIG)
    # Who chooses a format somewhere leaves the default as it is elsewhere.
    chosen = any(one.setting(_TYPE).given is not False for one in (call, *others))
    if not chosen and not _throws_away(script):
        changes = edits.set_option(script, call, _TYPE, '"nf4"')
        return Finding(
            script.span(call.node.func),
            f"`load_in_4bit` without `{_TYPE}` is fp4: coarser than NF4 at the same size",
            fix(f'Set `{_TYPE}="nf4"`', changes, unsafe=True),
        )
    if billions < _LARGE or nested.given is not False:
        return None
    changes = edits.set_option(script, call, _NESTED, "True")
    return Finding(
        script.span(call.node.func),
        "the scales of the 4-bit blocks are float32, half a bit for every weight: "
        f"{billions * 1e9 / 16 / 2**30:.1f} GiB for {billions:g} billion",
        fix(f"Set `{_NESTED}=True`", changes, unsafe=True, effect={"nested_quantization": True}),
        Level.HINT,
    )


def _throws_away(script: Script) -> bool:
    """True if what it trains is only measured: saved to a temporary folder, and never used."""
    saved = [one.argument(0) for one in script.method_calls_anywhere("save_pretrained")]
    folders = [getattr(getattr(one, "made_by", None), "name", "") for one in saved]
    used = script.method_calls_anywhere("generate", "evaluate", "save_model", "push_to_hub")
    return bool(folders) and not used and all(one.startswith("tempfile.") for one in folders)


RULE = Rule(
    summary="a 4-bit base in fp4 because no format is named, or with float32 scales",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"load_in_4bit"})),
)
