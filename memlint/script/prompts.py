"""Prompts that a trainer forwards once for each of their answers, and how long they are at most."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memlint.engine.growth import Product, Store, products_in, turns_alike, written
from memlint.engine.nodes import CallNode, Expression, called_name, holder_of
from memlint.engine.project import is_elsewhere
from memlint.engine.tensors import Positions, Role
from memlint.engine.usage import Way
from memlint.engine.values import Symbol
from memlint.flow.evaluated import query
from memlint.flow.following import uses_of
from memlint.script.call_settings import UNSURE
from memlint.script.called import Call
from memlint.script.calls import Host, Trainer
from memlint.script.forward_passes import all_steps_of
from memlint.script.lengths import is_tokenizer_call
from memlint.script.reads import is_vocabulary_wide
from memlint.script.script_kind import uses_vision
from memlint.script.setups import training_of
from memlint.source.record import NamedTuple


def repeating_trainers(script: Host, *kinds: str, with_images: bool = False) -> tuple[Trainer, ...]:
    """Trainers of TRL that forward a prompt once for each of its answers, and need not.

    A toy model has nothing to save. Where images go into the model, only those are of interest that
    are asked for, by checkpoints whose prompts the runtime shares with their images.
    """
    # A column of images: the processor may be the trainer's own.
    sees = uses_vision(script) or not {"image", "images"}.isdisjoint(script.strings)
    return tuple(
        trainer
        for trainer in training_of(script)
        if trainer.kind in kinds and not trainer.shares_prompts and not trainer.model.is_toy
        if script.api.exists(trainer.kind) is not False
        if not (sees or _gets_processor(script, trainer))
        or (with_images and script.api.family(trainer.checkpoint).shares_images)
    )


def _gets_processor(script: Host, trainer: Trainer) -> bool:
    """True if what prepares its inputs is called a processor: more than text goes in."""
    given = trainer.keyword_node("processing_class")
    return given is not None and "processor" in script.text(given.value).lower()


def prompt_limit(script: Host, trainer: Trainer) -> int | None:
    """How many tokens prompts have at most, by the configuration or the preparation of the data."""
    found = trainer.number("max_prompt_length")
    return found if found is not None else _limit_in_data(script)


def _limit_in_data(script: Host) -> int | None:
    """The limit that ``limit_prompts(GRPOTrainer, ...)`` or the data's preparation,
    ``dataset.map(truncate_text, fn_kwargs={...})``, cuts prompts to."""
    for call in script.calls_to("memlint_runtime.limit_prompts"):
        value = script.python(call.node.args[1]) if len(call.node.args) > 1 else None
        return value if type(value) is int else None
    for call in script.method_calls("map"):
        function = call.argument(0)
        if isinstance(function, Symbol) and function.name == "memlint_runtime.truncate_text":
            value = script.item(call.setting("fn_kwargs").value, "max_length")
            return value if type(value) is int else None
    return None


class Group(NamedTuple):
    """Completions of one prompt. size: how many, None where the script does not say."""

    size: int | None


@query
def completions_together(script: Host) -> Group | None:
    """The completions that a loop draws for each prompt; None where nothing says more than one."""
    counts = [*_drawn_together(script)]
    if script.method_calls_anywhere("generate"):
        counts += [*_repeated_tensors(script), *_repeated_lists(script), *_drawn_in_turn(script)]
    if not counts:
        return None
    known = set(counts)
    return Group(known.pop() if len(known) == 1 else None)


def _drawn_together(script: Host) -> Iterator[int | None]:
    """What ``generate`` and vLLM's sampling parameters are given."""
    for call in _in_steps(script, script.method_calls_anywhere("generate", "GenerationConfig")):
        yield from _more_than_one(script, call, "num_return_sequences")
    for call in _in_steps(script, script.calls_anywhere("vllm.SamplingParams")):
        yield from _more_than_one(script, call, "n")


def _in_steps(script: Host, calls: Iterable[Call]) -> Iterator[Call]:
    """Yield the calls of this file, and those of others that the loop of a training step makes."""
    loops = {loop for step in all_steps_of(script) for loop in (step.node, *step.epochs)}
    for call in calls:
        in_step = any(not loops.isdisjoint(one.loops) for one in call.invocations)
        if in_step or not is_elsewhere(call.node):
            yield call


def _more_than_one(script: Host, call: Call, name: str) -> Iterator[int | None]:
    setting, keyword = call.setting(name), call.keyword_node(name)
    if setting.given is True:
        if type(setting.value) is int and setting.value > 1:
            yield setting.value
        elif (
            setting.value is UNSURE
            and keyword is not None
            and re.search(_COUNTS, script.text(keyword.value).replace("num_return_sequences", ""))
        ):
            # ``num_return_sequences=args.group_size``; a variable of the keyword's own name, whose
            # default is one, says nothing.
            yield None


def _drawn_in_turn(script: Host) -> Iterator[int | None]:
    """The number of turns of a loop in which ``generate`` draws from the same prompt again:
    ``for _ in range(group_size)``."""
    steps = {loop for step in all_steps_of(script) for loop in (step.node, *step.epochs)}
    for call in _in_steps(script, script.method_calls_anywhere("generate")):
        for loop in {one.loops[-1] for one in call.invocations if one.loops} - steps:
            times = turns_alike(loop)
            yield from _count(script, times) if times is not None else ()


def _repeated_tensors(script: Host) -> Iterator[int | None]:
    """Prompts' ids that ``repeat_interleave``, ``repeat`` or ``expand`` repeat row by row."""
    repeats = script.method_calls_anywhere("repeat_interleave", "repeat", "expand")
    for call in _in_steps(script, repeats):
        subject, given = holder_of(call.node), list(call.node.args)
        if subject is None:
            continue
        if call.name.startswith("torch."):
            subject, given = (given[0], given[1:]) if given else (subject, [])
        method = called_name(call.node)
        if method == "expand" and given and script.text(given[0]) == "-1":
            given = given[1:]  # ``ids.unsqueeze(1).expand(-1, G, -1)``
        if method != "repeat_interleave" and not _repeats_rows(script, method, given):
            continue
        keyword = call.keyword_node("repeats")
        times = given[0] if given else keyword.value if keyword is not None else None
        named = re.search(_PROMPTS, script.text(subject)) or _is_tokenized(script, subject)
        if times is not None and named:
            yield from _count(script, times)


def _is_tokenized(script: Host, tensor: Expression) -> bool:
    """``v`` of ``for k, v in tokenizer(question).items()``."""
    return any(
        place.name == script.text(tensor) and script.function(use.around) is script.function(tensor)
        for call in script.calls
        if is_tokenizer_call(call)
        for use in uses_of(script, call.node, lambda one: one.name in ("items", "values", "to"))
        if use.way is Way.LOOPED
        for place in use.places
    )


def _repeats_rows(script: Host, method: str, given: list[Expression]) -> bool:
    """``repeat(G, 1)``, ``expand(G, -1)``: the rows alone become more."""
    kept = "1" if method == "repeat" else "-1"
    return len(given) > 1 and all(script.text(one) in (kept, "1") for one in given[1:])


def _repeated_lists(script: Host) -> Iterator[int | None]:
    """``[prompt] * G``, ``prompts * G``, ``[p for p in prompts for _ in range(G)]``."""
    for product in products_in(script):
        if "prompt" in product.repeated or _is_taken_for_prompts(script, product):
            yield from _count(script, product.times)


def _is_taken_for_prompts(script: Host, product: Product) -> bool:
    """True if a tokenizer gets what is repeated, or what generates in another file, or ids are
    joined to one batch."""
    stores = [one for one in script.flow.definitions(product.node) if isinstance(one, Store)]
    values = [product.node, *(one.value for one in stores if one.value is not None)]
    given = [use for one in values for use in uses_of(script, one) if use.way is Way.GIVEN]
    calls = [call for use in given if (call := script.call_at(use.call)) is not None]
    if any(map(is_tokenizer_call, calls)):
        return True
    named = re.search(_PROMPTS, product.repeated) is not None
    return named and any(one.name in _BATCHES or one.node in _drawing(script) for one in calls)


@query
def _drawing(script: Host) -> frozenset[CallNode]:
    """The calls of this file by which another draws completions."""
    made = (one for call in script.method_calls_anywhere("generate") for one in call.invocations)
    leading = map(script._call_leading_to, made)
    return frozenset(one.node for one in leading if one is not None)


_BATCHES = ("torch.cat", "torch.stack", "torch.concat")


def _count(script: Host, times: Expression) -> Iterator[int | None]:
    value = script.python(times)
    if type(value) is int and value > 1:
        yield value
    elif type(value) is not int and re.search(_COUNTS, written(times)):
        yield None


# How prompts and the numbers of their completions are called.
_PROMPTS = r"prompt|input_ids|inputs?\b|\bids\b|question|quer(y|ies)"
_COUNTS = r"group|num_gen|num_return|num_comp|num_samples|n_samples|rollouts|completions|\bG\b"


@query
def scored_elsewhere(script: Host) -> tuple[Call, ...]:
    """Calls that score tokens in another file of the project: logits of shifted positions, or of a
    language model, become log-probabilities there, with a gradient."""
    found: dict[CallNode, Call] = {}
    for tensor, operation, node in script._run.tensor_uses:
        if operation.rpartition(".")[2] != "gather" or not is_elsewhere(node):
            continue
        shifted = any(one.positions is Positions.SHIFTED for one in tensor.history())
        if tensor.role is not Role.LOG_PROBABILITIES or not tensor.graph:
            continue
        if not shifted and not is_vocabulary_wide(script, tensor):
            continue
        call = script._call_leading_to(tensor.forward) if tensor.forward is not None else None
        if call is not None:
            found[call.node] = call
    return tuple(found.values())
