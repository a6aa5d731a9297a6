"""Prompts whose rows come in several calls: forwarded at the first, backward at the last.

Where a micro-batch holds fewer rows than a group, the group comes in several micro-batches of one
optimizer step, each with a loss and a backward pass of its own. The first call forwards the prompt
and keeps every layer's keys and values, with their graph. Each call forwards its own branches
against them, as if they were inputs: the gradients of the earlier calls gather on these inputs. The
last call's branches hang on the graph itself, and its backward pass sends the sum of all calls'
gradients once through the prompt. Exact, since the parameters stay what they are within a step.

So a prompt costs one forward and one backward pass however few rows a micro-batch holds. Memory:
the prompt's activations (checkpointed like any), its keys and values and their gradients, and the
branches of one call; the repeated micro-batch holds prompt and branches too.

Who calls has to say how often a prompt will come (`expect`), since only that tells the last call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
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
    calls leave their gradients.
    """

    tokens: int
    layers: Layers
    made: list[Tensor]
    given: list[Tensor]

    @classmethod
    def of(cls, tokens: int, kept: KeysValues) -> KeptPrompt:
        layers = layers_of(kept)
        made = [tensor for tensors in kept.values() for tensor in tensors]
        given = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in made]
        return cls(tokens, layers, made, given)

    def taken(self, *, last: bool) -> list[Tensor]:
        """What a call's branches look at; the last call's lead back into the prompt."""
        if not last:
            return self.given
        if not any(tensor.requires_grad for tensor in self.made):
            return self.made
        return list(_Sums.apply(self.given, *self.made))  # type: ignore[no-untyped-call]


class _Sums(torch.autograd.Function):
    """Keys and values as they are; their gradients with those that gathered on `given`."""

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
        self._coming: Counter[Prompt] = Counter()
        self._kept: dict[Prompt, KeptPrompt] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> KeptPrompts:
        """A copied model has no part in the steps of the model that it was copied from."""
        return KeptPrompts()

    def expect(self, calls: Mapping[Prompt, int]) -> None:
        """In how many calls each of these prompts will come. Others are not kept, nor are prompts
        of fewer than MIN_KEPT_TOKENS tokens.

        Raises RuntimeError where a call that was expected before never came: what its prompt is
        owed in gradients would be lost.
        """
        owed = [
            prompt
            for prompt, kept in self._kept.items()
            if any(tensor.grad is not None for tensor in kept.given)
        ]
        self.forget()
        if owed:
            raise RuntimeError(
                f"{len(owed)} prompts were kept for further micro-batches of their step, which "
                "never came: their gradients are not complete. If micro-batches are left out on "
                "purpose, set sharing = Sharing(keep_prompts=False) on the trainer's class"
            )
        self._coming = Counter(
            {prompt: n for prompt, n in calls.items() if tokens_of(prompt) >= MIN_KEPT_TOKENS}
        )

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
        """Whether any call is to come."""
        return any(count > 0 for count in self._coming.values())

    def expects(self, prompt: Prompt) -> bool:
        return self._coming[prompt] > 0

    def find(self, prompt: Prompt) -> KeptPrompt | None:
        return self._kept.get(prompt)

    def take(self, prompt: Prompt, kept: KeptPrompt) -> list[Tensor]:
        """The keys and values for this call, the next of those that were expected."""
        self._coming[prompt] -= 1
        last = self._coming[prompt] <= 0
        if last:
            self._kept.pop(prompt, None)
        else:
            self._kept[prompt] = kept
        return kept.taken(last=last)
