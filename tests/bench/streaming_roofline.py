"""When streaming a frozen base costs nothing: tokens a second by model, GPU and length.

Run: python -m tests.bench.streaming_roofline [--quantization nf4]

A roofline (see `memlint_runtime.streaming.planning`), not a measurement: half of the dense peak for
the computation, pinned copies at the rate of the bus.
"""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

from memlint_runtime import plan_streaming

LENGTHS = (512, 4096, 16384)
GPUS = ("RTX 4090", "A100", "H100")
MODELS: dict[str, Any] = {
    "8B": SimpleNamespace(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256,
    ),
    "32B": SimpleNamespace(
        hidden_size=5120, intermediate_size=25600, num_hidden_layers=64, num_attention_heads=64,
        num_key_value_heads=8, head_dim=128, vocab_size=151936,
    ),
    "70B": SimpleNamespace(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
        num_key_value_heads=8, vocab_size=128256,
    ),
}  # fmt: skip


def break_even(config: Any, gpu: str, quantization: Any) -> int:
    """The fewest tokens (a multiple of 64) from which streaming costs less than 5 %."""
    low, high = 0, 2**20 // 64
    while high - low > 1:
        middle = (low + high) // 2
        plan = plan_streaming(config, gpu, tokens=64 * middle, quantization=quantization)
        low, high = (low, middle) if plan.slowdown < 1.05 else (middle, high)
    return 64 * high


def rows(quantization: Any) -> list[tuple[str, ...]]:
    """Model, GPU, then tokens a second (times the resident time) by length, and the break-even."""
    found = []
    for name, config in MODELS.items():
        for gpu in GPUS:
            cells = []
            for tokens in LENGTHS:
                plan = plan_streaming(config, gpu, tokens=tokens, quantization=quantization)
                cells.append(f"{plan.tokens_per_second:,.0f} ({plan.slowdown:.2f}x)")
            even = break_even(config, gpu, quantization)
            found.append((name, gpu, *cells, f"{even:,}"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quantization", choices=["nf4", "int8", "none"])
    args = parser.parse_args()
    kinds = ("none", "nf4") if args.quantization is None else (args.quantization,)
    for kind in kinds:
        print(
            f"\nblocks in {'bf16' if kind == 'none' else kind}; tokens/s (times the resident step)"
        )
        heads = ("model", "GPU", *(f"{length} tokens" for length in LENGTHS), "under 5 % from")
        for row in (heads, *rows(None if kind == "none" else kind)):
            print("{:6}{:10}{:>19}{:>19}{:>19}{:>17}".format(*row))


if __name__ == "__main__":
    main()
