"""CPU time of a training step with shared prompts against TRL's own path, shape by shape.

One process, one thread, process CPU time; both paths in turn, the median of each pair's ratio.
`rho`: tokens that TRL forwards for each of ours, counted by the runtime and not by a formula.

Forward and backward of one micro-batch, checkpointed; the lines that name the trainer are whole
optimizer steps of TRL's and our `GRPOTrainer`, whose completions are given and not generated.

Two phases hold a bound of tokens in a forward pass. TRL holds one by smaller micro-batches: a line
"trl in rows of 1" has it do so, the lines without let it take the whole group at once.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.trl.forward import TokenCount, share_prompts
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GptOssConfig,
    MistralConfig,
    PreTrainedModel,
    PrinterCallback,
    Qwen2Config,
    TrainerCallback,
)
from trl.trainer.utils import add_fused_lm_head

__all__ = ["CASES", "Case", "Timed", "print_table", "timed"]

VOCABULARY = 1024
ROUNDS = 5
# The bars: of rho where sharing gains, of TRL's speed everywhere.
SHARE_OF_RHO, SHARE_OF_TRL = 0.8, 0.98

_TINY: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip

MODELS: dict[str, Callable[[], Any]] = {
    "plain": lambda: Qwen2Config(**_TINY),
    "window 256": lambda: MistralConfig(**_TINY, sliding_window=256),
    # Sinks in every layer, a window in every other, experts: what TRL forwards by eager attention.
    "gpt-oss": lambda: GptOssConfig(
        **(_TINY | {"intermediate_size": 256}), head_dim=64, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=128,
        layer_types=["sliding_attention", "full_attention"] * 2,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A shape. prompt, completion, group: P, C, G of one group; or segments: the tokens of a node
    in a tree of `depth`, by `tree`. rows_at_once: 0 for the whole group in one forward pass, else
    `per_device_train_batch_size` of a trainer that accumulates the group. trl_rows: rows in each of
    TRL's forward passes; 0 for all at once."""

    name: str
    prompt: int = 0
    completion: int = 0
    group: int = 0
    model: str = "plain"
    depth: int = 0
    segment: int = 0
    tree: str = ""
    token_budget: int | None = None
    rows_at_once: int = 0
    trl_rows: int = 0


CASES = (
    Case("prompt-heavy", 1024, 64, 8),
    Case("balanced", 256, 256, 8),
    Case("completion-heavy", 64, 512, 8),
    Case("no gain", 8, 256, 8),
    Case("no gain", 16, 512, 8),
    Case("window, prompt-heavy", 1024, 64, 8, "window 256"),
    Case("window, balanced", 256, 256, 8, "window 256"),
    Case("window, completion-heavy", 64, 512, 8, "window 256"),
    Case("window, no gain", 8, 256, 8, "window 256"),
    Case("sinks, prompt-heavy", 1024, 64, 8, "gpt-oss"),
    Case("sinks, balanced", 256, 256, 8, "gpt-oss"),
    Case("sinks, completion-heavy", 64, 512, 8, "gpt-oss"),
    Case("sinks, no gain", 8, 256, 8, "gpt-oss"),
    Case("tree, halving", depth=5, segment=64, tree="halving"),
    Case("tree, rows part and end", depth=5, segment=64, tree="comb"),
    Case("tree, rows part", depth=5, segment=64, tree="ladder"),
    Case("tree, rows part", depth=16, segment=32, tree="ladder"),
    Case("tree, rows part", depth=16, segment=16, tree="ladder"),
    Case("two phases", 1024, 64, 8, token_budget=1152),
    Case("two phases", 256, 256, 8, token_budget=512),
    Case("two phases", 64, 512, 8, token_budget=1024),
    Case("two phases, trl in rows of 1", 1024, 64, 8, token_budget=1152, trl_rows=1),
    Case("two phases, trl in rows of 1", 256, 256, 8, token_budget=512, trl_rows=1),
    Case("two phases, trl in rows of 1", 64, 512, 8, token_budget=1024, trl_rows=1),
    Case("trainer, whole groups", 256, 256, 8, rows_at_once=8),
    Case("trainer, rows of 1", 1024, 64, 8, rows_at_once=1),
    Case("trainer, rows of 1", 256, 256, 8, rows_at_once=1),
    Case("trainer, rows of 1", 64, 512, 8, rows_at_once=1),
    Case("trainer, rows of 1", 8, 256, 8, rows_at_once=1),
    Case("trainer, rows of 2", 256, 256, 8, rows_at_once=2),
    Case("trainer, rows of 3", 256, 256, 8, rows_at_once=3),
)


@dataclass(frozen=True)
class Timed:
    """Medians in seconds of CPU time. ratios: TRL's over ours, pair by pair."""

    case: Case
    rho: float
    trl_s: float
    ours_s: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def middle_half(self) -> tuple[float, float]:
        """Between these lies half of the ratios: how far apart equal work comes out."""
        if len(self.ratios) == 1:
            return self.ratio, self.ratio
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    @property
    def share_of_rho(self) -> float:
        return self.ratio / self.rho

    @property
    def passes(self) -> bool:
        return self.share_of_rho >= SHARE_OF_RHO and self.ratio >= SHARE_OF_TRL


# -- rows ------------------------------------------------------------------------------------------


@dataclass
class _Draw:
    """Tokens that no two nodes share: each starts with one of its own."""

    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))
    nodes: int = 0

    def node(self, tokens: int) -> list[int]:
        self.nodes += 1
        others = torch.randint(300, VOCABULARY, (tokens - 1,), generator=self.generator)
        return [3 + self.nodes, *others.tolist()]


def _tree_rows(case: Case, draw: _Draw) -> Iterator[list[int]]:
    """Rows of a tree of `case.depth` levels, every node of `case.segment` tokens."""

    def grow(path: list[int], level: int) -> Iterator[list[int]]:
        path = path + draw.node(case.segment)
        if level == case.depth:
            yield path
        elif case.tree == "halving":
            yield from grow(path, level + 1)
            yield from grow(path, level + 1)
        else:  # at every level one row parts from what goes on, and ends there or goes as far
            rest = 1 if case.tree == "comb" else case.depth - level
            yield path + draw.node(rest * case.segment)
            yield from grow(path, level + 1)

    return grow([], 1)


def rows_of(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, mask and labels `[rows, tokens]`; rows of a tree are padded on the right."""
    draw = _Draw()
    if case.tree:
        rows = list(_tree_rows(case, draw))
        unscored = case.segment
    else:
        prompt = draw.node(case.prompt)
        rows = [prompt + draw.node(case.completion) for _ in range(case.group)]
        unscored = case.prompt
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :unscored] = -100
    return ids, mask, labels


# -- one forward and backward ----------------------------------------------------------------------


def _model_of(name: str) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(MODELS[name](), dtype=torch.float32)
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})
    return model.train()


def _steps_of_forward(case: Case) -> tuple[dict[str, Callable[[], float]], Callable[[], float]]:
    ids, mask, labels = rows_of(case)
    count = TokenCount()
    steps: dict[str, Callable[[], float]] = {}
    for path in ("trl", "ours"):
        model = _model_of(case.model)
        add_fused_lm_head(model, outputs=("log_probs", "entropy"))
        rows = case.trl_rows or len(ids)
        if path == "ours":
            rows = len(ids)
            share_prompts(model, Sharing(token_budget=case.token_budget), count)
        batches = list(zip(*(x.split(rows) for x in (ids, mask, labels)), strict=True))

        def step(
            model: PreTrainedModel = model, batches: list[tuple[Tensor, ...]] = batches
        ) -> float:
            model.zero_grad()
            started = time.process_time()
            for own_ids, own_mask, own_labels in batches:
                model(
                    input_ids=own_ids, attention_mask=own_mask, labels=own_labels,
                    fused_lm_head=True,
                ).log_probs.sum().backward()  # fmt: skip
            return time.process_time() - started

        steps[path] = step
    return steps, lambda: count.repeated / count.forwarded


# -- steps of the trainer --------------------------------------------------------------------------


class _StepTimes(TrainerCallback):
    """CPU seconds of each optimizer step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.started = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.process_time() - self.started)


def _given(trainer: type, case: Case, ids: Tensor, count: dict[str, int]) -> type:
    """The trainer with completions that are given: what `_generate_and_score_completions` makes."""

    class Given(trainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            completion = ids[:, case.prompt :]
            return {
                "prompt_ids": ids[:, : case.prompt],
                "prompt_mask": torch.ones_like(ids[:, : case.prompt]),
                "completion_ids": completion,
                "completion_mask": torch.ones_like(completion),
                "advantages": torch.linspace(-1.0, 1.0, len(ids)),
                "num_items_in_batch": torch.tensor(completion.numel()),
            }

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            loss = super().compute_loss(*args, **kwargs)
            shared = getattr(self, "_shared_tokens", None)
            # Of a prompt that is kept, tokens are counted until its last micro-batch has come.
            if shared is not None and not self._prompt_is_kept:
                count["forwarded"] += shared.forwarded
                count["repeated"] += shared.repeated
            return loss

    return Given


def _steps_of_trainer(
    case: Case, folder: Path
) -> tuple[dict[str, Callable[[], float]], Callable[[], float]]:
    from memlint_runtime.trl import GRPOTrainer
    from trl import GRPOConfig
    from trl import GRPOTrainer as TrlGRPOTrainer

    from tests.runtime.shared_prompt.training import prompts, tokenizer

    torch.manual_seed(0)
    groups = 3 if case.group % case.rows_at_once else 1
    one, _, _ = rows_of(case)
    ids = torch.cat([(one + 7 * group) % VOCABULARY for group in range(groups)])
    count = {"forwarded": 0, "repeated": 0}
    steps: dict[str, Callable[[], float]] = {}
    for path, trainer in (("trl", TrlGRPOTrainer), ("ours", GRPOTrainer)):
        times = _StepTimes()
        args = GRPOConfig(
            output_dir=str(folder / path), max_steps=1, num_generations=case.group,
            per_device_train_batch_size=case.rows_at_once,
            gradient_accumulation_steps=len(ids) // case.rows_at_once,
            max_completion_length=case.completion, report_to=[], save_strategy="no",
            use_cpu=True, bf16=False, disable_tqdm=True, logging_strategy="no",
            learning_rate=1e-5, gradient_checkpointing_kwargs={"use_reentrant": False},
        )  # fmt: skip
        made = _given(trainer, case, ids, count)(
            model=_model_of(case.model), reward_funcs=lambda **_: [], args=args,
            processing_class=tokenizer(), train_dataset=prompts(), callbacks=[times],
        )  # fmt: skip

        made.remove_callback(PrinterCallback)

        def step(made: Any = made, times: _StepTimes = times) -> float:
            made.train()
            return times.seconds[-1]

        steps[path] = step
    return steps, lambda: count["repeated"] / count["forwarded"]


# -- the table -------------------------------------------------------------------------------------


def timed(case: Case, rounds: int = ROUNDS) -> Timed:
    """Both paths in turn, `rounds` times after a first that is not counted."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        steps, rho = (
            _steps_of_trainer(case, Path(name)) if case.rows_at_once else _steps_of_forward(case)
        )
        for step in steps.values():
            step()
        taken: dict[str, list[float]] = {path: [] for path in steps}
        for turn in range(rounds):
            # Neither path always runs in the caches that the other left.
            for path in ("trl", "ours") if turn % 2 else ("ours", "trl"):
                taken[path].append(steps[path]())
    ratios = tuple(a / b for a, b in zip(taken["trl"], taken["ours"], strict=True))
    return Timed(
        case, rho(), statistics.median(taken["trl"]), statistics.median(taken["ours"]), ratios
    )


def print_table(only: str = "", rounds: int = ROUNDS) -> None:
    """One line a case whose name holds `only`."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| case | shape | rho | TRL s | ours s | times faster | half of them | share of rho | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in CASES:
        if only in case.name:
            one = timed(case, rounds)
            low, high = one.middle_half
            print(
                f"| {case.name} | {_shape(case)} | {one.rho:.2f} | {one.trl_s:.3f} "
                f"| {one.ours_s:.3f} | {one.ratio:.2f} | {low:.2f} to {high:.2f} "
                f"| {one.share_of_rho:.2f} | {'' if one.passes else 'below'} |",
                flush=True,
            )


def _shape(case: Case) -> str:
    if case.tree:
        return f"depth {case.depth}, {case.segment} a node"
    budget = f", budget {case.token_budget}" if case.token_budget else ""
    return f"{case.prompt}/{case.completion}/{case.group}{budget}"
