"""GPUs of the rooflines: what their makers promise, and the shares of it that runs have reached."""

from __future__ import annotations

from dataclasses import dataclass, replace

LAUNCH_SECONDS = 4e-6


@dataclass(frozen=True)
class Gpu:
    """Dense bf16 peak, the memory's rate, and the shares of them that a launch is given."""

    name: str
    capability: int
    flops: float
    bytes_per_second: float
    library: float = 1.0
    kernel: float = 1.0
    memory: float = 1.0
    attention: float = 1.0
    attention_backward: float = 1.0

    def seconds(self, flops: float, moved: float, *, in_kernel: bool = False) -> float:
        """One launch; `in_kernel`: its matmul is part of a Triton kernel."""
        share = self.kernel if in_kernel else self.library
        arithmetic = flops / (self.flops * share)
        return max(arithmetic, moved / (self.bytes_per_second * self.memory), LAUNCH_SECONDS)

    def attention_seconds(self, flops: float, moved: float, *, backward: bool = False) -> float:
        """One launch of a flash kernel."""
        share = self.attention_backward if backward else self.attention
        arithmetic = flops / (self.flops * share)
        return max(arithmetic, moved / (self.bytes_per_second * self.memory), LAUNCH_SECONDS)


GPUS = (
    Gpu("A100", 80, 312e12, 2.04e12), Gpu("H100", 90, 989e12, 3.35e12),
    Gpu("B200", 100, 2250e12, 8e12),
)  # fmt: skip
# cuBLAS: an MLP's three matmuls over 32,768 tokens (4,096 x 11,008; Liger's benchmark, plain, A100:
# 36.3 ms with 10 bytes an entry in between) and over 8,192 (4,096 x 14,336, B200: 2.15 ms). Of the
# H100 none is known without other work in it: the A100's. Triton: cut-cross-entropy's forward,
# Gemma-2 2B, A100: 46.4 ms. On the others in proportion to cuBLAS. Memory: Liger's cross entropy
# over 16,384 x 131,072 in place, three passes, A100: 15.0 ms.
TRITON = 9.66e12 / 46.4e-3 / 312e12
CUBLAS = {
    "A100": 8.866e12 / (36.3e-3 - 3.61e9 / (0.86 * 2.04e12)) / 312e12,
    "B200": 2.886e12 / (2.147e-3 - 1.17e9 / (0.86 * 8e12)) / 2250e12,
}
CUBLAS["H100"] = CUBLAS["A100"]
MEMORY = 0.86
# PyTorch's flash kernels are FlashAttention-2. On an A100 it reaches 0.72 of the peak forward and
# 0.63 backward (Dao 2023), on an H100 370 of 989 TFLOP/s forward at head dimension 128 (Shah et
# al., FlashAttention-3, 2024); backward is taken in the A100's proportion. Of the B200 no number
# is known: the H100's.
ATTENTION = {"A100": (0.72, 0.63), "H100": (0.37, 0.33), "B200": (0.37, 0.33)}
MEASURED_GPUS = tuple(
    replace(
        gpu,
        library=CUBLAS[gpu.name],
        kernel=CUBLAS[gpu.name] * TRITON / CUBLAS["A100"],
        memory=MEMORY,
        attention=ATTENTION[gpu.name][0],
        attention_backward=ATTENTION[gpu.name][1],
    )
    for gpu in GPUS
)
