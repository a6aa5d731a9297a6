"""Prompts whose rows come in several calls: forwarded at the first, backward at the last.

Where a micro-batch holds fewer rows than a group, the group comes in several micro-batches of one
optimizer step, each with a loss and a backward pass of its own. The first call forwards the prompt
and keeps every layer's keys and values, with their graph. Calls forward branches against them, as
if they were inputs: the gradients of the earlier calls gather on these inputs. The last call's
branches hang on the graph itself, and its backward pass sends the sum of all calls' gradients once
through the prompt. Exact, since the parameters stay what they are within a step.

Short branches go through the model together, those of the next calls with a call's own: each call
gets its values, on which its gradients gather in the same way, and the last of these calls sends
all of them back.

So a prompt costs one forward and one backward pass however few rows a micro-batch holds. Memory:
the prompt's activations (checkpointed like any), its keys and values and their gradients, and the
branches of one call, or of several as long as they have at most half as many tokens as the prompt;
the repeated micro-batch holds prompt and branches too.

Who calls has to say which rows will come (`expect`), since only that tells the last call, and where
each micro-batch begins (`begin`): in each a prompt has one call, so that whatever else is scored in
it, or in its place, goes by itself. A micro-batch whose loss has no part of its call, or that makes
none, still has to send what the earlier ones left: `settled` adds that to its loss. What was not
sent before the optimizer's step is an error (`require_settled`), never a smaller gradient.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from memlint_runtime.fake_numbers import numbers_of
from memlint_runtime.shared_prompt.models import KeysValues, Layers, layers_of
from memlint_runtime.shared_prompt.runs import PaddedRows

__all__ = ["KeptPrompt", "KeptPrompts", "prompts_of", "tokens_of", "version_of"]

Prompt = bytes
_BYTES_OF_TOKEN = 4
# Below this a forward pass of the prompt's own hardly pays: a guess, no measured break-even.
MIN_KEPT_TOKENS = 48
# The branches of several calls go together up to so many tokens for each token of the prompt.
MOST_TOGETHER = 0.5

Values = tuple[Tensor, ...]


def prompts_of(rows: PaddedRows) -> list[Prompt]:
    """The tokens of each row before its first scored one, as a key; rows without scored ones have
    all of theirs."""
    before = rows.mask & (rows.scored.cumsum(1) == 0)
    ids, keep = numbers_of(rows.ids.to(torch.int32)), numbers_of(before)
    return [row[kept].tobytes() for row, kept in zip(ids, keep, strict=True)]


def version_of(model: nn.Module) -> int:
    """A number that changes with the values of the model's trained parameters."""
    return sum(p._version for p in model.parameters() if p.requires_grad)


def tokens_of(prompt: Prompt) -> int:
    return len(prompt) // _BYTES_OF_TOKEN


@dataclass(eq=False)
class _Debt:
    """Gradients that backward passes left for a later one to send on."""

    gathered: bool = False
    sent: bool = False

    @property
    def is_owed(self) -> bool:
        return self.gathered and not self.sent

    def gather(self, _: Tensor) -> None:
        if self.sent:
            raise RuntimeError(
                "gradients of a micro-batch came after those of its prompt were sent back, which "
                "happens once in a step. Let each micro-batch's backward pass end before the next "
                "begins, or set sharing = Sharing(keep_prompts=False) on the trainer's class"
            )
        self.gathered = True


class _Gathering:
    """Tensors that several backward passes lead to, of which one goes on.

    given: what all passes but that one see, where their gradients gather. sending: what that one
    sees, which sends the sum of all on. Made before anything computes with either, so that within
    one backward pass, too, autograd comes to it last.
    """

    def __init__(self, made: Sequence[Tensor]) -> None:
        self.debt = _Debt()
        self.given = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in made]
        self.sending = list(made)
        leading = [i for i, tensor in enumerate(made) if tensor.requires_grad]
        if not leading:
            return
        given = [self.given[i] for i in leading]
        for tensor in given:
            tensor.register_post_accumulate_grad_hook(self.debt.gather)  # type: ignore[no-untyped-call]
        # `torch.autograd.grad` does not accumulate into this input, so that its gradients do not
        # count as sent.
        sent = torch.zeros((), device=given[0].device, requires_grad=True)
        hook = partial(_sent, self.debt, given)
        sent.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        sums = _Sums.apply(given, sent, *(made[i] for i in leading))  # type: ignore[no-untyped-call]
        for i, tensor in zip(leading, sums, strict=True):
            self.sending[i] = tensor


def _sent(debt: _Debt, given: list[Tensor], _: Tensor) -> None:
    debt.sent = True
    for earlier in given:
        earlier.grad = None


class _Sums(torch.autograd.Function):
    """Tensors as they are; their gradients with those that gathered on `given`."""

    @staticmethod
    def forward(ctx: Any, given: list[Tensor], sent: Tensor, *made: Tensor) -> tuple[Tensor, ...]:
        ctx.given = given
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(sent)
        return tuple(tensor.view_as(tensor) for tensor in made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (sent,) = ctx.saved_tensors
        sums = [_sum(grad, earlier.grad) for grad, earlier in zip(grads, ctx.given, strict=True)]
        return (None, torch.zeros_like(sent), *sums)


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


class _Settled(torch.autograd.Function):
    """A loss as it is, from which autograd also reaches `ends`, with no gradients of its own."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, *ends: Tensor) -> Tensor:
        ctx.ends = len(ends)
        return loss.view_as(loss)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (grad, *[None] * ctx.ends)


@dataclass(eq=False)
class KeptPrompt:
    """Keys and values of a prompt's first `tokens` tokens, `[P, K, D]` each, two for every layer of
    attention; the states after them of layers that carry one.

    weights: which values of the model's parameters made them, see `version_of`. ahead: what calls
    to come are given, scored with an earlier one. together: the values of these calls and of that
    earlier one.
    """

    tokens: int
    layers: Layers
    shared: _Gathering
    weights: int = 0
    ahead: deque[Values] = field(default_factory=deque)
    together: _Gathering | None = None

    @classmethod
    def of(cls, tokens: int, kept: KeysValues, weights: int = 0) -> KeptPrompt:
        made = [tensor for tensors in kept.values() for tensor in tensors]
        return cls(tokens, layers_of(kept), _Gathering(made), weights)

    def hand_out(self, calls: Sequence[PaddedRows], values: Values) -> Values:
        """The values of the first of `calls`; those of the others wait for them.

        values: `[rows, S]`, of the calls' rows one after another, padded on the left.
        """
        if len(calls) == 1:
            return values
        by_call: list[list[Tensor]] = [[] for _ in calls]
        for value in values:
            sizes = [len(call.ids) for call in calls]
            for own, call, part in zip(by_call, calls, torch.split(value, sizes), strict=True):
                own.append(part[:, value.shape[1] - call.ids.shape[1] :])
        self.together = _Gathering([tensor for own in by_call for tensor in own])
        # The last of the calls sends the gradients of all of them.
        given, sent = self.together.given[: -len(values)], self.together.sending[-len(values) :]
        # Who gets them may change them in place, which leaves and views of a function's refuse.
        outcomes = (tensor.clone() for tensor in [*given, *sent])
        self.ahead.extend(tuple(islice(outcomes, len(values))) for _ in calls)
        return self.ahead.popleft()


class KeptPrompts:
    """The prompts of one model that come in several calls of one step."""

    def __init__(self) -> None:
        self._coming: dict[Prompt, deque[PaddedRows | None]] = {}
        self._micro_batches: deque[set[Prompt]] = deque()
        # Those whose call of the present micro-batch was not made yet; None where calls come
        # without micro-batches around them.
        self._present: set[Prompt] | None = None
        self._with_graph = True
        self._kept: dict[Prompt, KeptPrompt] = {}
        # Of prompts, and of calls that went together, that have no call to come.
        self._ended: list[_Gathering] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> KeptPrompts:
        """A copied model has no part in the steps of the model that it was copied from."""
        return KeptPrompts()

    def expect(self, micro_batches: Sequence[Mapping[Prompt, PaddedRows | None]]) -> None:
        """The rows of the prompts that will come, by micro-batch; None for rows that go through the
        model alone. Other prompts are not kept, nor are those of fewer than MIN_KEPT_TOKENS tokens.
        They come with autograd on or off, as it is now.

        Raises RuntimeError where gradients of the step before were not sent.
        """
        self.require_settled()
        self._with_graph = torch.is_grad_enabled()
        for calls in micro_batches:
            long = {prompt for prompt in calls if tokens_of(prompt) >= MIN_KEPT_TOKENS}
            self._micro_batches.append(long)
            for prompt in long:
                self._coming.setdefault(prompt, deque()).append(calls[prompt])

    def begin(self) -> None:
        """The next micro-batch begins: until it ends, each of its prompts has one call."""
        self._pass_over()
        self._ended = [ended for ended in self._ended if not ended.debt.sent]
        self._present = self._micro_batches.popleft() if self._micro_batches else set()

    def settled(self, loss: Tensor) -> Tensor:
        """The micro-batch's loss as it is; its backward pass sends all that was left for it to."""
        self._pass_over()
        if not loss.requires_grad or not any(ended.debt.is_owed for ended in self._ended):
            return loss
        # What calls that went together left may go to a prompt that is owed nothing yet.
        unsent = [ended for ended in self._ended if not ended.debt.sent]
        ends = [tensor for ended in unsent for tensor in ended.sending if tensor.requires_grad]
        settled: Tensor = _Settled.apply(loss, *ends)  # type: ignore[no-untyped-call]
        return settled

    def require_settled(self) -> None:
        """The optimizer steps: nothing is kept or expected any more.

        Raises RuntimeError where a call never came, or had no backward pass, and gradients that
        waited for it would be lost.
        """
        owed = self.owed
        self.forget()
        if owed:
            raise RuntimeError(
                f"{owed} prompts were kept for further micro-batches of their step, which never "
                "came or had no backward pass: their gradients are not complete. If micro-batches "
                "are left out on purpose, set sharing = Sharing(keep_prompts=False) on the "
                "trainer's class"
            )

    @property
    def owed(self) -> int:
        """How many gradients, of prompts and of calls that went together, wait to be sent."""
        waiting = [*self._ended]
        for kept in self._kept.values():
            waiting += [kept.shared, *([kept.together] if kept.together else [])]
        return sum(one.debt.is_owed for one in waiting)

    def forget(self) -> None:
        """Drop what is kept and expected: the step was given up."""
        self._kept.clear()
        self._coming.clear()
        self._micro_batches.clear()
        self._ended.clear()
        self._present = None

    @property
    def waiting(self) -> bool:
        """True if a kept prompt has calls to come, after this micro-batch."""
        present = self._present or ()
        return any(len(self._coming[prompt]) > (prompt in present) for prompt in self._kept)

    @property
    def expected(self) -> bool:
        """True if any call is to come, as this one."""
        left = any(self._coming.values()) if self._present is None else bool(self._present)
        return left and self._with_graph == torch.is_grad_enabled()

    def expects(self, prompt: Prompt, rows: PaddedRows) -> bool:
        """True if this is the prompt's call: of other rows, too, unless its own are scored."""
        coming = self._coming.get(prompt)
        if not coming or (self._present is not None and prompt not in self._present):
            return False
        kept = self._kept.get(prompt)
        return kept is None or not kept.ahead or (coming[0] is not None and coming[0].equals(rows))

    def find(self, prompt: Prompt, weights: int = 0) -> KeptPrompt | None:
        """What is kept of a prompt, if it is.

        Raises RuntimeError where other weights have made it.
        """
        kept = self._kept.get(prompt)
        if kept is not None and kept.weights != weights:
            raise RuntimeError(
                "the model's parameters changed between the micro-batches of one step, for which a "
                "prompt is kept. If they are stepped more often than once in "
                "gradient_accumulation_steps micro-batches, set sharing = "
                "Sharing(keep_prompts=False) on the trainer's class"
            )
        return kept

    def keep(self, prompt: Prompt, kept: KeptPrompt) -> None:
        """Until its last call has been given its values."""
        self._kept[prompt] = kept

    def ready(self, prompt: Prompt, weights: int = 0) -> Values | None:
        """The values of the present call, where an earlier one has made them."""
        kept = self.find(prompt, weights)
        if kept is None or not kept.ahead:
            return None
        values = kept.ahead.popleft()
        self._end_call(prompt)
        return values

    def calls_together(
        self, prompt: Prompt, rows: PaddedRows, token_budget: int | None
    ) -> list[PaddedRows]:
        """The rows of the present call, and of further ones that go through the model with them."""
        kept, (first, *others) = self._kept[prompt], self._coming[prompt]
        if first is None or not first.equals(rows):
            return [rows]
        calls, room = [rows], int(MOST_TOGETHER * kept.tokens)
        room = min(room, token_budget or room) - _branch_tokens(rows, kept.tokens)
        for call in others:
            room -= 0 if call is None else _branch_tokens(call, kept.tokens)
            if call is None or room < 0:
                break
            calls.append(call)
        return calls

    def take(self, prompt: Prompt, calls: int) -> list[Tensor]:
        """The keys and values for the branches of the next `calls` calls; those of the last call
        lead back into the prompt."""
        shared = self._kept[prompt].shared
        return shared.sending if calls == len(self._coming[prompt]) else shared.given

    def hand_out(self, prompt: Prompt, calls: Sequence[PaddedRows], values: Values) -> Values:
        """The values of the present call, of those of all of `calls`; the others' are kept."""
        own = self._kept[prompt].hand_out(calls, values)
        self._end_call(prompt)
        return own

    def _pass_over(self) -> None:
        """The calls that this micro-batch has not made will not come."""
        for prompt in self._present or ():
            kept = self._kept.get(prompt)
            if kept is not None and kept.ahead:
                kept.ahead.popleft()
            self._end_call(prompt)

    def _end_call(self, prompt: Prompt) -> None:
        if self._present is not None:
            self._present = self._present - {prompt}
        coming, kept = self._coming[prompt], self._kept.get(prompt)
        coming.popleft()
        if kept is not None and not kept.ahead and kept.together is not None:
            self._ended.append(kept.together)
            kept.together = None
        if kept is not None and not coming:
            self._ended.append(self._kept.pop(prompt).shared)


def _branch_tokens(rows: PaddedRows, prompt_tokens: int) -> int:
    return int(rows.after(prompt_tokens).forwarded.sum())
