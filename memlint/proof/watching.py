"""What a training run does, step by step, whoever trains: losses, gradients, time, memory.

A step is a step of torch's optimizers; a loss is what ``backward`` is called on, the sum over a
step's micro-batches. Where optimizers step inside of backward, each takes its own steps.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

_PART = 2**20  # numbers of a gradient that are squared at a time


def line_in(place: str) -> int:
    """Return the line that is at work of the script, or of a file of its folder; 0 for none."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(place):
            return int(frame.f_lineno)
        frame = frame.f_back
    return 0


class Watch:
    """Counts the steps of this process and calls ``end`` after ``most`` of them.

    nudge: move every weight of what is trained, frozen ones too, by one rounding, up or down,
    before the first step, to learn how far rounding alone moves the losses.
    """

    def __init__(self, most: int, nudge: bool, end: Callable[[], object]) -> None:
        self._most = most
        self._nudge = nudge
        self._end = end
        self._taken: Counter[int] = Counter()
        self._losses: list[float] = []
        self._squares: list[float] = []
        self._clipped: dict[int, float] = {}
        self._seconds: list[float] = []
        self._tokens: dict[int, list[float]] = {}  # of each step, by the embedding that they enter
        self._began = time.perf_counter()

    @property
    def steps(self) -> int:
        return max(self._taken.values(), default=0)

    def begin(self) -> None:
        """Watch torch from now on."""
        import torch
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        real_backward = torch.autograd.backward

        def backward(tensors: Any, *arguments: Any, **keywords: Any) -> Any:
            roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
            values = [float(root.detach()) for root in roots if root.numel() == 1]
            self._add(self._losses, sum(values))
            return real_backward(tensors, *arguments, **keywords)

        real_clip = torch.nn.utils.clip_grad_norm_

        def clip(*arguments: Any, **keywords: Any) -> Any:
            norm = real_clip(*arguments, **keywords)
            # What an optimizer sees after clipping does not show a gradient of another scale.
            self._clipped[self.steps] = float(norm)
            return norm

        real_embed = torch.nn.Embedding.forward

        def embed(module: Any, ids: Any) -> Any:
            if torch.is_grad_enabled() and not torch.compiler.is_compiling():
                self._add(self._tokens.setdefault(id(module), []), ids.numel())
            return real_embed(module, ids)

        torch.nn.Embedding.forward = embed
        torch.autograd.backward = backward
        torch.nn.utils.clip_grad_norm_ = clip
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        if self._nudge:
            self._nudge_weights()

    def _add(self, values: list[float], value: float) -> None:
        """Add to what belongs to the step that is being taken."""
        values += [0.0] * (self.steps + 1 - len(values))
        values[self.steps] += value

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        self._add(self._squares, sum(map(_square, gradients)))

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        before = self.steps
        self._taken[id(optimizer)] += 1
        if self.steps == before:
            return
        now = time.perf_counter()
        self._seconds.append(now - self._began)
        self._began = now
        if self.steps >= self._most:
            self._end()

    def _nudge_weights(self) -> None:
        import torch

        real_init = torch.optim.Optimizer.__init__

        def nudge(parameter: Any) -> None:
            # Up or down by chance: all of them up would be another scale, not rounding.
            eps = torch.finfo(parameter.dtype).eps
            chance = torch.Generator(parameter.device).manual_seed(parameter.numel())
            up = torch.empty_like(parameter).bernoulli_(0.5, generator=chance)
            parameter.mul_(up.mul_(2 * eps).add_(1 - eps))

        def init(optimizer: Any, *arguments: Any, **keywords: Any) -> None:
            real_init(optimizer, *arguments, **keywords)
            with torch.no_grad():
                for parameter in _weights(optimizer):
                    if parameter.is_floating_point():
                        nudge(parameter)

        torch.optim.Optimizer.__init__ = init

    def seen(self) -> dict[str, Any]:
        """Return what was seen. Bytes are the highest of the run; seconds those of each step."""
        import torch

        on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
        host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "steps": self.steps,
            "line": line_in(sys.modules["__main__"].__file__ or "?"),
            "losses": self._losses[: self.steps],
            "norms": [
                self._clipped.get(step, square**0.5)
                for step, square in enumerate(self._squares[: self.steps])
            ],
            "seconds": self._seconds,
            "tokens": max(self._tokens.values(), key=sum, default=[])[: self.steps],
            "host": host if sys.platform == "darwin" else host * 1024,
            "allocated": torch.cuda.max_memory_allocated() if on_gpu else None,
            "reserved": torch.cuda.max_memory_reserved() if on_gpu else None,
        }


def _square(gradient: Any) -> float:
    """Return the sum of a gradient's squares, in parts: a copy of it in float64 would be a peak."""
    import torch

    parts = [gradient.detach()]
    if type(gradient) is torch.Tensor and gradient.is_contiguous():
        parts = parts[0].flatten().split(_PART)
    return float(sum(part.double().pow(2).sum() for part in parts))


def _weights(optimizer: Any) -> list[Any]:
    """Return the weights of an optimizer, and those beside them in models that hold one: a frozen
    base in bf16 rounds more than its adapter in float32."""
    import torch

    found = {id(one): one for group in optimizer.param_groups for one in group["params"]}
    trained = set(found)
    for each in gc.get_objects():
        if issubclass(type(each), torch.nn.Module):
            own = {id(one): one for one in each.parameters()}
            found |= own if trained & own.keys() else {}
    return list(found.values())
