"""Losses that a script computes by hand: where logits turn into a loss or into log-probabilities.

Four forms: a cross entropy over logits; a log-softmax over the vocabulary of which one entry a
token is picked (``gather``, or an index of positions and tokens); such an entry of the logits
themselves, less their ``logsumexp``; a log-softmax that meets another model's distribution. Logits
are followed through names, helpers, methods, tuples and wrappers, as the tensors of the model are.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cached_property

from memlint.engine.growth import contents_of, written
from memlint.engine.nodes import CallNode, Definition, Expression, Node, call_itself, key_of
from memlint.engine.operations import MEASURES, PICKS, TOKEN_LOGPROBS
from memlint.engine.project import is_elsewhere
from memlint.engine.tensors import Positions, Role, Tensor, Use, Width
from memlint.engine.usage import Way
from memlint.engine.values import Object, options
from memlint.flow.callables import PASSES_NUMBERS
from memlint.flow.evaluated import query
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.forward_passes import all_steps_of, steps_of
from memlint.script.gradients import without_gradients
from memlint.script.loaded_models import loads_classifier
from memlint.script.reads import is_vocabulary_wide
from memlint.script.setups import all_training_of
from memlint.source import Span
from memlint.source.record import Record


class LossForm(StrEnum):
    """How a loss is written."""

    CROSS_ENTROPY = "cross entropy"
    GATHERED = "gathered log-softmax"
    LOGSUMEXP = "entries less their logsumexp"
    DISTILLED = "compared distributions"


class TokenLoss(Record):
    """One place where logits of many positions turn into a loss or into log-probabilities.

    node: the call of the cross entropy or of the log-softmax. logits: what it is computed from,
    over all runs. only_gathered: nothing but ``gather`` reads the log-softmax.
    """

    script: Host
    node: CallNode
    form: LossForm
    logits: tuple[Tensor, ...]
    only_gathered: bool = False

    def __repr__(self) -> str:
        return f"<{self.form.value} line {self.node.lineno}>"

    @property
    def span(self) -> Span:
        return self.script.span(self.node)

    @cached_property
    def gradients(self) -> bool:
        """True if autograd may record it in some run: False where it is off in all."""
        recorded = any(tensor.graph is not False for tensor in self.logits)
        return recorded and not without_gradients(self.script, self.node)

    @cached_property
    def is_idle(self) -> bool:
        """True if only functions that nothing names compute it, in a script that trains without
        them: by a trainer, or in steps of other functions."""
        script = self.script
        trains = bool(all_training_of(script)) or bool(all_steps_of(script))
        led = any(span.contains(self.span) for span, _ in script.led_by)
        around = _unnamed_around(script, self.node) if trains and not led else set()
        return bool(around) and not any(
            around.intersection(script.functions_around(step.node)) for step in steps_of(script)
        )

    @property
    def shifted(self) -> bool:
        """True if the last position is cut off first, as only next-token prediction does."""
        return any(
            one.positions is Positions.SHIFTED for tensor in self.logits for one in tensor.history()
        )

    @property
    def upcast(self) -> bool:
        """True if it is computed from a float32 copy of the logits in some run."""
        return any(
            one.dtype in ("torch.float32", "torch.float64") and one.as_large_as_logits
            for tensor in self.logits
            for one in tensor.history()
        )

    @cached_property
    def over_vocabulary(self) -> bool:
        """True if the logits certainly have a number for every word of a vocabulary."""
        answers = {is_vocabulary_wide(self.script, tensor) for tensor in self.logits}
        if answers == {True}:
            return True
        if False in answers or loads_classifier(self.script):
            return False
        # A classifier's scores lose no entry a token; what plays games gets no ids.
        if True in answers or (
            self.form is LossForm.GATHERED and all(map(_is_of_ids, self.logits))
        ):
            return True
        # Of logits by their name alone, only next-token prediction says what they are over.
        named = all(tensor.passes("parameter") for tensor in self.logits)
        return self.shifted and (not named or self.script.imports_package(*_LANGUAGE))

    @cached_property
    def unreduced(self) -> bool:
        """True if a cross entropy gives one number a token: minus its log-probability."""
        if self.form is not LossForm.CROSS_ENTROPY:
            return False
        return any(one.setting("reduction").value == "none" for one in self._holders)

    @property
    def is_of_some(self) -> bool:
        """True if a mask picks the positions that it is computed from, which may be few."""
        picked = [
            key_of(one.node)
            for tensor in self.logits
            for one in tensor.history()
            if one.positions is Positions.SOME and one.operation == "[]" and one.node is not None
        ]
        return any(key is not None and ":" not in written(key) for key in picked)

    @property
    def is_weighted(self) -> bool:
        """True if a cross entropy weighs the words, or may."""
        return any(one.setting("weight").given is not False for one in self._holders)

    @property
    def _holders(self) -> list[Call]:
        """The calls that say how a cross entropy is computed: itself, and what made its module."""
        call = self.script.call_at(self.node)
        made = call.receiver.made_by if call and isinstance(call.receiver, Object) else None
        by_module = self.script.call_at(made.node) if made is not None else None
        return [one for one in (call, by_module) if one is not None]

    @property
    def advice(self) -> str:
        """What computes a cross entropy without the logits of all positions."""
        if self.is_weighted or any(one.passes("head") for one in self.logits):
            mean = "weighted mean" if self.is_weighted else "mean"
            computed = "`-memlint_runtime.token_logprobs(hidden, head.weight, targets)`"
            return f"Take it from the hidden states, tile by tile: the {mean} of {computed}"
        return (
            "Let the model compute its loss (`labels=`) after "
            "`memlint_runtime.fuse_causal_lm_loss(model)`"
        )

    @property
    def nodes_of_logits(self) -> list[Expression]:
        """Where the logits, and what is computed from, are made in this file."""
        made = (one.node for tensor in self.logits for one in tensor.history())
        return list(dict.fromkeys(one for one in made if one is not None and not is_elsewhere(one)))

    @property
    def source(self) -> Expression:
        """Where the logits are read off the model's output, else the loss itself."""
        for tensor in self.logits:
            for one in tensor.history():
                node = one.node
                if not one.sources and node is not None and not is_elsewhere(node):
                    return node
        return self.node


@query
def token_losses(script: Host) -> tuple[TokenLoss, ...]:
    """Losses and log-probabilities that the script itself computes from logits, in source order."""
    found = []
    for call, form, operations, logits in _readings(script):
        made_at_once = form is not LossForm.GATHERED or bool(_AT_ONCE & operations)
        only_gathered = False if made_at_once else _is_only_gathered(script, call)
        if only_gathered and "softmax" in operations:
            only_gathered = False  # a floor under the shares is no log-softmax
        known = form if only_gathered is not None else LossForm.DISTILLED
        if known is form or _is_compared(script, call):
            found.append(TokenLoss(script, call, known, logits, bool(only_gathered)))
    return tuple(sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset)))


def _readings(script: Host) -> Iterator[tuple[CallNode, LossForm, set[str], tuple[Tensor, ...]]]:
    """Yield the calls that may be of a form, by which operations, and the logits that they read."""
    given: dict[tuple[CallNode, LossForm], list[tuple[str, Tensor]]] = defaultdict(list)
    for tensor, operation, node in script._run.tensor_uses:
        short = operation.rpartition(".")[2]
        form = _FORMS.get(short)
        call = _call(script, node)
        if form is None or call is None or is_elsewhere(call):
            continue
        if short in _TOLD_APART and not _TOLD_APART[short](script, call):
            continue
        read = Role.PROBABILITIES if short == "log" else Role.LOGITS
        if tensor.as_large_as_logits and tensor.role is read:
            given[call, form].append((short, tensor))
    for (call, form), uses in given.items():
        yield call, form, {short for short, _ in uses}, tuple(tensor for _, tensor in uses)


def _is_only_gathered(script: Host, log_softmax: CallNode) -> bool | None:
    """True if only ``gather`` reads a log-softmax; None where no entry a token is picked of it."""
    of_words = any(use[0].role in _SHARES for use in script.uses_at(log_softmax))
    picks = list(_picks(script, log_softmax)) if of_words else []
    if all(one is None for one in picks):
        return None
    return all(one is True for one in picks)


def _is_subtracted(script: Host, logsumexp: CallNode) -> bool:
    """True if a ``logsumexp`` over the words meets picked entries of the same pass's logits."""
    return any(
        other is not tensor and other.forward is tensor.forward and other.passes(*PICKS)
        for tensor, operation, use in script.uses_at(logsumexp)
        if operation == "arithmetic" and tensor.width is Width.ONE
        for made in script.tensors(use)
        for other in made.sources
    )


def _is_logged(script: Host, softmax: CallNode) -> bool:
    """True if the entries that are picked of a softmax go into a logarithm."""
    return any(
        operation.rpartition(".")[2] == "log"
        and tensor.passes(*PICKS)
        and any(one.node is softmax for one in tensor.history())
        for tensor, operation, _ in script._run.tensor_uses
    )


def _is_compared(script: Host, log_softmax: CallNode) -> bool:
    """True if a log-softmax meets the distribution of another pass, in a ``kl_div`` or written
    out. The entropy of one pass's own distribution has no twin."""
    for tensor, operation, use in script.uses_at(log_softmax):
        if operation.rpartition(".")[2] == "kl_div":
            return True
        made = script.tensors(use) if operation == "arithmetic" else ()
        others = (one for each in made for one in each.sources if one is not tensor)
        if any(one.role in _SHARES and one.forward is not tensor.forward for one in others):
            return True
    return False


_SHARES = (Role.PROBABILITIES, Role.LOG_PROBABILITIES)
# Its ``log_prob`` gathers an entry a token.
_BY_CLASS = "Categorical"
# What gives an entry a token by itself.
_AT_ONCE = TOKEN_LOGPROBS | {_BY_CLASS}
_FORMS = {
    **dict.fromkeys((_BY_CLASS, "softmax"), LossForm.GATHERED),
    "cross_entropy": LossForm.CROSS_ENTROPY,
    **dict.fromkeys(("log_softmax", "log"), LossForm.GATHERED),
    "logsumexp": LossForm.LOGSUMEXP,
    **dict.fromkeys(TOKEN_LOGPROBS, LossForm.GATHERED),
}
# Operations that are of a form by what else is done.
_TOLD_APART: dict[str, Callable[[Host, CallNode], bool]] = {
    _BY_CLASS: lambda script, _: bool(script.method_calls_anywhere("log_prob")),
    "logsumexp": _is_subtracted,
    "softmax": _is_logged,
}
# Libraries of language models.
_LANGUAGE = ("transformers", "trl", "peft", "deepspeed", "vllm", "tokenizers", "tiktoken")
_ROW_AND_TOKEN = 2
# Views that put the words before the positions, as losses of torch want them.
_TURNS = frozenset({"transpose", "permute", "swapaxes", "movedim", "clone"})


def _is_of_ids(logits: Tensor) -> bool:
    """True if a pass gives logits to what it gets by the name of ``input_ids``."""
    return logits.forward is not None and "input_ids" in logits.forward.invocation.keywords


def _unnamed_around(script: Host, node: Node) -> set[Definition]:
    """The outermost functions around a node and around what names them, where nothing else names
    them; none where a module, a method or a decorator may run them."""
    found: set[Definition] = set()
    pending = [node]
    while pending:
        functions = [*script.functions_around(pending.pop())]
        outermost = script.definition(functions[-1]) if functions else None
        # Whoever has an object of a class may call its methods.
        if outermost is None or script.class_of(outermost) is not None or outermost.decorator_list:
            return set()
        if outermost not in found:
            found.add(outermost)
            pending += script.mentions(outermost.name)
            pending += script.places_of_string(outermost.name)
    return found


def _call(script: Host, node: Expression) -> CallNode | None:
    """The call of an operation: of a method, the call around the attribute."""
    made = script.call_of(node)
    return made if made is not None else call_itself(node)


def _picks(script: Host, node: Expression) -> Iterator[bool | None]:
    """Yield for each use of a tensor: True if it gathers one entry a token, False if it picks by
    an index or as a loss, None if it does anything else."""
    for _, operation, use in script.uses_at(node):
        short = operation.rpartition(".")[2]
        if short in MEASURES:
            continue
        key = key_of(use) if operation == "[]" else None
        if short == "nll_loss" or (key is not None and _picks_rows(script, key)):
            yield False
        elif key is not None:
            yield from _picks(script, use) if script.uses_at(use) else (None,)
        elif short in PICKS:
            yield True if _is_one_a_token(script, _call(script, use)) else None
        elif short in PASSES_NUMBERS | _TURNS and (made := _call(script, use)) is not None:
            # What is turned or copied is no longer what a fused log-softmax gathers from.
            picks = _picks(script, made) if script.uses_at(made) else (None,)
            yield from map(_not_fused, picks) if short in _TURNS else picks
        else:
            yield None


def _not_fused(pick: bool | None) -> bool | None:
    return None if pick is None else False


def _is_one_a_token(script: Host, gather: CallNode | None) -> bool:
    """True if a ``gather`` makes one number a position in some run."""
    if gather is None:
        return False
    if any(operation == "squeeze" for _, operation, _ in script.uses_at(gather)):
        # An index of several columns would leave nothing to squeeze.
        return True
    made = [one for one in options(script.value(gather)) if isinstance(one, Tensor)]
    made += [use[0] for use in script.uses_at(gather)]
    return any(tensor.width is Width.ONE for tensor in made)


def _picks_rows(script: Host, key: Expression) -> bool:
    """True for the key of ``logprobs[torch.arange(rows), tokens]``."""
    index = contents_of(key)
    rows = call_itself(index[0]) if len(index) == _ROW_AND_TOKEN else None
    return rows is not None and script.name(rows.func) == "torch.arange"


def are_read_alone(script: Host, losses: list[TokenLoss]) -> bool:
    """True if what the script reads of logits are these losses: cross entropies and gathered
    log-softmaxes, and beside them the likeliest words, or anything in evaluation."""
    gathered = [one for one in losses if one.form is not LossForm.CROSS_ENTROPY]
    if any(_is_changed(script, one) for one in losses) or not all(
        one.only_gathered for one in gathered
    ):
        return False
    ends = {loss.node for loss in losses if not loss.is_weighted}
    uses = (one for one in script._run.tensor_uses if one[0].role is Role.LOGITS)
    return all(_is_left_alone(use) or _call(script, use[2]) in ends for use in uses)


def _is_left_alone(use: Use) -> bool:
    """True if a use reads little of logits, or takes place in evaluation."""
    tensor, operation, _ = use
    if not tensor.as_large_as_logits or operation.rpartition(".")[2] in _LEFT_ALONE:
        return True
    # A method or a function of torch that changes nothing in place.
    plain = "." not in operation or operation.startswith("torch.")
    return tensor.graph is False and plain and not operation.endswith("_")


# What reads no values, keeps them (a soft cap, too), or leaves nothing that is as large.
_LEFT_ALONE = MEASURES | PASSES_NUMBERS | {"[]", "argmax", "tanh"}


def _is_changed(script: Host, loss: TokenLoss) -> bool:
    """True if entries of the logits are assigned to: ``logits[:, :, banned] = -inf``."""
    places = [place for one in loss.nodes_of_logits for place in script.tensor_places(one)]
    return any(use.way is Way.ITEM and use.is_written for use in map(script.use, places))
