"""What a run did: optimizer steps, and the loss of each step or backward pass."""

from __future__ import annotations

from typing import Any

# A hand-written loop has no ``max_steps``: it ends here.
_MOST_STEPS = 12


class Progress:
    """Counts optimizer steps of a run and collects its losses."""

    class Enough(BaseException):
        """Ends a hand-written loop that took all the steps that a run needs."""

    def __init__(self) -> None:
        self.steps = 0
        self._logged: list[float] = []
        self._backward: list[float] = []

    @property
    def losses(self) -> list[float]:
        """What trainers logged; else the values that ``backward`` was called on."""
        return self._logged or self._backward

    def watch(self) -> None:
        """Begin to count, in this process."""
        import torch
        import transformers
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def stepped(*_: Any) -> None:
            self.steps += 1
            if self.steps >= _MOST_STEPS:
                raise self.Enough

        register_optimizer_step_post_hook(stepped)
        real_backward = torch.Tensor.backward

        def backward(tensor: Any, *args: Any, **keywords: Any) -> Any:
            if tensor.numel() == 1 and len(self._backward) < _MOST_STEPS:
                self._backward.append(tensor.item())
            return real_backward(tensor, *args, **keywords)

        torch.Tensor.backward = backward  # type: ignore[method-assign]
        real_train = transformers.Trainer.train

        def train(trainer: Any, *args: Any, **keywords: Any) -> Any:
            keywords.pop("resume_from_checkpoint", None)
            done = real_train(trainer)
            logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
            self._logged.extend(map(float, logged))
            return done

        transformers.Trainer.train = train
