"""Step time and peak memory of shared prompts against trl's own path, and against rho.

Each case is one group: forward and backward of the scoring that TRL's GRPO loss asks for, weights
in bfloat16 at random, checkpointed, the fused head included. `trl` is trl 1.16's own forward,
`ours` the same call after `share_prompts`. Both run in one process in turn; the median of a few.
Peaks are what the step adds to the weights. A path that does not fit is recorded as such.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

import torch
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.trl.forward import TokenCount, share_prompts
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config, Qwen3Config
from trl.trainer.utils import add_fused_lm_head

from tests.bench.shared_prompt import QWEN_7B, labels_of, rows_of
from tests.gpu.harness import Result, Step
from tests.gpu.offload_models import repeats_for

SHAPES: dict[str, Any] = {
    "4b": lambda: Qwen3Config(
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        max_position_embeddings=40960,
        tie_word_embeddings=True,
    ),
    "7b": lambda: Qwen2Config(**QWEN_7B),
}
CASES = ((4096, 256, 8), (1024, 1024, 8), (16384, 64, 8), (16384, 1024, 8), (512, 512, 8))
TO_REACH = {(4096, 256, 8): 0.90, (16384, 64, 8): 0.95}


def model_of(shape: str, *, lora: bool) -> tuple[nn.Module, PreTrainedModel]:
    with torch.device("cuda"):
        inside: PreTrainedModel = AutoModelForCausalLM.from_config(
            SHAPES[shape](), dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    enable = getattr(inside, "activation_checkpointing_enable", None)
    (enable or inside.gradient_checkpointing_enable)({"use_reentrant": False})
    add_fused_lm_head(inside, outputs=("log_probs", "entropy"))
    model: nn.Module = inside
    if lora:
        from peft import LoraConfig, get_peft_model

        adapters = LoraConfig(r=16, target_modules="all-linear", lora_dropout=0.0)
        model = get_peft_model(inside, adapters)
        inside.enable_input_require_grads()
    return model.train(), inside


def measured(
    model: nn.Module, prompts: int, prompt: int, completion: int, group: int
) -> dict[str, Any]:
    """Median seconds of a step and GiB that it adds, or that it does not fit."""
    ids = rows_of(prompts, group, prompt, completion, 150_000).cuda()
    labels, mask = labels_of(ids, prompt), torch.ones_like(ids)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        out = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
        (out.log_probs.sum() + 0.01 * out.entropy.sum()).backward()

    try:
        step()
        model.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        rounds = repeats_for(time.perf_counter() - begin)
        peak = torch.cuda.max_memory_allocated() - before
        gradients = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        taken = []
        for _ in range(rounds):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step()
            end.record()
            torch.cuda.synchronize()
            taken.append(start.elapsed_time(end) / 1000)
        return {
            "seconds": round(statistics.median(taken), 4),
            "peak_gib": round(peak / 2**30, 2),
            "peak_without_gradients_gib": round((peak - gradients) / 2**30, 2),
        }
    except torch.cuda.OutOfMemoryError:
        return {"out_of_memory": True}
    finally:
        model.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()


def compare(shape: str, *, lora: bool, cases: tuple[tuple[int, int, int], ...]) -> Result:
    model, inside = model_of(shape, lora=lora)
    plain = inside.forward
    count = TokenCount()
    share_prompts(inside, Sharing(), count)
    shared = inside.forward
    result: Result = {}
    for prompt, completion, group in cases:
        found: dict[str, Any] = {}
        for name, forward in (("trl", plain), ("ours", shared)):
            inside.forward = forward
            count.forwarded = count.repeated = 0
            found[name] = measured(model, 1, prompt, completion, group)
        rho = count.repeated / max(count.forwarded, 1)
        found["rho"] = round(rho, 3)
        if "seconds" in found["trl"] and "seconds" in found["ours"]:
            faster = found["trl"]["seconds"] / found["ours"]["seconds"]
            found["times_faster"] = round(faster, 2)
            found["share_of_rho"] = round(faster / rho, 3)
            found["share_to_reach"] = TO_REACH.get((prompt, completion, group))
            less = (
                found["trl"]["peak_without_gradients_gib"]
                / found["ours"]["peak_without_gradients_gib"]
            )
            found["times_less_memory"] = round(less, 2)
            found["peak_over_its_limit"] = round(rho / less, 3)
        result[f"P{prompt} C{completion} G{group}"] = found
    return result


def eight_groups_of_sixteen() -> Result:
    """Eight prompts of 5,000 tokens with 16 completions of 256 each, 7B with LoRA, at once."""
    model, inside = model_of("7b", lora=True)
    share_prompts(inside, Sharing(), TokenCount())
    found = measured(model, 8, 5000, 256, 16)
    found["weights_gib"] = round(torch.cuda.memory_allocated() / 2**30, 2)
    if "out_of_memory" in found:
        raise AssertionError(f"does not fit: {found}")
    return dict(found)


def _step(shape: str, lora: bool, part: str, cases: tuple[tuple[int, int, int], ...]) -> Step:
    name = f"shared_prompt_{shape}_{'lora' if lora else 'full'}_{part}"
    return Step(name, lambda: compare(shape, lora=lora, cases=cases), 9.0)


STEPS = (
    *(
        _step(shape, lora, part, cases)
        for shape in SHAPES
        for lora in (True, False)
        for part, cases in (
            ("short", (CASES[0], CASES[1], CASES[4])),
            ("16k_64", (CASES[2],)),
            ("16k_1024", (CASES[3],)),
        )
    ),
    Step("shared_prompt_7b_eight_groups_of_sixteen", eight_groups_of_sixteen, 6.0),
)
