"""Threads, streams, compilers and files that get in the way of weights that come and go."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import load_streamed, stream_frozen_weights
from memlint_runtime.streaming import blocks, mapped_files
from memlint_runtime.streaming.blocks import RingMemory
from torch import Tensor, nn

from tests.runtime.streaming.training import Case, adapted, base, mapped, one_batch, stream, train

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]


def _held(tensor_or_layer: Any, backward: bool) -> tuple[threading.Event, threading.Event]:
    """Events: the computation has come to this place; it may go on."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(*ignored: Any) -> None:
        reached.set()
        assert go_on.wait(timeout=60)

    if backward:
        tensor_or_layer.register_forward_hook(lambda m, i, o: o.register_hook(wait) and None)
    else:
        tensor_or_layer.register_forward_hook(wait)
    return reached, go_on


@pytest.mark.parametrize("second", ["forward", "backward"])
@pytest.mark.parametrize("first", ["forward", "backward"])
def test_a_pass_beside_another_threads_pass_is_refused(first: str, second: str) -> None:
    model, resident = adapted(Case()), adapted(Case())
    stream(model)
    waiting = model(**one_batch()).loss
    reached, go_on = _held(model.get_base_model().model.layers[2], first == "backward")
    losses: list[Tensor] = []

    def run() -> None:
        losses.append(model(**one_batch()).loss)
        losses[0].backward()

    thread = threading.Thread(target=run, name="the first")
    thread.start()
    assert reached.wait(timeout=60)
    begin = waiting.backward if second == "backward" else lambda: model(**one_batch())
    with pytest.raises(RuntimeError, match="one thread at a time: 'the first' computes"):
        begin()
    go_on.set()
    thread.join()
    expected = resident(**one_batch()).loss
    expected.backward()
    assert torch.equal(losses[0], expected)
    wanted = [p.grad for p in resident.parameters() if p.grad is not None]
    found = [p.grad for p in model.parameters() if p.grad is not None]
    assert all(map(torch.equal, found, wanted))
    model.zero_grad()
    model(**one_batch()).loss.backward()


COMPILED: dict[str, Callable[[Any], Any]] = {
    "model": lambda model: torch.compile(model, backend="aot_eager"),
    "its own": lambda model: model.compile(backend="aot_eager"),
    "a layer": lambda model: model.get_base_model().model.layers[1].compile(backend="aot_eager"),
    "a part": lambda model: model.get_base_model().model.layers[1].mlp.compile(backend="aot_eager"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", COMPILED)
def test_compiled_models_are_refused(what: str) -> None:
    torch._dynamo.reset()
    model = adapted(Case())
    stream(model)
    compiled = COMPILED[what](model)
    compiled = model if compiled is None else compiled
    with pytest.raises(RuntimeError, match=r"streamed, and torch\.compile takes the buffers"):
        compiled(**one_batch(), use_cache=False)


def test_weights_converted_between_forward_and_backward_are_refused() -> None:
    model = adapted(Case())
    stream(model)
    loss = model(**one_batch()).loss
    model.to(torch.bfloat16)
    with pytest.raises(RuntimeError, match="became others between forward and backward"):
        loss.backward()
    model.to(torch.float32)
    model(**one_batch()).loss.backward()


@torch.no_grad()
def test_a_root_that_is_the_list_of_blocks() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4))).requires_grad_(False)
    hidden = torch.randn(3, 16)
    expected = model(hidden)
    streamed = stream_frozen_weights(model, min_bytes=64, buffers=1)
    assert [block.label for block in streamed.blocks] == ["0", "1", "2", "3"]
    for _ in range(2):
        assert torch.equal(model(hidden), expected)
        assert streamed.ring.resident_bytes == 0
        model[1].weight.data.mul_(2)
        expected = hidden
        for layer in model:
            expected = nn.functional.linear(expected, layer.weight, layer.bias)


@pytest.mark.skipif(not mapped_files._MAPS.exists(), reason="reads Linux's mappings")
@pytest.mark.parametrize("following", ["forward", "backward"])
@pytest.mark.parametrize("way", ["shorter", "written to"])
def test_a_file_that_is_written_to_stops_the_next_pass(
    way: str, following: str, tmp_path: Path
) -> None:
    model = adapted(Case())
    path = mapped(model, tmp_path)
    streamed = stream(model, store="files")
    train(model, Case(), steps=1)
    loss = model(**one_batch()).loss
    # Nothing survives a file that is cut while it is read.
    for stage in streamed.ring.store._stages:
        stage.join()
    size = path.stat().st_size
    if way == "shorter":
        os.truncate(path, size - size // 4)
    else:
        with path.open("r+b") as file:
            file.write(b"x")
        os.utime(path, ns=(1, 1))
    with pytest.raises(RuntimeError, match=f"written to: it had {size} bytes"):
        _ = loss.backward() if following == "backward" else model(**one_batch())


@pytest.mark.parametrize("way", ["deleted", "replaced"])
def test_a_file_that_is_gone_is_still_mapped(way: str, tmp_path: Path) -> None:
    base(Case()).save_pretrained(tmp_path)
    model = load_streamed(tmp_path, dtype=torch.float32, store="files", min_bytes=256)
    expected = model(**one_batch()).loss
    (path,) = tmp_path.glob("*.safetensors")
    path.unlink()
    if way == "replaced":
        path.write_bytes(b"another")
    assert torch.equal(model(**one_batch()).loss, expected)


def test_buffers_lie_in_a_pool_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU; with segments that grow, and with another allocator, in the common one."""
    log: list[str] = []

    class Pool:
        def __init__(self, device: Any) -> None:
            self.device = device

        def __enter__(self) -> None:
            log.append("in")

        def __exit__(self, *ignored: Any) -> None:
            log.append("out")

    backend = ["native"]
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: backend[0])
    monkeypatch.setattr(torch.cuda, "MemPool", object)
    monkeypatch.setattr(torch.cuda, "use_mem_pool", lambda pool, device: Pool(device))
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    device = torch.device("cuda", 0)

    def uses() -> int:
        log.clear()
        with RingMemory().on(device):
            return len(log)

    assert uses() == 1
    backend[0] = "cudaMallocAsync"
    assert uses() == 0
    backend[0] = "native"
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments: True")
    assert uses() == 0
    with RingMemory().on(torch.device("cpu")):
        assert not log

    # The ring's buffers are made, and made again, within it; what undo leaves is not.
    model = adapted(Case())
    streamed = stream(model)
    monkeypatch.setattr(blocks, "_has_pools", lambda: True)
    monkeypatch.setattr(streamed.ring.memory, "on", lambda device: Pool(device))
    log.clear()
    train(model, Case(), steps=2)
    assert len(log) == 2 * streamed.ring.fetches
    log.clear()
    streamed.undo()
    assert not log
