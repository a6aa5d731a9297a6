"""Peak memory of a packed step on a 7B shape, by fakes: transformers' sdpa against ours.

    python -m tests.bench.packed_attention [--rows 4] [--row-tokens 8192]

Qwen2.5-7B's shape in bf16, the trunk alone (what the head costs depends on the loss), checkpointed,
forward and backward, documents of log-normal length packed into full rows and flattened into one
row of rows x row-tokens, as padding-free collators do. Nothing is allocated and nothing is timed.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import torch
from memlint_runtime import plan_packing, use_variable_length_attention
from memlint_runtime.fake_memory import track_memory
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, Qwen2Config

QWEN_7B: dict[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "use_sliding_window": False,
}


class Largest(TorchDispatchMode):
    """The most elements of any tensor that an operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0
        self.shape: tuple[int, ...] = ()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.numel() > self.elements:
                self.elements, self.shape = leaf.numel(), tuple(leaf.shape)
        return result


def packed_lengths(rows: int, row_tokens: int) -> list[int]:
    drawn = np.random.default_rng(0).lognormal(6, 0.8, 4000).astype(np.int64)
    plan = plan_packing(np.clip(drawn, 1, row_tokens), row_tokens)
    full = np.flatnonzero(plan.bin_lengths() == row_tokens)
    # Not the first, which hold the longest documents.
    chosen = full[len(full) // 2 :][:rows]
    return [
        int(length)
        for index in chosen
        for length in plan.lengths[plan.offsets[index] : plan.offsets[index + 1]]
    ]


def measure(lengths: list[int], *, ours: bool) -> dict[str, Any]:
    tokens = sum(lengths)
    with FakeTensorMode(allow_non_fake_inputs=True), track_memory() as tracker:
        config = Qwen2Config(**QWEN_7B)
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        ).train()
        name = "activation_checkpointing_enable"
        getattr(model, name if hasattr(model, name) else "gradient_checkpointing_enable")(
            {"use_reentrant": False}
        )
        batch: dict[str, Any] = {
            "input_ids": torch.zeros(1, tokens, dtype=torch.long),
            "position_ids": torch.zeros(1, tokens, dtype=torch.long),
            "use_cache": False,
        }
        if ours:
            use_variable_length_attention(model)
            batch["document_lengths"] = tuple(lengths)
        with Largest() as largest:
            model.model(**batch).last_hidden_state.sum().backward()
    return {"peak": tracker.peak, "largest": largest.shape}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--row-tokens", type=int, default=8192)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lengths = packed_lengths(options.rows, options.row_tokens)
    tokens = sum(lengths)
    print(f"T = {tokens} tokens, {len(lengths)} documents, T x T = {tokens**2:,} elements")
    for name, ours in (("transformers sdpa", False), ("variable-length", True)):
        result = measure(lengths, ours=ours)
        peak = result["peak"]
        print(
            f"{name:18} activations {peak.activations / 2**30:6.2f} GiB, temporaries "
            f"{peak.temporaries / 2**30:6.2f} GiB, total {peak.total / 2**30:6.2f} GiB; largest "
            f"tensor {result['largest']}"
        )


if __name__ == "__main__":
    main()
