"""Where tensors are while a base streams to a device that is not the host's; nothing has values.

Run: python -m tests.runtime.streaming.devices

Each case: a model that streams from the host to a card (`tests.fake_card`), two training steps and
an evaluation. What mixes devices fails; the card's bytes are counted.
"""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Any

import torch
from memlint_runtime import fake_memory, fuse_causal_lm_loss, stream_frozen_weights
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.modeling_outputs import CausalLMOutput

from tests.fake_card import CARD, CardCopies, carry, install_card, streaming_to_the_card
from tests.runtime.streaming.training import Case, adapted, base

FEW: dict[str, Any] = {"num_hidden_layers": 2}
CASES = {
    "plain": Case(changes=FEW),
    "non-reentrant": Case(checkpointing="non-reentrant", changes=FEW),
    "reentrant": Case(checkpointing="reentrant", changes=FEW),
    "fused": Case(fused=True, changes=FEW),
    "fused, tied": Case(fused=True, changes={**FEW, "tie_word_embeddings": True}),
    "DoRA": Case(dora=True, changes=FEW),
    "experts": Case(
        "mixtral", dtype=torch.bfloat16, changes={**FEW, "output_router_logits": False}
    ),
    "gpt2": Case("gpt2", changes={"n_layer": 2}),
}


def check(case: Case) -> str:
    """Train on the card; returns figures. Raises where a tensor is in the wrong place."""
    model = adapted(case)
    with FakeTensorMode(allow_non_fake_inputs=True), streaming_to_the_card(model):
        carry(model, "cpu")
        if case.fused:
            fuse_causal_lm_loss(model)
        streamed = stream_frozen_weights(model, copies=CardCopies(), min_bytes=256)
        carry(model, CARD, stays=streamed.is_streamed)
        ids = torch.zeros(2, 12, dtype=torch.long, device=CARD)
        with fake_memory.track_memory(model, device=CARD) as tracker:
            before = tracker.current.total + ids.untyped_storage().nbytes()
            for _ in range(2):
                model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
                _expect(streamed.ring.resident_bytes == 0, "blocks stayed on the card")
                for parameter in model.parameters():
                    if parameter.requires_grad:
                        _expect(parameter.grad.device.type == CARD, "a gradient is on the host")
                    elif streamed.is_streamed(parameter):
                        _expect(parameter.device.type == "cpu", "a frozen weight stayed")
                model.zero_grad()
            with torch.no_grad():
                logits = model(input_ids=ids.to("cpu"), use_cache=False).logits
            _expect(logits.device.type == CARD, "logits are on the host")
            del logits
            gc.collect()
            _expect(tracker.current.total == before, "bytes stayed on the card")
        peak, ring = tracker.peak.total, streamed.ring.peak_bytes
        _expect(streamed.ring.fetches > 4, "nothing was fetched")
        return f"host {streamed.host_bytes}, ring {ring}, peak of the card {peak} bytes"


def check_late_adapters() -> str:
    """Adapters that are added to a streamed model on the card: PEFT puts them on the host."""
    model = base(Case())
    model.requires_grad_(False)
    with FakeTensorMode(allow_non_fake_inputs=True), streaming_to_the_card(model):
        carry(model, "cpu")
        streamed = stream_frozen_weights(model, copies=CardCopies(), min_bytes=256)
        carry(model, CARD, stays=streamed.is_streamed)
        adapters: list[nn.Module] = []
        for layer in model.model.layers:
            layer.self_attn.register_module("late", nn.Linear(4, 4))
            adapters.append(layer.self_attn.late)
        ids = torch.zeros(2, 12, dtype=torch.long, device=CARD)
        try:
            model(input_ids=ids, use_cache=False)
        except RuntimeError as error:
            _expect("move the model to one device" in str(error), f"unclear: {error}")
        else:
            raise AssertionError("adapters on the host were taken")
        for adapter in adapters:
            carry(adapter, CARD)
        model(input_ids=ids, use_cache=False)
    return "refused, then taken"


def check_head_read_by_a_loss() -> str:
    """A loss that multiplies by the head's weight in the model's forward, as TRL's and Liger's."""
    model = adapted(Case(checkpointing="non-reentrant", changes=FEW))
    with FakeTensorMode(allow_non_fake_inputs=True), streaming_to_the_card(model):
        carry(model, "cpu")
        streamed = stream_frozen_weights(model, copies=CardCopies(), min_bytes=256)
        carry(model, CARD, stays=streamed.is_streamed)
        causal = model.get_base_model()

        def forward(input_ids: torch.Tensor, **ignored: Any) -> Any:
            hidden = causal.model(input_ids, use_cache=False).last_hidden_state
            places.append(causal.lm_head.weight.device.type)
            return CausalLMOutput(loss=(hidden @ causal.lm_head.weight.t()).logsumexp(-1).mean())

        places: list[str] = []
        causal.forward = forward
        ids = torch.zeros(2, 12, dtype=torch.long, device=CARD)
        for _ in range(2):
            first, second = (model(input_ids=ids).loss for _ in range(2))
            (first + second).backward()
            _expect(streamed.ring.resident_bytes == 0, "blocks stayed on the card")
        with torch.no_grad():
            model(input_ids=ids)
        _expect(places == [CARD] * 5, f"the head was on {places}")
        _expect(causal.lm_head.weight.device.type == "cpu", "the head stayed")
        return f"{streamed.ring.fetches} blocks fetched"


def _expect(holds: Any, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def main() -> int:
    warnings.filterwarnings("ignore")
    install_card()
    failed = 0
    checks: dict[str, Any] = {name: lambda case=case: check(case) for name, case in CASES.items()}
    checks |= {"late adapters": check_late_adapters, "head read": check_head_read_by_a_loss}
    for name, run in checks.items():
        try:
            print(f"{name:16}{run()}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name:16}FAILED {type(error).__name__}: {str(error)[:600]}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
