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

Who calls has to say which rows will come (`expect`), since only that tells the last call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from memlint_runtime.shared_prompt.models import KeysValues, Layers, layers_of
from memlint_runtime.shared_prompt.runs import PaddedRows

__all__ = ["KeptPrompt", "KeptPrompts", "prompts_of", "tokens_of"]

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
    ids, keep = rows.ids.to(torch.int32).cpu().numpy(), before.cpu().numpy()
    return [row[kept].tobytes() for row, kept in zip(ids, keep, strict=True)]


def tokens_of(prompt: Prompt) -> int:
    return len(prompt) // _BYTES_OF_TOKEN


@dataclass(eq=False)
class KeptPrompt:
    """Keys and values of a prompt's first `tokens` tokens, `[P, K, D]` each, two for every layer of
    attention; the states after them of layers that carry one.

    made: as the prompt's forward pass left them. given: the same without what made them, where
    calls leave their gradients. ahead: what calls to come are given, scored with an earlier one.
    gathered: where these calls, and that earlier one, leave theirs.
    """

    tokens: int
    layers: Layers
    made: list[Tensor]
    given: list[Tensor]
    ahead: deque[Values] = field(default_factory=deque)
    gathered: list[Tensor] = field(default_factory=list)

    @classmethod
    def of(cls, tokens: int, kept: KeysValues) -> KeptPrompt:
        layers = layers_of(kept)
        made = [tensor for tensors in kept.values() for tensor in tensors]
        return cls(tokens, layers, made, _copies(made))

    def taken(self, *, last: bool) -> list[Tensor]:
        """What branches look at; those of the last call lead back into the prompt."""
        return _with_gradients_of(self.given, self.made) if last else self.given

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
        made = [tensor for own in by_call for tensor in own]
        given = _copies(made)
        # The last of the calls sends the gradients of all of them.
        sent = _with_gradients_of(given, made)
        # Who gets them may change them in place, which leaves and views of a function's refuse.
        outcomes = (tensor.clone() for tensor in [*given[: -len(values)], *sent[-len(values) :]])
        self.ahead.extend(tuple(islice(outcomes, len(values))) for _ in calls)
        self.gathered = given
        return self.ahead.popleft()

    @property
    def is_owed(self) -> bool:
        """Whether gradients wait for a call to come."""
        waiting = [*self.given, *(self.gathered if self.ahead else ())]
        return any(tensor.grad is not None for tensor in waiting)


def _copies(made: list[Tensor]) -> list[Tensor]:
    return [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in made]


def _with_gradients_of(given: list[Tensor], made: list[Tensor]) -> list[Tensor]:
    """`made`, whose gradients become their own and those that gathered on `given`."""
    leading = [i for i, tensor in enumerate(made) if tensor.requires_grad]
    if not leading:
        return made
    outcome = list(made)
    sums = _Sums.apply([given[i] for i in leading], *(made[i] for i in leading))  # type: ignore[no-untyped-call]
    for i, tensor in zip(leading, sums, strict=True):
        outcome[i] = tensor
    return outcome


class _Sums(torch.autograd.Function):
    """Tensors as they are; their gradients with those that gathered on `given`."""

    @staticmethod
    def forward(ctx: Any, given: list[Tensor], *made: Tensor) -> tuple[Tensor, ...]:
        ctx.given = given
        return tuple(tensor.view_as(tensor) for tensor in made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        sums = [
            grad if earlier.grad is None else grad + earlier.grad
            for grad, earlier in zip(grads, ctx.given, strict=True)
        ]
        return (None, *sums)


class KeptPrompts:
    """The prompts of one model that come in several calls of one step."""

    def __init__(self) -> None:
        self._coming: dict[Prompt, deque[PaddedRows | None]] = {}
        self._with_graph = True
        self._kept: dict[Prompt, KeptPrompt] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> KeptPrompts:
        """A copied model has no part in the steps of the model that it was copied from."""
        return KeptPrompts()

    def expect(self, calls: Mapping[Prompt, Sequence[PaddedRows | None]]) -> None:
        """The rows of each call in which each of these prompts will come; None for calls that go
        through the model alone. Other prompts are not kept, nor are those of fewer than
        MIN_KEPT_TOKENS tokens. They come with autograd on or off, as it is now.

        Raises RuntimeError where a call that was expected before never came: what its prompt is
        owed in gradients would be lost.
        """
        owed = [prompt for prompt, kept in self._kept.items() if kept.is_owed]
        self.forget()
        if owed:
            raise RuntimeError(
                f"{len(owed)} prompts were kept for further micro-batches of their step, which "
                "never came: their gradients are not complete. If micro-batches are left out on "
                "purpose, set sharing = Sharing(keep_prompts=False) on the trainer's class"
            )
        self._with_graph = torch.is_grad_enabled()
        self._coming = {
            prompt: deque(rows)
            for prompt, rows in calls.items()
            if tokens_of(prompt) >= MIN_KEPT_TOKENS
        }

    def forget(self) -> None:
        """Drop what is kept and expected: the step was given up."""
        self._kept.clear()
        self._coming.clear()

    @property
    def waiting(self) -> bool:
        """Whether a kept prompt has calls to come."""
        return bool(self._kept)

    @property
    def expected(self) -> bool:
        """Whether any call is to come, as this one."""
        return self._with_graph == torch.is_grad_enabled() and any(self._coming.values())

    def expects(self, prompt: Prompt, rows: PaddedRows) -> bool:
        """Whether this is the next call of the prompt, and none that somebody else makes."""
        coming = self._coming.get(prompt)
        return bool(coming and (coming[0] is None or coming[0].equals(rows)))

    def find(self, prompt: Prompt) -> KeptPrompt | None:
        return self._kept.get(prompt)

    def keep(self, prompt: Prompt, kept: KeptPrompt) -> None:
        """Until its last call has been given its values."""
        self._kept[prompt] = kept

    def ready(self, prompt: Prompt) -> Values | None:
        """The values of the present call, where an earlier one has made them."""
        kept = self._kept.get(prompt)
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
        if first is None:
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
        """The keys and values for the branches of the next `calls` calls."""
        return self._kept[prompt].taken(last=calls == len(self._coming[prompt]))

    def hand_out(self, prompt: Prompt, calls: Sequence[PaddedRows], values: Values) -> Values:
        """The values of the present call, of those of all of `calls`; the others' are kept."""
        own = self._kept[prompt].hand_out(calls, values)
        self._end_call(prompt)
        return own

    def _end_call(self, prompt: Prompt) -> None:
        self._coming[prompt].popleft()
        if not self._coming[prompt]:
            self._kept.pop(prompt)


def _branch_tokens(rows: PaddedRows, prompt_tokens: int) -> int:
    return int(rows.after(prompt_tokens).forwarded.sum())
