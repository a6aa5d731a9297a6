"""Training examples as long as they come.

Activations grow linearly with the longest row of a batch and logits with it times the vocabulary:
one example of 20,000 tokens among many of 500 makes the step that meets it forty times as dear,
often late in an epoch, as an out-of-memory error. A limit cuts the few. Source: TRL documentation,
"Reducing Memory Usage" (truncation); huggingface/transformers issue 11388.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memlint.rule import (
    MISSING,
    Applicability,
    Call,
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
    Setting,
)
from memlint_rules._libraries import LIBRARIES
from memlint_rules._models import loads_language_model, trains_language_model
from memlint_rules._tokenization import METHODS, FunctionNode, prepared_in, tokenizer_calls

# TRL's own limit since it has one; also where the library's default is no number.
_LIMIT = 1024
_TOKENIZES = frozenset({"__call__", "encode", "encode_plus", "batch_encode_plus"})
# Checkpoints whose tokenizers know no limit, or the model's whole context (131,072 for Qwen3).
_LONG_CONTEXT = r"(?i)(?<!tiny)llama|qwen|mistral|mixtral|gemma|deepseek"


def check(script: Script) -> Iterator[Finding]:
    if script.uses_vision or script.uses_diffusion:
        return
    for config in script.configs:
        if config.kind.startswith("trl.") and script.may_train_with(config):
            yield from _config_findings(script, config)
    if not any(trainer.kind.startswith("trl.") for trainer in script.training):
        yield from _tokenization_findings(script)


# -- TRL -------------------------------------------------------------------------------------------


def _config_findings(script: Script, config: Config) -> Iterator[Finding]:
    option = _unlimited(script, config)
    if option is not None and config.effective("packing").value is not True:
        yield _unlimited_finding(script, config, option)
    kwargs = config.setting("dataset_kwargs")
    if config.kind == "trl.SFTConfig" and _skips_preparation(script, kwargs):
        collated = any(
            trainer.setting("data_collator").given is not False
            for trainer in script.trainers_with(config)
        )
        if not collated and not _truncates(script):
            node = kwargs.node if kwargs.node is not None else config.node.func
            yield Finding(
                script.span(node),
                "`skip_prepare_dataset` skips truncation too: examples come as long as they are, "
                "whatever `max_length` says",
                Fix("Truncate the examples where they are tokenized", (), Applicability.DISPLAY),
            )


def _unlimited(script: Script, config: Config) -> str | None:
    """The option that ought to limit examples and certainly does not."""
    name = "max_length" if config.has_option("max_length") else "max_prompt_length"
    setting = config.effective(name)
    if not config.has_option(name) or not setting.is_none:
        return None
    if setting.given is not False:
        return name
    if name != "max_length":
        return None
    # Trainers that took the limit themselves filled in one of their own.
    trainer = script.api.signature(config.kind.removesuffix("Config") + "Trainer")
    return name if trainer is not None and name not in trainer.parameters else None


def _unlimited_finding(script: Script, config: Config, option: str) -> Finding:
    setting = config.setting(option)
    what = "prompts" if option == "max_prompt_length" else "examples"
    given = f"`{option}=None`" if setting.given else f"no `{option}`: this version has no default"
    span = script.span(setting.node if setting.given and setting.node else config.node.func)
    message = f"{given} leaves {what} as long as they come: the longest sets the peak"
    if config.effective("padding_free").value is True:
        advice = f"Pack (`packing=True`) with `{option}`: padding-free alone does not truncate"
        return Finding(span, message, Fix(advice, (), Applicability.DISPLAY))
    limit = _default_limit(script, config, option)
    edits = script.set_option(config, option, str(limit))
    fix = Fix(f"Set `{option}={limit}`", edits, Applicability.UNSAFE) if edits else None
    return Finding(span, message, fix)


def _default_limit(script: Script, config: Config, option: str) -> int:
    """The library's own limit, where the target version has one."""
    value = script.api.default(config.kind, option)
    return value if type(value) is int else _LIMIT


def _skips_preparation(script: Script, kwargs: Setting) -> bool:
    if not isinstance(kwargs.value, Object) or kwargs.value.type != "dict":
        return False
    return script.item(kwargs.value, "skip_prepare_dataset") is True


def _truncates(script: Script) -> bool:
    """Whether the script may cut examples by itself, or gets them from elsewhere."""
    calls = [call for call in tokenizer_calls(script) if call.method != "pad"]
    return not calls or any(
        call.open_ended or call.setting("truncation").given is not False for call in calls
    )


# -- tokenization ----------------------------------------------------------------------------------


def _tokenization_findings(script: Script) -> Iterator[Finding]:
    if not _trains_language_model(script) or _bounded_elsewhere(script):
        return
    for call in tokenizer_calls(script):
        if not _tokenizes(call) or call.open_ended or _has_limit(call):
            continue
        function = prepared_in(script, call)
        if function is None or _bounds(function):
            continue
        truncation = call.setting("truncation")
        if truncation.given is False or truncation.value is False:
            message = "tokenizes training examples without truncation: the longest sets the peak"
        elif truncation.value is True and _knows_no_limit(script, call):
            message = (
                "truncates to the tokenizer's own limit, which for this model is its whole context "
                "or none at all"
            )
        else:
            continue
        yield Finding(call.span, message, _truncating_fix(script, call, truncation))


def _tokenizes(call: Call) -> bool:
    """Whether the call turns text into tokens; a chat template may only make text."""
    written = call.node.func
    if call.name.startswith("transformers.") or not isinstance(written, ast.Attribute):
        return call.method in _TOKENIZES or not isinstance(written, ast.Attribute)
    return written.attr in _TOKENIZES or written.attr not in METHODS


def _trains_language_model(script: Script) -> bool:
    if script.training:
        return all(map(trains_language_model, script.training))
    loads = script.model_loads
    return bool(loads) and all(map(loads_language_model, loads))


def _has_limit(call: Call) -> bool:
    limit = call.setting("max_length")
    return limit.given is not False and not limit.is_none


def _bounded_elsewhere(script: Script) -> bool:
    """Whether examples may be cut, split into blocks or dropped after they are tokenized."""
    if script.method_calls("filter", "enable_truncation"):
        return True
    for node in script.nodes(ast.Attribute):
        if node.attr == "model_max_length" and isinstance(node.ctx, ast.Store):
            return True
    for call in script.nodes(ast.Call):
        # ``range(0, total, block_size)``: texts are joined and cut into blocks.
        if isinstance(call.func, ast.Name) and call.func.id == "range" and len(call.args) == 3:
            return True
    for function in script.nodes(ast.FunctionDef):
        if re.search("trunc|group|chunk|pack|crop", function.name):
            return True
    for name in ("data_collator", "collate_fn"):
        for keyword in script.nodes(ast.keyword):
            if keyword.arg == name and _may_cut(script, keyword.value):
                return True
    return False


def _may_cut(script: Script, collator: ast.expr) -> bool:
    """Collators of transformers pad and do not cut; of others we do not know."""
    value = script.value(collator)
    kind = value.type if isinstance(value, Object) else script.name(collator)
    return kind is None or not kind.startswith("transformers.")


def _bounds(function: FunctionNode) -> bool:
    """Whether the function cuts what it tokenized."""
    for node in ast.walk(function):
        if isinstance(node, ast.Slice) and (node.upper is not None or node.lower is not None):
            return True
        if isinstance(node, ast.keyword) and node.arg == "return_overflowing_tokens":
            return True
        # ``if len(ids) < limit:``
        if isinstance(node, ast.Compare) and "len(" in ast.unparse(node):
            return True
    return False


def _knows_no_limit(script: Script, call: Call) -> bool:
    """Whether the tokenizer is of a checkpoint that is known to set no useful limit."""
    receiver = call.receiver
    if not isinstance(receiver, Object) or receiver.made_by is None:
        return False
    load = script.call_at(receiver.made_by.node)
    if load is None or load.open_ended or load.setting("model_max_length").given is not False:
        return False
    name = script.model_facts(receiver).name
    return isinstance(name, str) and re.search(_LONG_CONTEXT, name) is not None


def _truncating_fix(script: Script, call: Call, truncation: Setting) -> Fix | None:
    if truncation.given is not False and call.keyword_node("truncation") is None:
        return None
    edits: list[Edit] = []
    if truncation.value is not True:
        edits.append(SetKeyword(call.span, "truncation", "True"))
    if call.setting("max_length").value in (MISSING, None):
        edits.append(SetKeyword(call.span, "max_length", str(_LIMIT)))
    return Fix(f"Truncate to `max_length={_LIMIT}`", tuple(edits), Applicability.UNSAFE)


RULE = Rule(
    code="MEM101",
    name="unbounded-sequence-length",
    level=Level.WASTE,
    summary="training examples are not truncated",
    why=(
        "Memory follows the longest example of a batch: its activations grow with its length, its "
        "logits with its length times the vocabulary, and every other row is padded to it. Without "
        "a limit a single long document, met late in an epoch, ends the run. TRL truncates to "
        "1,024 tokens unless `max_length=None` or `skip_prepare_dataset` says otherwise; a "
        "tokenizer truncates only if asked, and to its own limit, which recent models set to their "
        "whole context, if `max_length` is not given. Silent where examples may be cut, split into "
        "blocks or dropped elsewhere, and for images, whose tokens must not be cut."
    ),
    fix_safety=(
        "Unsafe: what is longer than the limit is cut off and not learned. The limit is TRL's own "
        "(1,024 tokens): set the one that your data want. Padding-free batches are not truncated "
        "by TRL, so there it is advice."
    ),
    check=check,
    triggers=(LIBRARIES, frozenset({"Config", "Trainer", ".backward("})),
    references=(
        "https://huggingface.co/docs/trl/reducing_memory_usage",
        "https://huggingface.co/docs/transformers/pad_truncation",
    ),
    examples=(
        Example(
            title="truncation turned off",
            bad="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", max_length=None)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", max_length=1024)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
""",
        ),
        Example(
            title="tokenization",
            bad="""\
from datasets import concatenate_datasets
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"])


def tokenize_others(row):
    return tokenizer(row["text"], truncation=True)


train = dataset.map(tokenize)
train_others = others.map(tokenize_others)
train = concatenate_datasets([train, train_others])
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), args, train_dataset=train).train()
""",
            good="""\
from datasets import concatenate_datasets
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


def tokenize_others(row):
    return tokenizer(row["text"], truncation=True, max_length=1024)


train = dataset.map(tokenize)
train_others = others.map(tokenize_others)
train = concatenate_datasets([train, train_others])
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), args, train_dataset=train).train()
""",
            findings=2,
        ),
    ),
)
