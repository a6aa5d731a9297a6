"""Snapshots as torch writes them, without a GPU: the events of training steps, made by hand.

Structure: ``torch/cuda/_memory_viz.py`` and ``torch/csrc/cuda/Module.cpp`` of torch 2.13.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MIB = 2**20
SITE = "/env/lib/python3.11/site-packages"


def frame(name: str, line: int, function: str) -> dict[str, Any]:
    return {"filename": name, "line": line, "name": function}


LOAD = [
    frame(f"{SITE}/transformers/modeling_utils.py", 4100, "_load_state_dict_into_model"),
    frame(f"{SITE}/transformers/modeling_utils.py", 4000, "from_pretrained"),
    frame("/home/u/train.py", 12, "<module>"),
]
MLP = [
    frame(f"{SITE}/torch/nn/modules/linear.py", 125, "forward"),
    frame(f"{SITE}/transformers/models/llama/modeling_llama.py", 180, "forward"),
    frame("/home/u/train.py", 30, "step"),
]
LOSS = [
    frame(f"{SITE}/torch/nn/functional.py", 3104, "cross_entropy"),
    frame(f"{SITE}/transformers/loss/loss_utils.py", 36, "fixed_cross_entropy"),
    frame("/home/u/train.py", 30, "step"),
]
BACKWARD = [
    frame(f"{SITE}/torch/autograd/graph.py", 824, "_engine_run_backward"),
    frame(f"{SITE}/torch/_tensor.py", 581, "backward"),
    frame("/home/u/train.py", 31, "step"),
]
ADAM = [
    frame(f"{SITE}/torch/optim/adamw.py", 150, "_init_group"),
    frame(f"{SITE}/torch/optim/adamw.py", 220, "step"),
    frame("/home/u/train.py", 32, "step"),
]


class Recorded:
    """A GPU that records. segments: bytes that are reserved, whole."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, Any]] = {}
        self.next = 0x7F0000000000
        self.reserved = 0

    def event(self, action: str, address: int, size: int, frames: Any) -> None:
        values = {"action": action, "addr": address, "size": size, "stream": 0}
        self.events.append(values | {"time_us": 1000 + len(self.events), "frames": frames})

    def reserve(self, size: int) -> None:
        self.reserved += size
        self.event("segment_alloc", self.next, size, [])

    def alloc(self, size: int, frames: Any) -> int:
        self.next += size
        self.live[self.next] = size, frames
        self.event("alloc", self.next, size, frames)
        return self.next

    def free(self, address: int, frames: Any) -> None:
        size, _ = self.live.pop(address)
        self.event("free_requested", address, size, frames)
        self.event("free_completed", address, size, frames)

    def whole(self) -> dict[str, Any]:
        blocks = [
            {"address": at, "size": size, "requested_size": size, "state": "active_allocated",
             "frames": frames}
            for at, (size, frames) in self.live.items()
        ]  # fmt: skip
        segment = {"device": 0, "address": 0x7F0000000000, "total_size": self.reserved,
                   "stream": 0, "segment_type": "large", "blocks": blocks}  # fmt: skip
        return {"segments": [segment], "device_traces": [self.events, []],
                "allocator_settings": {"expandable_segments": False}}  # fmt: skip

    def dump(self, path: Path, protocol: int = 4) -> Path:
        path.write_bytes(pickle.dumps(self.whole(), protocol))
        return path


def steps(count: int = 2, layers: int = 4) -> Recorded:
    """Record a model of 8 MiB a layer that is trained: at the peak activations, the log-softmax
    and, from the second step on, the optimizer's states."""
    gpu = Recorded()
    gpu.reserve(1024 * MIB)
    for _ in range(layers):
        gpu.alloc(8 * MIB, LOAD)
    for step in range(count):
        kept = [gpu.alloc(4 * MIB, MLP) for _ in range(layers)]
        kept.append(gpu.alloc(64 * MIB, LOSS))
        gradients = []
        for address in reversed(kept):
            passing = gpu.alloc(2 * MIB, BACKWARD)
            gpu.free(address, BACKWARD)
            gradients.append(gpu.alloc(8 * MIB, BACKWARD))
            gpu.free(passing, BACKWARD)
        if not step:
            for _ in range(layers):
                gpu.alloc(16 * MIB, ADAM)
        for address in gradients:
            gpu.free(address, ADAM[2:])
    return gpu
