"""How streaming ends: undone, with an exception, an interrupt, another thread, after many steps."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import torch
from memlint_runtime import (
    checkpoint_activations,
    fake_memory,
    fuse_causal_lm_loss,
    undo,
)
from memlint_runtime.streaming import streamed_weights_of
from peft import LoraConfig, get_peft_model
from torch import Tensor

from tests.runtime.streaming.schedulers import RecordingLock
from tests.runtime.streaming.training import (
    Case,
    adapted,
    assert_same,
    base,
    batch,
    one_batch,
    stream,
    train,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]


def test_undo_leaves_nothing_behind() -> None:
    case = Case()
    model = adapted(case)
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    threads = threading.active_count()
    streamed = stream(model)
    locked = RecordingLock()
    streamed.store.pages = locked
    train(model, case, steps=1)
    assert locked.log
    undo(model.get_base_model())
    assert locked.log == {}
    assert threading.active_count() == threads
    assert streamed_weights_of(model) is None
    left = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    assert left == hooks
    assert_same(train(adapted(case), case, steps=2), _restarted(model, case))
    with stream(model):
        train(model, case, steps=1)
    assert streamed_weights_of(model) is None


def _restarted(model: Any, case: Case) -> Any:
    model.load_state_dict(adapted(case).state_dict())
    return train(model, case, steps=2)


def test_a_graph_made_before_undo_can_be_differentiated_after_it() -> None:
    resident, model = adapted(Case()), adapted(Case())
    streamed = stream(model)
    loss, expected = model(**one_batch()).loss, resident(**one_batch()).loss
    streamed.undo()
    loss.backward()
    expected.backward()
    for one, other in zip(model.parameters(), resident.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("place", ["forward", "backward"])
def test_an_exception_in_a_step_leaves_a_model_that_goes_on(place: str) -> None:
    case = Case(checkpointing="non-reentrant")
    resident, model = adapted(case), adapted(case)
    streamed = stream(model)
    failing = True

    def fail(*ignored: Any) -> None:
        if failing:
            raise KeyError

    layer = model.get_base_model().model.layers[1].mlp
    if place == "forward":
        layer.register_forward_hook(fail)
    else:
        layer.register_forward_hook(lambda m, i, o: o.register_hook(fail) and None)
    with pytest.raises(KeyError):
        train(model, case, steps=1)
    assert streamed.ring.resident_bytes <= streamed.ring.capacity_bytes
    failing = False
    model.zero_grad()
    state = model.state_dict()
    wanted = resident.state_dict()
    assert all(torch.equal(state[name], wanted[name]) for name in wanted)
    assert_same(train(resident, case, steps=2), train(model, case, steps=2))
    assert streamed.ring.resident_bytes == 0


def test_two_hundred_steps_do_not_grow() -> None:
    """Each tenth step fails, forward and backward in turn."""
    # The tracker watches each operation: few of them, and the test is quick.
    lora = LoraConfig(r=2, target_modules=["down_proj"], init_lora_weights=False)
    model: Any = get_peft_model(base(Case(changes={"num_hidden_layers": 2})), lora)
    checkpoint_activations(model)
    fuse_causal_lm_loss(model)
    streamed = stream(model)
    streamed.store.pages = locked = RecordingLock()
    threads = threading.active_count()
    fails = ""

    def fail(*ignored: Any) -> None:
        if fails == "forward":
            raise KeyError

    def fail_later(module: Any, inputs: Any, output: Tensor) -> None:
        if fails == "backward":
            output.register_hook(lambda gradient: {}["none"])

    layer = model.get_base_model().model.layers[0].mlp
    layer.register_forward_hook(fail)
    layer.register_forward_hook(fail_later)
    alive: list[int] = []
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    with fake_memory.track_memory(model) as tracker:
        for step in range(200):
            fails = {9: "forward", 19: "backward"}.get(step % 20, "")
            try:
                model(**batch(generator, rows=1, length=4), use_cache=False).loss.backward()
            except KeyError:
                assert fails
            optimizer.step()
            optimizer.zero_grad()
            if not fails:
                assert streamed.ring.resident_bytes == 0
                alive.append(tracker.current.total)
    assert len(alive) == 180
    assert max(alive[90:]) <= max(alive[5:90])
    streamed.undo()
    assert locked.log == {}
    assert threading.active_count() == threads


def test_an_interrupt_leaves_a_model_that_goes_on() -> None:
    """Ctrl-C ends a forward without its hooks."""
    case = Case(checkpointing="non-reentrant")
    resident, model = adapted(case), adapted(case)
    streamed = stream(model, buffers=100)
    failing = True

    def interrupt(*ignored: Any) -> None:
        if failing:
            raise KeyboardInterrupt

    model.get_base_model().model.layers[2].register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        model(**one_batch())
    failing = False
    for candidate in (resident, model):
        candidate.get_base_model().model.layers[0].mlp.up_proj.base_layer.weight.data.mul_(2)
    with torch.no_grad():
        assert torch.equal(model(**one_batch()).logits, resident(**one_batch()).logits)
    assert streamed.ring.resident_bytes == 0
    assert_same(train(resident, case, steps=2), train(model, case, steps=2))
    assert streamed.ring.resident_bytes == 0


def test_a_failed_sweep_of_the_head_leaves_no_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(changes={"vocab_size": 300})
    model = adapted(case)
    fuse_causal_lm_loss(model, workspace_bytes=40_000)
    streamed = stream(model)
    tiles = streamed.head_tiles
    assert tiles is not None
    own, calls = tiles.tile, []
    made: list[weakref.ref[Any]] = []

    def tile(vocabulary: slice, device: torch.device) -> Tensor:
        calls.append(vocabulary)
        if len(calls) == 2:
            raise KeyError
        found = own(vocabulary, device)
        assert tiles._ahead is not None
        made.append(weakref.ref(tiles._ahead[2].untyped_storage()))
        return found

    monkeypatch.setattr(tiles, "tile", tile)
    with pytest.raises(KeyError):
        train(model, case, steps=1, length=200)
    gc.collect()
    assert [storage() for storage in made] == [None]


def test_a_second_thread_is_refused() -> None:
    """Silently wrong values otherwise: each would empty the other's buffers."""
    model, resident = adapted(Case()).eval(), adapted(Case()).eval()
    stream(model)
    ids = one_batch()["input_ids"]
    refused: list[BaseException] = []

    def other() -> None:
        try:
            model(ids)
        except RuntimeError as error:
            refused.append(error)

    def meanwhile(*ignored: Any) -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    handle = model.get_base_model().model.layers[1].register_forward_hook(meanwhile)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, resident(ids).logits)
    handle.remove()
    assert "one thread at a time" in str(refused[0])
    meanwhile()
    assert len(refused) == 1
