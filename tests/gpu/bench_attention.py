"""Time and memory of one attention layer and of a training step: padded, dense mask, documents.

Shapes are Qwen2.5-7B's attention (28 query heads, 4 key/value heads of 128) and Qwen2.5-0.5B's
model, random weights, bf16. Documents have log-normal lengths (mu 6, sigma 0.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from memlint_runtime import PaddingFreeCollator, use_variable_length_attention
from memlint_runtime.attention import attend_documents, documents_of_lengths
from memlint_runtime.attention.forest import DocumentForest
from memlint_runtime.attention.kernels.flex import attend_flex, forest_block_mask
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, Qwen2Config

from tests.gpu.correctness_attention import batched, visible
from tests.gpu.harness import Result, Step

QUERY_HEADS, KEY_HEADS, HEAD_DIM = 28, 4, 128
TOKENS = (512, 2048, 8192, 32768)

QWEN_HALF_B: dict[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}


def drawn_lengths(tokens: int) -> tuple[int, ...]:
    """Lengths that add up to ``tokens``; the last document is cut."""
    drawn = np.random.default_rng(0).lognormal(6, 0.8, tokens).astype(int).clip(1)
    ends = np.minimum(drawn.cumsum(), tokens)
    lengths = np.diff(ends, prepend=0)
    return tuple(lengths[lengths > 0].tolist())


def timed(run: Callable[[], object], device: str, repeats: int = 10) -> Result:
    """Median milliseconds and peak GiB above what was allocated before."""
    for _ in range(3):
        run()
    if device != "cuda":
        return {"ms": None, "peak_gib": None}
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    peak = (torch.cuda.max_memory_allocated() - before) / 2**30
    return {"ms": round(float(np.median(times)), 3), "peak_gib": round(peak, 3)}


def attention_layer(device: str, tokens: int) -> Result:
    """Forward and backward of one attention call over the same documents, four ways."""
    lengths = drawn_lengths(tokens)
    docs = documents_of_lengths(lengths, device)
    leaves = [
        torch.randn(tokens, h, HEAD_DIM, device=device, dtype=torch.bfloat16, requires_grad=True)
        for h in (QUERY_HEADS, KEY_HEADS, KEY_HEADS)
    ]
    rows = [
        pad_sequence(list(x.detach().split(lengths)), batch_first=True)
        .transpose(1, 2)
        .contiguous()
        .requires_grad_()
        for x in leaves
    ]
    groups = QUERY_HEADS // KEY_HEADS

    def sdpa_masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        # As transformers does where there is a mask: keys and values repeated.
        k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
        return scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def padded() -> Tensor:
        slots = max(lengths)
        real = torch.arange(slots, device=device) < torch.tensor(lengths, device=device)[:, None]
        mask = visible((slots,), None, device)[None, None] & real[:, None, None]
        return sdpa_masked(rows[0], rows[1], rows[2], mask)

    def dense() -> Tensor:
        mask = visible(lengths, None, device)[None, None]
        return sdpa_masked(*map(batched, leaves), mask)

    def ours() -> Tensor:
        return attend_documents(
            *leaves, docs.cu_seqlens, docs.max_length, scale=HEAD_DIM**-0.5, lengths=lengths
        )

    def flex() -> Tensor:
        forest = DocumentForest(docs.cu_seqlens, tokens, docs.max_length)
        mask = forest_block_mask(forest, torch.device(device))
        return attend_flex(*leaves, mask, scale=HEAD_DIM**-0.5)

    results: Result = {"documents": len(lengths), "padded_slots": len(lengths) * max(lengths)}
    ways = {"padded": padded, "dense_mask": dense, "ours": ours}
    if device == "cuda":
        ways["flex"] = flex
    for name, way in ways.items():

        def step(way: Callable[[], Tensor] = way) -> None:
            out = way()
            out.backward(torch.ones_like(out))
            for leaf in (*leaves, *rows):
                leaf.grad = None

        try:
            results[name] = timed(step, device)
        except torch.OutOfMemoryError:
            results[name] = "out of memory"
            torch.cuda.empty_cache()
    return results


def training_step(device: str, tokens: int, **smaller: Any) -> Result:
    """Forward and backward of the whole model, checkpointed, the same documents three ways."""
    lengths = drawn_lengths(tokens)
    config = Qwen2Config(**{**QWEN_HALF_B, **smaller})
    ids = [torch.randint(3, config.vocab_size, (n,)) for n in lengths]
    flat = PaddingFreeCollator()([{"input_ids": x} for x in ids])
    padded = {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(x) for x in ids], batch_first=True),
    }
    packed = {name: flat[name] for name in ("input_ids", "position_ids")}
    results: Result = {"documents": len(lengths)}
    for name, batch in (("padded", padded), ("dense_mask", packed), ("ours", flat)):
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(
                config, dtype=torch.bfloat16, attn_implementation="sdpa"
            ).train()
        enable = "activation_checkpointing_enable"
        getattr(model, enable if hasattr(model, enable) else "gradient_checkpointing_enable")(
            {"use_reentrant": False}
        )
        if name == "ours":
            use_variable_length_attention(model)
        moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in batch.items()}
        moved.pop("labels", None)

        def step(model: Any = model, moved: dict[str, Any] = moved) -> None:
            # The trunk alone: the head's logits would cover what attention costs.
            model.model(**moved, use_cache=False).last_hidden_state.sum().backward()
            model.zero_grad()

        try:
            timing = timed(step, device, repeats=5)
            results[name] = timing
        except torch.OutOfMemoryError:
            results[name] = "out of memory"
        del model, step
        if device == "cuda":
            torch.cuda.empty_cache()
    return results


STEPS = (
    *(
        Step(f"attention_layer_{n}", lambda n=n: attention_layer("cuda", n), minutes=4)  # type: ignore[misc]
        for n in TOKENS
    ),
    *(
        Step(f"padding_free_step_{n}", lambda n=n: training_step("cuda", n), minutes=5)  # type: ignore[misc]
        for n in TOKENS
    ),
)
