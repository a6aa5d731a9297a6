"""Bytes that autograd keeps on the device after forward: no offload, ours, TRL's, torchtune's.

Run: python -m tests.bench.offload

Everything is computed on the CPU, which stands for both sides: TRL's and torchtune's hooks are told
that the accelerator is the CPU and get streams that do nothing; their host copies are told apart by
their own books. Counted after the forward pass has ended, weights, inputs and outputs excluded.
torchtune is skipped where it is not installed.
"""

from __future__ import annotations

import contextlib
import copy
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from memlint_runtime.checkpoint import checkpoint_activations
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.offload import offload_activations
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

TOKENS = 512
CONFIG = LlamaConfig(  # Llama-3.1-8B, an eighth as wide
    hidden_size=512,
    intermediate_size=1792,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=2,
    vocab_size=4096,
    use_cache=False,
)


@dataclass(frozen=True)
class Kept:
    """Bytes after forward: what the graph keeps on the device, what was sent to the host."""

    device: int
    host: int


@dataclass(frozen=True)
class Case:
    """What to run; `inputs` are held by the caller and count for nobody."""

    model: nn.Module
    forward: Callable[[nn.Module], Tensor]
    inputs: tuple[Tensor, ...]


class _NoStream:
    """Stands for a stream, its context and its events."""

    def __getattr__(self, name: str) -> Callable[..., _NoStream]:
        return lambda *args, **kwargs: self

    def __enter__(self) -> _NoStream:
        return self

    def __exit__(self, *exc_info: Any) -> None:
        return None


def _without(model: nn.Module) -> Any:
    return contextlib.nullcontext()


def _ours(model: nn.Module) -> Any:
    return offload_activations(
        model, device="cpu", host="meta", copies=SynchronousCopies(), min_bytes=1024
    )


def _trl(model: nn.Module) -> Any:
    from trl.models.activation_offloading import get_act_offloading_ctx_manager

    return get_act_offloading_ctx_manager(model, use_pin_memory=False, warn_if_no_head=False)


def _torchtune(model: nn.Module) -> Any:
    from torchtune.training import OffloadActivations

    return OffloadActivations(use_pin_memory=False)


HOOKS: dict[str, Callable[[nn.Module], Any]] = {
    "no offload": _without,
    "ours": _ours,
    "trl": _trl,
    "torchtune": _torchtune,
}


@contextlib.contextmanager
def _cpu_as_accelerator() -> Iterator[None]:
    nothing = _NoStream()
    streams = dict.fromkeys(("Stream", "current_stream", "default_stream", "stream"))
    with contextlib.ExitStack() as patches:
        for module in (torch.cuda, torch.cpu):
            for name in streams:
                patches.enter_context(
                    mock.patch.object(module, name, create=True, return_value=nothing)
                )
        patches.enter_context(
            mock.patch.object(
                torch.accelerator, "current_accelerator", return_value=torch.device("cpu")
            )
        )
        yield


def _host_bytes(hooks: Any) -> int:
    if hasattr(hooks, "pool"):
        return int(hooks.sent_bytes)
    copies = [entry[0] for entry in getattr(hooks, "tracker", {}).values() if entry[1]]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in copies}.values())


def kept_after(case: Case, name: str) -> Kept:
    """Run a forward pass under the hooks called `name` and count."""
    model = copy.deepcopy(case.model)
    with _cpu_as_accelerator():
        hooks = HOOKS[name](model)
        with track_memory(model) as tracker:
            before = tracker.current.total
            with hooks:
                output = case.forward(model)
            # What waits for a copy to end, on a stream that has long ended it.
            getattr(hooks, "fwd_stash", {}).clear()
            gc.collect()
            host = _host_bytes(hooks)
            on_host_here = 0 if hasattr(hooks, "pool") else host
            held = sum(tensor.nbytes for tensor in (*case.inputs, output))
            device = tracker.current.total - before - on_host_here - held
        return Kept(device, host)


def one_block() -> Case:
    model = LlamaForCausalLM(CONFIG).bfloat16()
    hidden = torch.randn(1, TOKENS, CONFIG.hidden_size, dtype=torch.bfloat16, requires_grad=True)
    positions = model.model.rotary_emb(hidden, torch.arange(TOKENS)[None])

    def forward(block: nn.Module) -> Tensor:
        result: Tensor = block(hidden, position_embeddings=positions)
        return result

    return Case(model.model.layers[0], forward, (hidden, *positions))


def whole_model(*, checkpointed: bool = False) -> Case:
    ids = torch.randint(0, CONFIG.vocab_size, (1, TOKENS))
    model = LlamaForCausalLM(CONFIG).bfloat16().train()
    if checkpointed:
        checkpoint_activations(model)

    def forward(model: nn.Module) -> Tensor:
        loss: Tensor = model(ids, labels=ids).loss
        return loss

    return Case(model, forward, (ids,))


CASES: dict[str, Callable[[], Case]] = {
    "one Llama block": one_block,
    "whole model": whole_model,
    "whole model, checkpointed": lambda: whole_model(checkpointed=True),
}


def main() -> None:
    torch.manual_seed(0)
    for case, make in CASES.items():
        prepared = make()
        print(f"\n{case}, {TOKENS} tokens, bf16: KiB kept by the graph after forward")
        print(f"{'':12}{'device':>12}{'host':>12}")
        for name in HOOKS:
            try:
                kept = kept_after(prepared, name)
            except ModuleNotFoundError as error:
                print(f"{name:12}{'-':>12}{'-':>12}   {error.name} is not installed")
                continue
            print(f"{name:12}{kept.device / 1024:12.1f}{kept.host / 1024:12.1f}")


if __name__ == "__main__":
    main()
