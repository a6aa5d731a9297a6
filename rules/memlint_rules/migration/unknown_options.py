"""Options, and values of options, that the target does not know and no successor is known for."""

import ast
from collections.abc import Iterator

from memlint.rule import (
    Call,
    Config,
    Finding,
    Fix,
    How,
    Object,
    Script,
    Setting,
    Trainer,
    advise,
    advised,
    facts,
)
from memlint_rules.migration.option_places import option_span
from memlint_rules.migration.removal import meant, nearest, not_taken

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
# As alike as a value and its misspelling are.
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
    yield Finding(
        option_span(script, call, setting),
        f"{not_taken(script, call.name, setting.name)}, nor did any release since "
        f"{script.api.first_release(package)}",
        _advice(script, call, setting),
    )


def unknown_values(script: Script, call: Call, setting: Setting) -> Iterator[Finding]:
    """A string that an option cannot be: ValueError, often only after the model has been loaded."""
    given = setting.value if isinstance(setting.value, list | tuple) else [setting.value]
    words = [word for word in given if isinstance(word, str)]
    if not words or setting.given is not True or _may_differ(script, call):
        return
    choices = script.api.choices(call.name, setting.name)
    gone = script.api.gone_values(call.name, setting.name)
    if choices is None or (gone and script.calls_to(*_REGISTERS)):
        return
    for word in words:
        # Names in capitals are looked up in capitals.
        if word not in choices and word.upper() not in choices:
            what = not_taken(script, call.name, f"{setting.name}={word!r}")
            if word.upper() in gone:
                what = f"{script.api.at_target('torch')} has no backend {word!r}"
            offered = advised(choices)
            near = nearest(word, offered, _ALIKE_VALUE)
            other = f"Choose one of {', '.join(map(repr, offered))}"
            answer = meant(repr(near)) if near else advise(other)
            yield Finding(option_span(script, call, setting), what, answer)


def gone_backends(script: Script) -> Iterator[Finding]:
    """``torch.compile(model, backend="nvfuser")``, where nothing catches what it raises."""
    gone = script.api.gone_values("torch.compile", "backend")
    for call in script.calls_to("torch.compile") if not script.calls_to(*_REGISTERS) else ():
        setting = call.setting("backend")
        is_gone = isinstance(setting.value, str) and setting.value.upper() in gone
        is_tried = any(isinstance(one, ast.Try) for one in script.ancestors(call.node))
        if is_gone and not setting.is_overridable_default and not is_tried:
            what = f"{script.api.at_target('torch')} has no backend {setting.value!r}"
            advice = advise("Leave `backend` out: torch has a compiler of its own")
            yield Finding(script.span(setting.node or call.node.func), what, advice)


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
    if call.subclass is not None and facts.kept_by_subclass(call) is None:
        return False
    if script.uses_unsloth:
        return False
    if isinstance(call, Config | Trainer):
        return True
    return call.name.rpartition(".")[2][:1].isupper() and script.api.exists(call.name) is True


def _advice(script: Script, call: Call, setting: Setting) -> Fix:
    """The name that was meant, or the class that has such an option."""
    signature = script.api.signature(call.name)
    taken = tuple(signature.parameters) if signature is not None else ()
    made = setting.value if isinstance(setting.value, Object) else None
    if "args" in taken and made is not None and script.config_of(made) is not None:
        return advise(f"Give the configuration as `args`: the trainer takes no `{setting.name}`")
    near = nearest(setting.name, taken)
    alike = [near] if near else _that_end_alike(setting.name, taken)
    if 0 < len(alike) <= _FEW:
        return meant(" or ".join(f"`{name}`" for name in alike))
    homes = [
        name.rpartition(".")[2]
        for name in _CLASSES
        if name != call.name and script.api.accepts(name, setting.name)
    ]
    home = f": it is an option of `{homes[0]}`" if homes else ""
    return advise(f"Leave `{setting.name}` out{home}")


def _that_end_alike(name: str, taken: tuple[str, ...]) -> list[str]:
    """The names that end with ``name``, or with which it ends: `alpha` and `lora_alpha`."""
    return [other for other in taken if other.endswith(f"_{name}") or name.endswith(f"_{other}")]
