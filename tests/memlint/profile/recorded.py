"""Snapshots as torch writes them, without a GPU: the events of training steps, made by hand.

Structure: ``torch/cuda/memory.py`` of torch 2.13. Stacks are as a GPU's are: frames of C++ from the
allocator outwards, then the innermost frame of Python, the interpreter's own, and the other frames
of Python at the end; the thread of autograd has none of Python.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MIB = 2**20
SITE = "/env/lib/python3.11/site-packages"
START = 0x7F0000000000
Frames = list[dict[str, Any]]


def frame(name: str, line: int, function: str) -> dict[str, Any]:
    return {"filename": name, "line": line, "name": function}


def native(*functions: str) -> Frames:
    return [frame("??", 0, function) for function in functions]


ALLOCATOR = [
    *native("torch::unwind::unwind()", "torch::CapturedTraceback::gather(bool, bool, bool)"),
    frame("CUDACachingAllocator.cpp", 0, "c10::cuda::CUDACachingAllocator::malloc(void**)"),
    *native("at::detail::empty_cuda(c10::ArrayRef<long>)"),
    frame("RegisterCUDA.cpp", 0, "at::_ops::empty_memory_format::redispatch(c10::SymInt)"),
]
INTERPRETER = native("_PyEval_EvalFrameDefault", "Py_RunMain", "__libc_start_main")
ENGINE = native("torch::autograd::Engine::evaluate_function(std::shared_ptr<GraphTask>&)",
                "torch::autograd::Engine::thread_main(GraphTask const&)")  # fmt: skip


def stack(python: Frames, *operators: str, through: tuple[str, ...] = ()) -> Frames:
    """Return the stack of operators of torch, innermost first, that Python calls."""
    calls = native(*(f"at::_ops::{each}::call(at::Tensor const&)" for each in operators))
    return [*ALLOCATOR, *calls, *native(*through), *python[:1], *INTERPRETER, *python[1:]]


def autograd(operator: str, node: str) -> Frames:
    """Return the stack of an operator that autograd's thread calls."""
    call = f"at::_ops::{operator}::call(at::Tensor const&)"
    applied = f"torch::autograd::generated::{node}::apply(std::vector<at::Tensor>&&)"
    return [*ALLOCATOR, *native(call, applied), *ENGINE]


def user(line: int, function: str, file: str = "train.py") -> dict[str, Any]:
    return frame(f"/home/u/{file}", line, function)


def module(line: int, function: str = "forward", file: str = "model.py") -> Frames:
    """Return the frames of a line of the user's in a module that is called."""
    called = frame(f"{SITE}/torch/nn/modules/module.py", 1775, "_call_impl")
    return [user(line, function, file), called, user(30, "step")]


LINEAR = frame(f"{SITE}/torch/nn/modules/linear.py", 125, "forward")
LLAMA = frame(f"{SITE}/transformers/models/llama/modeling_llama.py", 180, "forward")
MODULE = frame(f"{SITE}/torch/nn/modules/module.py", 1775, "_call_impl")
STEPPED = frame(f"{SITE}/torch/optim/optimizer.py", 517, "wrapper")
LOAD = stack(
    [
        frame(f"{SITE}/transformers/modeling_utils.py", 4100, "_load_state_dict_into_model"),
        frame(f"{SITE}/transformers/modeling_utils.py", 4000, "from_pretrained"),
        user(12, "<module>"),
    ],
    "_to_copy",
)
MLP = stack([LINEAR, MODULE, LLAMA, MODULE, user(30, "step")], "mm", "matmul", "linear")
LOSS = stack(
    [
        frame(f"{SITE}/torch/nn/functional.py", 3104, "cross_entropy"),
        frame(f"{SITE}/transformers/loss/loss_utils.py", 36, "fixed_cross_entropy"),
        LLAMA,
        MODULE,
        user(30, "step"),
    ],
    "_log_softmax",
    "log_softmax_int",
    "cross_entropy_loss",
)
BACKWARD = autograd("mm", "MmBackward0")
ADAM = stack(
    [
        frame(f"{SITE}/torch/optim/adamw.py", 150, "_init_group"),
        frame(f"{SITE}/torch/optim/adamw.py", 220, "step"),
        STEPPED,
        user(32, "step"),
    ],
    "zeros_like",
)
CLEARED = stack(
    [frame(f"{SITE}/torch/optim/optimizer.py", 1000, "zero_grad"), user(33, "step")], "zero_"
)


class Recorded:
    """A GPU that records. reserved: bytes, whole."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, Any]] = {}
        self.next = START
        self.reserved = 0

    def event(self, action: str, address: int, size: int, frames: Any) -> None:
        place = "device_free" if action == "oom" else "addr"
        values = {"action": action, place: address, "size": size, "stream": 0}
        values |= {"time_us": 1000 + len(self.events), "frames": frames}
        self.events.append(values | {"compile_context": "N/A", "user_metadata": ""})

    def reserve(self, size: int, action: str = "segment_alloc") -> None:
        self.reserved += size if action in ("segment_alloc", "segment_map") else -size
        self.event(action, self.next, size, [])

    def alloc(self, size: int, frames: Any) -> int:
        self.next += size + -size % 512
        self.live[self.next] = size, frames
        self.event("alloc", self.next, size, frames)
        return self.next

    def free(self, address: int, frames: Any) -> None:
        size, _ = self.live.pop(address)
        self.event("free_requested", address, size, frames)
        self.event("free_completed", address, size, frames)

    def segments(self, device: int = 0) -> list[dict[str, Any]]:
        blocks = [
            {"address": at, "size": size + -size % 512, "requested_size": size,
             "state": "active_allocated", "frames": frames}
            for at, (size, frames) in self.live.items()
        ]  # fmt: skip
        return [
            {"device": device, "address": START, "total_size": self.reserved, "stream": 0,
             "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
             "frames": [], "blocks": blocks}
        ]  # fmt: skip

    def whole(self) -> dict[str, Any]:
        annotation = {"stage": "START", "name": "step", "device": 0, "time_us": 1001}
        return {"segments": self.segments(), "device_traces": [self.events, []],
                "allocator_settings": {"expandable_segments": False},
                "external_annotations": [annotation]}  # fmt: skip

    def dump(self, path: Path, protocol: int = 4) -> Path:
        return dump(self.whole(), path, protocol)


def dump(whole: Any, path: Path, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(whole, protocol))
    return path


def of_python(frames: Frames) -> Frames:
    """Return what ``stacks="python"`` keeps of a stack."""
    return [each for each in frames if each["filename"].endswith(".py")]


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
            gpu.free(address, CLEARED)
    return gpu
