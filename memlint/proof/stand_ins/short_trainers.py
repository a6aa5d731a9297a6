"""Trainers that take two steps, on the CPU, save nothing and report to nobody."""

from __future__ import annotations

import re
import sys
import tempfile
from typing import Any

from memlint.proof.stand_ins.sample_rows import TABLES

_MOST_STEPS = 4


def shorten_trainers(*, exact: bool) -> None:
    """exact: batches, precision and optimizer stay what the script says; a run has few steps."""
    import transformers

    arguments = transformers.TrainingArguments
    real_post_init = arguments.__post_init__
    output = tempfile.mkdtemp(prefix="memlint-verify-")

    def post_init(self: Any) -> None:
        _give(self, {"output_dir": output, **TABLES["always"]})
        if exact:
            self.max_steps = self.max_steps if 0 < self.max_steps < _MOST_STEPS else _MOST_STEPS
        else:
            _make_small(self)
        real_post_init(self)

    real_train = transformers.Trainer.train

    def train(self: Any, resume_from_checkpoint: Any = None, *args: Any, **kw: Any) -> Any:
        if not exact and "Anything" in {type(one).__name__ for one in sys.modules.values()}:
            self.compute_metrics, self._determine_best_metric = None, lambda *a, **k: False
        if hasattr(self, "_calculate_rewards") and not exact:
            rewards = self._calculate_rewards
            # A model that knows nothing earns the same for all it says, and would learn nothing.
            self._calculate_rewards = lambda *a: (
                (each := rewards(*a)) + each.new_tensor(range(len(each)))[:, None] / 10
            )
        return real_train(self, None, *args, **kw)  # no checkpoint is of a tiny model

    arguments.__post_init__ = post_init
    transformers.Trainer.train = train
    for name in ("push_to_hub", "create_model_card"):
        setattr(transformers.Trainer, name, lambda self, *a, **k: None)


def _give(arguments: Any, values: dict[str, Any]) -> None:
    """None is what the library has where nobody says it: what is off differs by release."""
    for name, value in values.items():
        if hasattr(arguments, name):
            defaults = [vars(each)[name] for each in type(arguments).__mro__ if name in vars(each)]
            setattr(arguments, name, defaults[-1] if value is None and defaults else value)


def _make_small(arguments: Any) -> None:
    _give(arguments, TABLES["small"])
    if re.search(r"8bit|4bit|paged|lion|fused|galore|apollo", str(arguments.optim)):
        arguments.optim = "adamw_torch"
    for name, most in (
        ("per_device_train_batch_size", 4), ("per_device_eval_batch_size", 4),
        ("gradient_accumulation_steps", 2), ("max_completion_length", 8), ("warmup_steps", 1),
    ):  # fmt: skip
        value = getattr(arguments, name, None)
        if isinstance(value, int | float) and value > most:
            setattr(arguments, name, most)
    if getattr(arguments, "num_generations", None):
        arguments.num_generations = arguments.per_device_train_batch_size = 2
        arguments.generation_batch_size = arguments.steps_per_generation = None
    if hasattr(arguments, "eval_steps") and arguments.eval_steps:
        arguments.eval_steps = 2
