"""What a run did: optimizer steps, the loss of each step or backward pass, what it printed."""

from __future__ import annotations

import builtins
import re
from typing import Any

# A hand-written loop has no ``max_steps``: it ends here.
_MOST_STEPS = 12
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


class Progress:
    """Counts optimizer steps of a run; collects its losses and the numbers that it prints."""

    class Enough(BaseException):
        """Ends a hand-written loop that took all the steps that a run needs."""

    def __init__(self) -> None:
        self.steps = 0
        self._logged: list[float] = []
        self._backward: list[float] = []
        self._norms: list[float] = []
        self._printed: list[float] = []

    def seen(self) -> dict[str, Any]:
        """What was collected; losses are those that trainers logged, else those of ``backward``."""
        return {
            "steps": self.steps,
            "losses": self._logged or self._backward,
            "norms": self._norms,
            "printed": self._printed,
        }

    def print(self, *values: Any, **keywords: Any) -> None:
        """Print for the script, and keep the numbers in it."""
        builtins.print(*values, **keywords)  # noqa: T201
        for value in values:
            self._printed.extend(map(float, _NUMBER.findall(str(value))))

    def watch(self) -> None:
        """Begin to count, in this process."""
        self._watch_steps()
        self._watch_clipping()
        self._watch_backward()
        self._watch_trainers()

    def _watch_steps(self) -> None:
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        def before(optimizer: Any, *_: Any) -> None:
            squares = [
                parameter.grad.detach().float().pow(2).sum().item()
                for group in optimizer.param_groups
                for parameter in group["params"]
                if parameter.grad is not None
            ]
            self._norms.append(sum(squares) ** 0.5)

        def after(*_: Any) -> None:
            self.steps += 1
            if self.steps >= _MOST_STEPS:
                raise self.Enough

        register_optimizer_step_pre_hook(before)
        register_optimizer_step_post_hook(after)

    def _watch_clipping(self) -> None:
        """What an optimizer sees after clipping does not show a gradient of another scale."""
        import torch

        real_clip = torch.nn.utils.clip_grad_norm_

        def clip(*args: Any, **keywords: Any) -> Any:
            norm = real_clip(*args, **keywords)
            self._norms.append(float(norm))
            return norm

        torch.nn.utils.clip_grad_norm_ = clip

    def _watch_backward(self) -> None:
        import torch

        real_backward = torch.Tensor.backward

        def backward(tensor: Any, *args: Any, **keywords: Any) -> Any:
            if tensor.numel() == 1 and len(self._backward) < _MOST_STEPS:
                self._backward.append(tensor.item())
            return real_backward(tensor, *args, **keywords)

        torch.Tensor.backward = backward  # type: ignore[method-assign]

    def _watch_trainers(self) -> None:
        import transformers

        real_train = transformers.Trainer.train

        def train(trainer: Any, *args: Any, **keywords: Any) -> Any:
            keywords.pop("resume_from_checkpoint", None)
            done = real_train(trainer)
            logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
            self._logged.extend(map(float, logged))
            return done

        transformers.Trainer.train = train
