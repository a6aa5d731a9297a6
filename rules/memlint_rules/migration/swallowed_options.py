"""Keywords that a class takes without knowing them, and throws away."""

from collections.abc import Iterator

from memlint.rule import Call, Finding, How, Script, Setting, advise
from memlint_rules.migration.option_places import option_span
from memlint_rules.migration.removal import meant, nearest

# transformers/utils/quantization_config.py: it logs what it does not use, where nobody looks.
_SWALLOWING = "transformers.BitsAndBytesConfig"
# What its own dictionary has beside them.
_OF_ITS_DICT = "quant_method"


def swallowed_options(script: Script, call: Call) -> Iterator[Finding]:
    """``BitsAndBytesConfig(bnb_8bit_compute_dtype=...)``"""
    if script.api.canonical(call.name) != _SWALLOWING or call.subclass is not None:
        return
    signature = script.api.signature(_SWALLOWING)
    if signature is None or script.api.is_beyond_tables("transformers"):
        return
    for setting in call.settings():
        if setting.name not in signature.parameters and _is_given(setting):
            near = nearest(setting.name, signature.parameters)
            yield Finding(
                option_span(script, call, setting),
                f"`BitsAndBytesConfig` has no `{setting.name}`, and throws it away",
                meant(f"`{near}`") if near else advise(f"Leave `{setting.name}` out"),
            )


def _is_given(setting: Setting) -> bool:
    written = setting.how in (How.KEYWORD, How.ITEM, How.SUBSCRIPT)
    named = setting.name == _OF_ITS_DICT or setting.name.startswith("_")
    return setting.given is True and setting.owner is not None and written and not named
