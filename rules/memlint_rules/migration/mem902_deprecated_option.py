"""An option that still works at the target version and warns of its end.

Today a warning among hundreds of lines, in the next major release a TypeError. Only what the user
wrote counts: libraries also warn of options that they set themselves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    UNSURE,
    Call,
    Example,
    Finding,
    Fix,
    How,
    Level,
    Object,
    RenameAttribute,
    RenameKeyword,
    Rule,
    Script,
    Setting,
    Span,
    Symbol,
)
from memlint_rules._libraries import LIBRARIES, PACKAGES
from memlint_rules._option_places import option_span, successor_of
from memlint_rules._succession import option_fix
from memlint_rules._version_guards import is_guarded, names_looked_up


def check(script: Script) -> Iterator[Finding]:
    looked_up = names_looked_up(script)
    seen = set()
    for call in (*script.configs, *script.trainers, *script.library_calls(*PACKAGES)):
        if call.node in seen or call.name.partition(".")[0] not in PACKAGES:
            continue
        seen.add(call.node)
        yield from _options(script, call, looked_up)
    yield from _methods(script)


_MODEL = "transformers.PreTrainedModel"
# Methods of models, and keywords of theirs, that have a new name.
_METHODS = {
    "gradient_checkpointing_enable": "activation_checkpointing_enable",
    "gradient_checkpointing_disable": "activation_checkpointing_disable",
}
_KEYWORDS = {"gradient_checkpointing_kwargs": "activation_checkpointing_kwargs"}


def _methods(script: Script) -> Iterator[Finding]:
    for old, new in _METHODS.items():
        if script.api.signature(f"{_MODEL}.{new}") is None:
            continue
        for call in script.method_calls(old):
            function = call.node.func
            if not isinstance(function, ast.Attribute) or is_guarded(script, call.node):
                continue
            made = script.value(function.value)
            if not (isinstance(made, Object) and (made.type or "").startswith("transformers.")):
                continue
            if call.node.args or made.cls is not None:
                continue
            version = script.api.target.version("transformers").version
            end = script.span(function).end
            keywords = tuple(
                RenameKeyword(call.span, name, _KEYWORDS[name])
                for name in call.keywords
                if name in _KEYWORDS
            )
            yield Finding(
                Span(end - len(old.encode()), end),
                f"`{old}` is deprecated in transformers {version}",
                Fix(
                    f"Call `{new}`",
                    (RenameAttribute(script.span(function), new), *keywords),
                ),
            )


def _options(script: Script, call: Call, looked_up: frozenset[str]) -> Iterator[Finding]:
    if call.subclass is not None and call.open_ended:
        return
    for setting in call.settings():
        if setting.given is False or setting.owner is None or setting.name in looked_up:
            continue
        if setting.how is How.ATTRIBUTE:
            # Warnings come from constructors; what is assigned later warns of nothing.
            continue
        if not _warns(script, call, setting) or is_guarded(script, call.node):
            continue
        package = script.api.deprecated_by(call.name, setting.name)
        version = script.api.target.version(package).version
        shown = f"`{setting.name}`"
        if not script.api.warns(call.name, setting.name):
            shown = f"`{setting.name}={setting.value!r}`"
        yield Finding(
            option_span(script, call, setting),
            f"{shown} is deprecated in {package} {version}",
            option_fix(script, call, setting, successor_of(script, call, setting)),
        )


def _warns(script: Script, call: Call, setting: Setting) -> bool:
    beside = [one.name for one in call.settings() if one.given is not False]
    known = setting.value is not UNSURE and not isinstance(setting.value, Object | Symbol)
    if known:
        return script.api.warns(call.name, setting.name, setting.value, beside)
    return script.api.warns(call.name, setting.name, beside=beside)


RULE = Rule(
    code="MEM902",
    name="deprecated-option",
    level=Level.NOTICE,
    summary="an option that warns of its end in the target version",
    why=(
        "It works today and is a TypeError after one of the next releases. `torch_dtype` became "
        "`dtype`, `gradient_checkpointing` became `activation_checkpointing`. Only what the script "
        'itself writes is reported, and only where that warns: `torch_dtype="auto"` and '
        "`torch_dtype` beside `config=` do not, nor do model classes that are called by their own "
        "name."
    ),
    fix_safety="Safe: the new name of the same thing. Advice where there is none.",
    check=check,
    triggers=(LIBRARIES,),
    references=("https://github.com/huggingface/transformers/releases",),
    examples=(
        Example(
            title="renamed options",
            findings=2,
            bad="""\
import torch
from transformers import AutoModelForCausalLM, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-8B",
    torch_dtype=torch.bfloat16,
)
args = TrainingArguments("out", gradient_checkpointing=True)
""",
            good="""\
import torch
from transformers import AutoModelForCausalLM, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-8B",
    dtype=torch.bfloat16,
)
args = TrainingArguments("out", activation_checkpointing=True)
""",
        ),
        Example(
            title="in a dict of options",
            bad="""\
from transformers import AutoModelForCausalLM

options = {"torch_dtype": "bfloat16", "device_map": "auto"}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", **options)
""",
            good="""\
from transformers import AutoModelForCausalLM

options = {"dtype": "bfloat16", "device_map": "auto"}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", **options)
""",
        ),
        Example(
            title="a method",
            bad="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
""",
            good="""\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
""",
        ),
        Example(
            title="read back by its old name: advice",
            bad="""\
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

options = dict(torch_dtype=torch.bfloat16, device_map="auto")
config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=options["torch_dtype"])
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=config, **options)
""",
        ),
    ),
    clean=(
        # Assigned when it is too late to be read: no new name for what is not read.
        """\
from transformers import TrainingArguments

args = TrainingArguments("out", activation_checkpointing=True)
args.gradient_checkpointing_kwargs = {"use_reentrant": True}
""",
        # Nothing was written: the library warns of its own default.
        """\
from trl import SFTConfig

args = SFTConfig("out")
""",
        """\
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
""",
    ),
)
