"""Streamed training equals resident training bit for bit: the whole cross product, as a table.

    python -m tests.streaming_exact [--part 1/4] [--share 200 --seed 0] [--only TEXT] [--steps 10]
    python -m tests.streaming_exact --sizes

A cell trains one tiny model resident, then streamed with copies at the last moment and with copies
at once, buffers poisoned when they are freed, and compares each loss and each gradient. `--sizes`
does so with two blocks of Llama-3.1's 8B and 70B at full width in bf16 (6 GB of memory). A cell
that a resident model refuses too (shared prompts, for some architectures) counts as refused.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from memlint_runtime import (
    fuse_causal_lm_loss,
    offload_activations,
    shared_prompt_logprobs,
    stream_frozen_weights,
)
from memlint_runtime.streaming import blocks
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from tests.runtime.streaming.schedulers import SCHEDULERS
from tests.runtime.streaming.training import FAMILIES, VOCABULARY, Case, Run, adapted

OBJECTIVES = ("logits", "fused", "dpo", "fused dpo", "grpo")
CHECKPOINTING = ("none", "non-reentrant", "reentrant")
WITHOUT_DROPOUT = {"gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One combination."""

    family: str
    objective: str
    dora: bool
    checkpointing: str
    accumulate: int
    offload: bool
    tied: bool

    def __str__(self) -> str:
        parts = [self.family, self.objective, "DoRA" if self.dora else "LoRA", self.checkpointing]
        parts += [f"x{self.accumulate}", "offload" if self.offload else ""]
        return " ".join([*filter(None, parts), "tied" if self.tied else "untied"])

    def case(self) -> Case:
        changes: dict[str, Any] = {"tie_word_embeddings": self.tied}
        if self.objective == "grpo":
            changes |= WITHOUT_DROPOUT.get(self.family, {})
        return Case(
            self.family,
            dora=self.dora,
            checkpointing=self.checkpointing,
            accumulate=self.accumulate,
            offload=self.offload,
            fused="fused" in self.objective,
            changes=changes,
        )


CELLS = [
    Cell(*values)
    for values in itertools.product(
        FAMILIES, OBJECTIVES, (False, True), CHECKPOINTING, (1, 2), (False, True), (False, True)
    )
]


def sample(count: int, seed: int) -> list[Cell]:
    """Cells by chance, each family as often as the others, none twice."""
    draw = random.Random(seed)
    by_family = {name: [cell for cell in CELLS if cell.family == name] for name in FAMILIES}
    for cells in by_family.values():
        draw.shuffle(cells)
    turns = itertools.chain.from_iterable(zip(*by_family.values(), strict=True))
    return list(itertools.islice(turns, count))


# -- one cell ----------------------------------------------------------------------------------


def compare(cell: Cell, steps: int) -> str | None:
    """Train resident and streamed; returns a resident model's refusal, if there is one.

    Raises AssertionError where a loss or a gradient differs.
    """
    case = cell.case()
    try:
        expected = _train(_model(case, None), cell, steps)
    except ValueError as error:
        return str(error)
    _check_counts(expected, steps, cell.accumulate)
    for copies in SCHEDULERS.values():
        with poisoned():
            model = _model(case, copies())
            assert_equal(expected, _train(model, cell, steps))
    return None


def _model(case: Case, copies: Any) -> Any:
    model = adapted(case)
    if case.fused:
        fuse_causal_lm_loss(model)
    if copies is not None:
        stream_frozen_weights(model, copies=copies, min_bytes=256)
    return model


def _train(model: Any, cell: Cell, steps: int) -> Run:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    draw = torch.Generator().manual_seed(2)
    offload: Any = contextlib.nullcontext()
    if cell.offload:
        offload = offload_activations(model, device="cpu", min_bytes=256)
    loss_of = LOSSES[cell.objective.split()[-1]]
    run = Run([], [])
    for step in range(steps):
        torch.manual_seed(step)  # for dropout
        for _ in range(cell.accumulate):
            loss = loss_of(model, draw, offload) / cell.accumulate
            loss.backward()
            run.losses.append(loss.detach())
        run.gradients.append([p.grad.clone() for p in trained if p.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
    return run


def _ids(draw: torch.Generator, rows: int, length: int) -> Tensor:
    return torch.randint(3, VOCABULARY, (rows, length), generator=draw)


def _causal_loss(model: Any, draw: torch.Generator, offload: Any) -> Tensor:
    ids = _ids(draw, 2, 12)
    with offload:
        loss: Tensor = model(input_ids=ids, labels=ids, use_cache=False).loss
    return loss


def _dpo_loss(model: Any, draw: torch.Generator, offload: Any) -> Tensor:
    """The reference is the base without its adapter; rows are the chosen, then the rejected."""
    ids = _ids(draw, 4, 10)
    with torch.no_grad(), model.disable_adapter():
        reference = _row_logprobs(model, ids)
    with offload:
        policy = _row_logprobs(model, ids)
    chosen, rejected = (policy - reference).chunk(2)
    return -torch.nn.functional.logsigmoid(0.5 * (chosen - rejected)).mean()


def _row_logprobs(model: Any, ids: Tensor) -> Tensor:
    """`[rows]`. A fused model gives the mean over a row's tokens as its loss."""
    return torch.stack(
        [-model(input_ids=row[None], labels=row[None], use_cache=False).loss for row in ids]
    )


def _grpo_loss(model: Any, draw: torch.Generator, offload: Any) -> Tensor:
    """Two prompts, three completions each; old log-probabilities from the base."""
    prompts = _ids(draw, 2, 6).repeat_interleave(3, 0)
    completions = _ids(draw, 6, 5)
    rows = (prompts, torch.ones_like(prompts), completions, torch.ones_like(completions))
    with torch.no_grad(), model.disable_adapter():
        old = shared_prompt_logprobs(model, *rows)
    with offload:
        new = shared_prompt_logprobs(model, *rows)
    advantage = torch.linspace(-1, 1, 6)[:, None]
    ratio = (new - old).exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()


LOSSES: dict[str, Callable[[Any, torch.Generator, Any], Tensor]] = {
    "logits": _causal_loss,
    "fused": _causal_loss,
    "dpo": _dpo_loss,
    "grpo": _grpo_loss,
}


@contextlib.contextmanager
def poisoned() -> Iterator[None]:
    """Freed and fresh buffers hold rubbish: whoever reads them too late or too early shows it."""
    resize = blocks._resize

    def poison(flat: Tensor, num_bytes: int) -> None:
        if num_bytes == 0:
            Tensor.fill_(flat, 0xFF)
        resize(flat, num_bytes)
        if num_bytes:
            Tensor.fill_(flat, 0xFF)

    blocks._resize = poison
    try:
        yield
    finally:
        blocks._resize = resize


def _check_counts(run: Run, steps: int, accumulate: int) -> None:
    assert len(run.losses) == steps * accumulate
    assert len(run.gradients) == steps
    assert all(len(gradients) > 0 for gradients in run.gradients)
    assert any(gradient.abs().sum() > 0 for gradient in run.gradients[-1])
    assert all(torch.isfinite(loss) for loss in run.losses)


def assert_equal(expected: Run, found: Run) -> None:
    """Bit for bit, every step."""
    for number, (one, other) in enumerate(zip(expected.losses, found.losses, strict=True)):
        assert torch.equal(one, other), f"loss {number}: {one.item()!r} and {other.item()!r}"
    for step, (ones, others) in enumerate(zip(expected.gradients, found.gradients, strict=True)):
        for place, (one, other) in enumerate(zip(ones, others, strict=True)):
            assert torch.equal(one, other), f"gradient {place} of step {step} differs"


# -- blocks of real size -----------------------------------------------------------------------

WIDTHS = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32},
    "70B": {"hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64},
}


def compare_size(width: str, scheduler: str, steps: int, tokens: int = 8) -> int:
    """Two blocks, one buffer of 0.4 or 1.7 GB, so that each takes the other's place while views of
    it are in use. Returns how often a block was fetched."""
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(r=8, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    torch.manual_seed(1)
    model: Any = get_peft_model(wide_model(width), lora)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    start = [parameter.detach().clone() for parameter in trained]
    expected = _train_wide(model, steps, tokens)
    for parameter, values in zip(trained, start, strict=True):
        parameter.data.copy_(values)
    streamed = stream_frozen_weights(model, copies=SCHEDULERS[scheduler](), buffers=1)
    with poisoned():
        assert_equal(expected, _train_wide(model, steps, tokens))
    assert len(streamed.blocks) >= 2
    return streamed.ring.fetches


def _train_wide(model: Any, steps: int, tokens: int) -> Run:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    run = Run([], [])
    draw = torch.Generator().manual_seed(3)
    for _ in range(steps):
        ids = torch.randint(0, 256, (1, tokens), generator=draw)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        run.losses.append(loss.detach())
        run.gradients.append([p.grad.clone() for p in trained if p.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
    return run


def wide_model(width: str) -> Any:
    """Two layers in bf16 at full width, a small vocabulary."""
    from accelerate import init_empty_weights

    config = LlamaConfig(
        **WIDTHS[width], num_hidden_layers=2, num_key_value_heads=8, vocab_size=256
    )
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        torch.manual_seed(0)
        with init_empty_weights():
            model: Any = LlamaForCausalLM(config)
        model.to_empty(device="cpu")
        # Drawing normal numbers takes longer than training: a short row of them, repeated.
        draw = torch.randn(65521) * 0.02
        for parameter in model.parameters():
            count = parameter.numel()
            repeated = draw.repeat(-(-count // draw.numel()))[:count].view(parameter.shape)
            parameter.data.copy_(repeated if parameter.dim() > 1 else torch.ones(count))
        model.model.rotary_emb = LlamaRotaryEmbedding(config)
    finally:
        torch.set_default_dtype(previous)
    return model.train()


# -- the command -------------------------------------------------------------------------------


def run_cells(cells: list[Cell], steps: int) -> int:
    """Print a line for each failure, then the table; returns the number of failures."""
    equal: Counter[tuple[str, str]] = Counter()
    refused: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    reasons: dict[str, str] = {}
    start = time.perf_counter()
    for number, cell in enumerate(cells):
        key = cell.family, cell.objective
        try:
            reason = compare(cell, steps)
        except Exception as error:
            failed[key] += 1
            print(f"DIFFERS {cell}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        equal[key] += reason is None
        refused[key] += reason is not None
        if reason is not None:
            reasons.setdefault(cell.family, reason)
        if number % 50 == 49:
            seconds = time.perf_counter() - start
            print(f"{number + 1} of {len(cells)} cells, {seconds:.0f} s", flush=True)
    print(f"\nbit-equal cells of {steps} steps, each with both schedulers (f: failed, r: refused)")
    print(f"{'architecture':14}" + "".join(f"{name:>14}" for name in OBJECTIVES))
    for family in FAMILIES:
        row = ""
        for objective in OBJECTIVES:
            key = family, objective
            text = str(equal[key])
            text += f" {failed[key]}f" if failed[key] else ""
            text += f" {refused[key]}r" if refused[key] else ""
            row += f"{text:>14}"
        print(f"{family:14}{row}")
    for family, reason in reasons.items():
        print(f"refused, resident too: {family}: {reason}")
    bad = sum(failed.values())
    good, seconds = sum(equal.values()), time.perf_counter() - start
    print(f"{good} equal, {sum(refused.values())} refused, {bad} failed, {seconds:.0f} s")
    return bad


def run_sizes(steps: int) -> int:
    """Blocks of real size under both schedulers."""
    failures = 0
    print(f"two blocks at full width, bf16, one buffer, {steps} steps")
    for width, scheduler in itertools.product(WIDTHS, SCHEDULERS):
        start = time.perf_counter()
        try:
            fetches = compare_size(width, scheduler, steps)
            outcome = f"bit-equal, {fetches} blocks fetched"
        except Exception as error:
            failures += 1
            outcome = f"DIFFERS {type(error).__name__}: {str(error)[:200]}"
        seconds = time.perf_counter() - start
        print(f"{width:6}{scheduler:22}{outcome}, {seconds:.0f} s", flush=True)
    return failures


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.streaming_exact", description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--part", metavar="I/N", default="1/1", help="each Nth cell, from the Ith")
    parser.add_argument("--share", type=int, metavar="COUNT", help="so many cells, by chance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="TEXT", help="cells whose name contains TEXT")
    parser.add_argument("--sizes", action="store_true", help="blocks of real size instead")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    if options.sizes:
        return 1 if run_sizes(options.steps) else 0
    cells = CELLS if options.share is None else sample(options.share, options.seed)
    part, parts = map(int, options.part.split("/"))
    cells = cells[part - 1 :: parts]
    if options.only is not None:
        cells = [cell for cell in cells if options.only in str(cell)]
    return 1 if run_cells(cells, options.steps) else 0


if __name__ == "__main__":
    sys.exit(main())
