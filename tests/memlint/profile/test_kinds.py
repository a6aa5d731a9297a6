"""Kinds of tensors by the stacks that allocate and free them: what is told, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from memlint.profile.peak import DevicePeak, peaks
from memlint.profile.snapshot import read_snapshot

from .recorded import (
    ADAM,
    ALLOCATOR,
    BACKWARD,
    CLEARED,
    ENGINE,
    LINEAR,
    LOSS,
    MIB,
    MLP,
    MODULE,
    SITE,
    STEPPED,
    Frames,
    Recorded,
    autograd,
    frame,
    module,
    native,
    stack,
    user,
)  # fmt: skip

Peak = Callable[[Recorded], DevicePeak]
FUNCTIONAL = f"{SITE}/torch/nn/functional.py"


@pytest.fixture
def peak_of(tmp_path: Path) -> Peak:
    def read(gpu: Recorded) -> DevicePeak:
        path = gpu.dump(tmp_path / "s.pickle")
        (peak,) = peaks(read_snapshot(str(path), lambda at, size: None))
        return peak

    return read


def kinds(peak_of: Peak, *made: tuple[Frames, int]) -> dict[str, int]:
    """Return MiB by kind, of tensors that nobody frees."""
    gpu = Recorded()
    for frames, size in made:
        gpu.alloc(size * MIB, frames)
    return {kind: size // MIB for kind, size in peak_of(gpu).by_kind.items()}


def alone(peak_of: Peak, frames: Frames) -> str:
    return next(iter(kinds(peak_of, (frames, 1))))


def test_what_lives_past_the_step_of_an_optimizer_is_state(peak_of: Peak) -> None:
    own = [user(82, "step", "lion.py"), STEPPED, user(32, "step")]
    gpu = Recorded()
    gpu.alloc(4 * MIB, stack(own, "add"))
    root = gpu.alloc(MIB, stack(own, "sqrt"))
    gpu.free(root, stack(own, "div"))
    last = gpu.alloc(2 * MIB, stack(own, "div"))
    gpu.free(last, stack([user(32, "step")]))  # a name of the step's own, when it returns
    assert peak_of(gpu).by_kind == {"optimizer_state": 4 * MIB, "optimizer_temporary": 2 * MIB}
    # A state that each step makes anew is state, though the next step frees it.
    gpu = Recorded()
    old = gpu.alloc(4 * MIB, stack(own, "add"))
    gpu.free(gpu.alloc(MIB, MLP), MLP)
    gpu.alloc(4 * MIB, stack(own, "add"))
    gpu.free(old, stack(own, "add"))
    assert peak_of(gpu).by_kind == {"optimizer_state": 8 * MIB}


def test_a_step_that_ran_out_of_memory_leaves_temporaries(peak_of: Peak) -> None:
    gpu = Recorded()
    gpu.alloc(4 * MIB, ADAM)
    gpu.alloc(2 * MIB, stack([user(82, "step", "lion.py"), STEPPED], "sqrt"))
    gpu.event("oom", 0, 8 * MIB, ADAM)
    assert peak_of(gpu).by_kind == {"optimizer_state": 4 * MIB, "optimizer_temporary": 2 * MIB}


def test_gradients_of_a_backward_that_ran_out_of_memory_are_of_no_side(peak_of: Peak) -> None:
    gpu = Recorded()
    gpu.alloc(4 * MIB, BACKWARD)
    gpu.event("oom", 0, 8 * MIB, BACKWARD)
    assert peak_of(gpu).by_kind == {"gradient": 4 * MIB}


def test_zeroing_gradients_is_no_step(peak_of: Peak) -> None:
    assert alone(peak_of, CLEARED) == "other"


def test_what_checkpointed_layers_make_again_is_no_gradient(peak_of: Peak) -> None:
    again = [LINEAR, MODULE, frame(f"{SITE}/torch/utils/checkpoint.py", 1500, "unpack_hook")]
    gpu = Recorded()
    gpu.alloc(MIB, BACKWARD)
    kept = gpu.alloc(8 * MIB, [*stack(again, "mm", "linear"), *ENGINE])
    passing = gpu.alloc(2 * MIB, BACKWARD)
    gpu.free(kept, BACKWARD)
    gpu.free(passing, [*stack(again, "mm", "linear"), *ENGINE])
    assert peak_of(gpu).by_kind == {
        "activation": 8 * MIB, "activation_gradient": 2 * MIB, "weight_gradient": MIB,
    }  # fmt: skip


def test_a_backward_of_the_users_own_makes_gradients(peak_of: Peak) -> None:
    own = [
        user(8, "backward", "kernel.py"),
        frame(f"{SITE}/torch/autograd/function.py", 311, "apply"),
    ]
    gpu = Recorded()
    gpu.free(gpu.alloc(MIB, [*stack(own, "mul"), *ENGINE]), BACKWARD)
    (group,) = peak_of(gpu).groups
    assert (group.kind, group.place) == ("activation_gradient", "home/u/kernel.py:8 in backward")


def test_what_autograd_frees_was_kept_for_it_outside_of_modules_too(peak_of: Peak) -> None:
    gpu = Recorded()
    kept = gpu.alloc(4 * MIB, stack([user(40, "distance")], "sub"))
    gpu.alloc(2 * MIB, stack([user(39, "batch")], "_to_copy"))
    gpu.free(kept, BACKWARD)
    assert peak_of(gpu).by_kind == {"activation": 4 * MIB, "other": 2 * MIB}


def test_scores_are_as_large_as_what_a_softmax_returns(peak_of: Peak) -> None:
    attention = module(70, "eager_attention")
    softmax = [frame(FUNCTIONAL, 2100, "softmax"), *attention]
    assert kinds(
        peak_of,
        (stack(attention, "bmm", "matmul"), 64),
        (stack(attention, "masked_fill_Scalar"), 64),
        (stack(softmax, "_softmax", "softmax_int"), 64),
        (stack(attention, "bmm", "matmul"), 3),
    ) == {"attention_scores": 192, "activation": 3}
    # In a module that is called so nowhere, the product tells.
    softmax = [frame(FUNCTIONAL, 2100, "softmax"), *module(71)]
    made = ("bmm", "matmul"), ("masked_fill_Scalar",)
    assert kinds(
        peak_of,
        (stack(softmax, "_softmax", "softmax_int"), 64),
        *((stack(module(71), *operators), 64) for operators in made),
    ) == {"attention_scores": 128, "activation": 64}
    # By hand, and a copy of half the width under autocast.
    own = [user(5, "softmax", "nn.py"), *attention]
    cast = stack(attention, "_to_copy", "to_dtype", through=("at::autocast::cached_cast(c10)",))
    assert kinds(peak_of, (stack(own, "exp"), 64), (cast, 32)) == {"attention_scores": 96}


def test_a_softmax_of_no_attention_makes_no_scores(peak_of: Peak) -> None:
    router = module(90)
    softmax = [frame(FUNCTIONAL, 2100, "softmax"), *router]
    assert kinds(
        peak_of,
        (stack(router, "mm", "linear"), 64),
        (stack(softmax, "_softmax", "softmax_int"), 64),
    ) == {"activation": 128}


def test_logits_are_as_large_as_their_log_softmax(peak_of: Peak) -> None:
    head = stack([LINEAR, MODULE, *module(95)], "mm", "linear")
    norm = stack(module(96), "mul")
    assert kinds(peak_of, (head, 64), (LOSS, 64), (norm, 64), (head, 2)) == {
        "logits": 64, "log_softmax": 64, "activation": 66,
    }  # fmt: skip
    own = [user(13, "cross_entropy", "nn.py"), user(30, "step")]
    assert alone(peak_of, stack(own, "sub_Tensor")) == "log_softmax"
    assert alone(peak_of, stack(own, "_to_copy", "to_dtype")) == "logits_fp32"
    assert alone(peak_of, stack(own, "mean_dim", "mean")) == "other"
    gradient = autograd("_log_softmax_backward_data", "LogSoftmaxBackward0")
    assert alone(peak_of, gradient) == "logits_gradient"


def test_copies_of_autocast_and_workspaces_are_neither_weights_nor_activations(
    peak_of: Peak,
) -> None:
    cast = ("at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)",)
    assert (
        alone(peak_of, stack(module(22), "_to_copy", "to_dtype", through=cast)) == "autocast_copy"
    )
    assert alone(peak_of, stack(module(22), "_to_copy", "to_dtype")) == "activation"
    assert alone(peak_of, stack(module(22, file="workspace.py"), "mul")) == "activation"
    blas = [*ALLOCATOR, *native("at::cuda::getCurrentCUDABlasHandle()")]
    assert alone(peak_of, [*blas, *BACKWARD[len(ALLOCATOR) :]]) == "workspace"
    assert alone(peak_of, [*blas, *MLP[len(ALLOCATOR) :]]) == "workspace"


WEIGHTS = {
    "moved": [frame(f"{SITE}/torch/nn/modules/module.py", 1355, "convert"), user(9, "<module>")],
    "made": [frame(f"{SITE}/torch/nn/modules/linear.py", 106, "__init__"), user(9, "__init__")],
    "of a replica": [
        frame(f"{SITE}/torch/nn/parallel/comm.py", 66, "broadcast_coalesced"),
        *module(9),
    ],
}


@pytest.mark.parametrize("how", WEIGHTS)
def test_weights_are_known_by_what_makes_them(how: str, peak_of: Peak) -> None:
    assert alone(peak_of, stack(WEIGHTS[how], "_to_copy")) == "weights"


def test_data_that_is_moved_is_no_weight(peak_of: Peak) -> None:
    assert alone(peak_of, stack([user(39, "load")], "_to_copy", "to_device")) == "other"
    moved = frame(f"{SITE}/transformers/tokenization_utils_base.py", 800, "to")
    assert alone(peak_of, stack([moved, user(39, "step")], "_to_copy", "to_device")) == "other"
    scattered = frame(f"{SITE}/torch/nn/parallel/data_parallel.py", 180, "scatter")
    assert alone(peak_of, stack([scattered, MODULE], "_to_copy")) == "other"


def test_caches_are_known_by_their_own_files_and_not_by_folders(peak_of: Peak) -> None:
    cache = frame(f"{SITE}/transformers/cache_utils.py", 120, "update")
    assert alone(peak_of, stack([cache, *module(50)], "cat")) == "kv_cache"
    assert alone(peak_of, stack(module(50, file="kv_cache/model.py"), "cat")) == "activation"


def test_forward_that_is_called_directly_is_forward(peak_of: Peak) -> None:
    assert alone(peak_of, stack([user(15, "forward", "swiglu.py"), user(30, "step")], "mul")) == (
        "activation")  # fmt: skip


PLACES = {
    "a notebook": (stack([frame("/tmp/ipykernel_11/276.py", 3, "<module>")], "mul"),
                   "tmp/ipykernel_11/276.py:3 in <module>"),
    "Windows": (stack([frame(r"D:\p\Lib\site-packages\torch\functional.py", 373, "einsum"),
                       frame(r"D:\p\a.py", 39, "forward")], "bmm"), "D:/p/a.py:39 in forward"),
    "a compiled graph": (stack([frame("/tmp/torchinductor_u/ab/cab.py", 53, "call"), *module(41)]),
                         "home/u/model.py:41 in forward (torchinductor_u/ab/cab.py:53 in call)"),
    "the standard library": (stack([frame("/env/lib/python3.11/threading.py", 1, "run")], "mul"),
                             "lib/python3.11/threading.py:1 in run"),
    "torch alone": (stack([LINEAR], "mm"), "nn/modules/linear.py:125 in forward"),
    "autograd": ([*ALLOCATOR, *ENGINE], "autograd"),
    "C++ alone": ([*ALLOCATOR, *native("ncclCommInitRank", "main")], "ncclCommInitRank"),
    "a symbol with its line": ([*ALLOCATOR, frame("../sys/clone3.S", 81, "__clone3")], "__clone3"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_the_place_is_the_users_line(name: str, peak_of: Peak) -> None:
    frames, place = PLACES[name]
    gpu = Recorded()
    gpu.alloc(MIB, frames)
    (group,) = peak_of(gpu).groups
    assert group.place == place
