"""Options, and values of options, that the target does not know and no successor is known for."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.api.choices import advised
from memlint.rule import (
    Applicability,
    Call,
    Config,
    Finding,
    Fix,
    How,
    Object,
    Script,
    Setting,
    Trainer,
)
from memlint.rule.migration.option_places import option_span
from memlint.script.subclasses import kept_by_subclass

# Where an option of one library's configurations is looked for when another is given it.
_CLASSES = (
    "transformers.TrainingArguments",
    "trl.SFTConfig",
    "trl.DPOConfig",
    "trl.GRPOConfig",
    "trl.RewardConfig",
    "peft.LoraConfig",
)
# Where a script adds to torch's backends.
_REGISTERS = ("torch._dynamo.register_backend", "torch._dynamo.backends.registry.register_backend")
# As alike as a name and its misspelling are.
_ALIKE = 0.85
_ALIKE_VALUE = 0.7
# Names that end alike: with more of them, which was meant is a guess.
_FEW = 3


def unknown_option(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """A keyword that the class does not take, and never took in any release known: TypeError."""
    package = call.name.partition(".")[0]
    if not _is_passed(setting) or not _is_known_in_full(script, call):
        return
    if script.api.is_beyond_tables(package):
        # A release that nobody has described may have it.
        return
    version = script.api.target.version(package).version
    owner = call.name.rpartition(".")[2]
    yield Finding(
        option_span(script, call, setting),
        f"`{owner}` of {package} {version} does not take `{setting.name}`, nor did any release "
        f"since {script.api.first_release(package)}",
        Fix(_advice(script, call, setting), (), Applicability.DISPLAY),
    )


def unknown_values(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """A string that an option cannot be: ValueError, often only after the model has been loaded."""
    given = setting.value if isinstance(setting.value, list | tuple) else [setting.value]
    words = [one for one in given if isinstance(one, str)]
    if not words or setting.given is not True or _may_differ(script, call):
        return
    known = script.api.choices(call.name, setting.name)
    gone = script.api.gone_values(call.name, setting.name)
    if known is None or (gone and script.calls_to(*_REGISTERS)):
        return
    for word in words:
        # Names in capitals are looked up in capitals.
        if word not in known and word.upper() not in known:
            what = _refused_value(script, call, f"{setting.name}={word!r}")
            if word.upper() in gone:
                torch = script.api.target.version("torch").version
                what = f"torch {torch} has no backend {word!r}"
            fix = Fix(_other_value(word, advised(known)), (), Applicability.DISPLAY)
            yield Finding(option_span(script, call, setting), what, fix)


def _refused_value(script: Script, call: Call, given: str) -> str:
    package, owner = call.name.partition(".")[0], call.name.rpartition(".")[2]
    version = script.api.target.version(package).version
    return f"`{owner}` of {package} {version} does not take `{given}`"


def _other_value(word: str, offered: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, offered, n=1, cutoff=_ALIKE_VALUE)
    if near:
        return f"Write {near[0]!r}, if that was meant"
    return f"Choose one of {', '.join(map(repr, offered))}"


def _may_differ(script: Script, call: Call) -> bool:
    """True if the class that is called may not be the library's own."""
    return script.uses_unsloth or (call.subclass is not None and call.has_unknown_keywords)


def _is_passed(setting: Setting) -> bool:
    """True if the call itself gets it: an attribute that is set afterwards may have any name."""
    return setting.given is not False and setting.how in (How.KEYWORD, How.ITEM, How.SUBSCRIPT)


def _is_known_in_full(script: Script, call: Call) -> bool:
    """True if the tables know every keyword that the callee can take.

    A class of the script's own may take more, and so may one that another library replaces.
    """
    if call.subclass is not None and kept_by_subclass(call) is None:
        return False
    if script.uses_unsloth:
        return False
    if isinstance(call, Config | Trainer):
        return True
    return call.name.rpartition(".")[2][:1].isupper() and script.api.exists(call.name) is True


def _advice(script: Script, call: Call, setting: Setting) -> str:
    """The name that was meant, or the class that has such an option."""
    signature = script.api.signature(call.name)
    known = list(signature.parameters) if signature is not None else []
    if "args" in known and isinstance(setting.value, Object):
        config = script.config_of(setting.value)
        if config is not None:
            return f"Give the configuration as `args`: the trainer takes no `{setting.name}`"
    import difflib

    near = difflib.get_close_matches(setting.name, known, n=1, cutoff=_ALIKE)
    if near:
        return f"Write `{near[0]}`, if that was meant"
    alike = _that_end_alike(setting.name, known)
    if 0 < len(alike) <= _FEW:
        return f"Write {' or '.join(f'`{name}`' for name in alike)}, if that was meant"
    homes = [
        name.rpartition(".")[2]
        for name in _CLASSES
        if name != call.name and script.api.accepts(name, setting.name)
    ]
    if homes:
        return f"Leave `{setting.name}` out: it is an option of `{homes[0]}`"
    return f"Leave `{setting.name}` out"


def _that_end_alike(name: str, known: list[str]) -> list[str]:
    """The names that end with ``name``, or with which it ends: `alpha` and `lora_alpha`."""
    return [one for one in known if one.endswith(f"_{name}") or name.endswith(f"_{one}")]
