"""What else happens to a streamed model: saving, moving, changing, failing, undoing."""

from __future__ import annotations

import copy
import gc
import io
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import (
    checkpoint_activations,
    fake_memory,
    fuse_causal_lm_loss,
    stream_frozen_weights,
    undo,
    use_variable_length_attention,
)
from memlint_runtime.streaming import streamed_weights_of
from memlint_runtime.streaming.page_lock import PageLock
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import CausalLMOutput

from tests.runtime.streaming.schedulers import DelayedCopies
from tests.runtime.streaming.training import (
    VOCABULARY,
    Case,
    adapted,
    assert_same,
    base,
    batch,
    train,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]


def stream(model: nn.Module, **options: Any) -> Any:
    return stream_frozen_weights(model, **{"copies": DelayedCopies(), "min_bytes": 256, **options})


def one_batch() -> dict[str, Tensor]:
    return batch(torch.Generator().manual_seed(5))


def test_what_streams_and_what_stays() -> None:
    model = adapted(Case())
    streamed = stream(model)
    labels = [block.label for block in streamed.blocks]
    assert labels == [*(f"model.layers.{n}" for n in range(4)), "the output head"]
    names = {slot.name for block in streamed.blocks for slot in block.slots}
    assert names == {"weight"}
    assert all(slot.home.dim() == 2 for block in streamed.blocks for slot in block.slots)
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    assert not any(id(s.parameter) in trained for b in streamed.blocks for s in b.slots)


def test_state_dict_and_saved_adapters_are_those_of_a_resident_run(tmp_path: Path) -> None:
    case = Case()
    resident, model = adapted(case), adapted(case)
    streamed = stream(model)
    expected = train(resident, case, steps=2)
    assert_same(expected, train(model, case, steps=2))
    for when in ("streamed", "undone"):
        found = model.state_dict()
        wanted = resident.state_dict()
        assert list(found) == list(wanted)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
        model.save_pretrained(tmp_path / when)
        again = PeftModel.from_pretrained(base(case), tmp_path / when)
        ids = one_batch()["input_ids"]
        assert torch.equal(again.eval()(ids).logits, resident.eval()(ids).logits)
        resident.train()
        streamed.undo()


def test_a_state_dict_stays_right_while_training_goes_on() -> None:
    model = adapted(Case())
    stream(model)
    saved: dict[str, Tensor] = {}

    def hook(*ignored: Any) -> None:
        saved.update(model.state_dict())

    handle = model.get_base_model().model.layers[2].mlp.register_forward_hook(hook)
    wanted = copy.deepcopy(adapted(Case()).state_dict())
    model(**one_batch()).loss.backward()
    handle.remove()
    for name, tensor in saved.items():
        assert torch.equal(tensor, wanted[name])


def test_the_base_saves_and_merges(tmp_path: Path) -> None:
    case = Case()
    resident, model = adapted(case), adapted(case)
    stream(model)
    model(**one_batch()).loss.backward()
    merged, expected = model.merge_and_unload(), resident.merge_and_unload()
    merged.save_pretrained(tmp_path)
    again = type(merged).from_pretrained(tmp_path)
    ids = one_batch()["input_ids"]
    for candidate in (merged.eval(), again.eval()):
        assert torch.equal(candidate(ids).logits, expected.eval()(ids).logits)


def test_adapters_merged_between_steps_count() -> None:
    """PEFT changes the weights through `data`, which no version counter shows."""
    case = Case()
    resident, model = adapted(case), adapted(case)
    stream(model, buffers=100)
    for candidate in (resident, model):
        train(candidate, case, steps=1)
        candidate.merge_adapter()
        candidate.unmerge_adapter()
        candidate.get_base_model().model.layers[1].mlp.up_proj.base_layer.weight.data.mul_(2)
    assert_same(train(resident, case, steps=2), train(model, case, steps=2))


@pytest.mark.parametrize("way", ["in place", "data", "on the device", "data on the device"])
def test_a_changed_weight_counts(way: str) -> None:
    case = Case()
    models = [adapted(case), adapted(case)]
    streamed = stream(models[1])
    streamed.store.pages = locked = RecordingLock()

    @torch.no_grad()
    def change(module: Any, *ignored: Any) -> None:
        if "data" in way:
            module.weight.data = module.weight.data * 2
        else:
            module.weight.mul_(2)

    for model in models:
        target = model.get_base_model().model.layers[1].mlp.up_proj.base_layer
        if "device" in way:
            handle = target.register_forward_pre_hook(change)
            with torch.no_grad():
                model(**one_batch())
            handle.remove()
        else:
            change(target)
    assert_same(train(models[0], case, steps=2), train(models[1], case, steps=2))
    # What former weights had locked is unlocked.
    assert set(locked.log) == {piece.data_ptr() for piece in streamed.store.pieces.values()}


def test_a_type_is_changed_as_in_a_resident_model() -> None:
    case = Case()
    resident, model = adapted(case).to(torch.bfloat16), adapted(case)
    stream(model)
    train(model, case, steps=1)
    fresh = adapted(case)
    streamed = stream(fresh)
    fresh.to(torch.bfloat16)
    assert_same(train(resident, case, steps=2), train(fresh, case, steps=2))
    assert all(slot.home.dtype == torch.bfloat16 for b in streamed.blocks for slot in b.slots)


def test_moving_the_model_moves_only_the_rest() -> None:
    model = adapted(Case())
    streamed = stream(model)
    seen: list[Tensor] = []

    def move(tensor: Tensor) -> Tensor:
        seen.append(tensor)
        return tensor

    names = list(model.state_dict())
    model._apply(move)
    assert list(model.state_dict()) == names
    addresses = {s.home.data_ptr() for b in streamed.blocks for s in b.slots}
    assert addresses.isdisjoint(tensor.data_ptr() for tensor in seen)
    assert len(seen) > 10


def test_refusals_name_the_reason() -> None:
    model = adapted(Case())
    with pytest.raises(ValueError, match="no blocks with frozen weights"):
        stream_frozen_weights(base(Case()))
    with pytest.raises(ValueError, match="largest block"):
        stream(model, budget_bytes=10)
    with pytest.raises(ValueError, match="buffers is 1 or more"):
        stream(model, buffers=0)
    streamed = stream(model)
    with pytest.raises(ValueError, match="streamed already"):
        stream(model)
    with pytest.raises(ValueError, match="streamed: a copy"):
        copy.deepcopy(model)
    weight = model.get_base_model().model.layers[0].mlp.up_proj.base_layer.weight
    weight.requires_grad_(True)
    with pytest.raises(RuntimeError, match="was unfrozen"):
        model(**one_batch())
    weight.requires_grad_(False)
    model(**one_batch()).loss.backward()
    layer = model.get_base_model().model.layers[0].mlp.up_proj.base_layer
    layer.weight = nn.Parameter(layer.weight.clone(), requires_grad=False)
    with pytest.raises(RuntimeError, match="replaced by another object"):
        model(**one_batch())
    assert streamed_weights_of(model) is streamed


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


class RecordingLock(PageLock):
    """Locks without a device."""

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[int, int] = {}

    def lock(self, tensor: Tensor, device: torch.device) -> None:
        self.log[tensor.data_ptr()] = tensor.numel()

    def unlock(self, tensor: Tensor) -> None:
        self.log.pop(tensor.data_ptr(), None)

    def release(self) -> None:
        self.log.clear()


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


def test_evaluation_in_inference_mode_between_steps() -> None:
    case = Case(fused=True)
    resident, model = adapted(case), adapted(case)
    for candidate in (resident, model):
        fuse_causal_lm_loss(candidate)
    stream(model)
    for _ in range(2):
        with torch.inference_mode():
            assert torch.equal(resident(**one_batch()).loss, model(**one_batch()).loss)
        assert_same(train(resident, case, steps=1), train(model, case, steps=1))


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


def test_adapters_made_later_count_for_where_a_block_computes() -> None:
    """A block is asked where its parameters are now; those of a deleted adapter do not count."""
    model = adapted(Case())
    streamed = stream(model)
    block = streamed.blocks[0]
    layer = model.get_base_model().model.layers[0]
    layer.input_layernorm.weight = nn.Parameter(torch.ones(32, device="meta"))
    assert block.device(torch.device("meta")) == torch.device("cpu")
    model = model.unload()
    for name, parameter in list(layer.named_parameters()):
        if not streamed.is_streamed(parameter):
            path, _, last = name.rpartition(".")
            layer.get_submodule(path)._parameters[last] = None
    assert block.device(torch.device("cuda", 3)) == torch.device("cuda", 3)


@pytest.mark.parametrize("tied", [False, True])
def test_a_resized_vocabulary_counts(tied: bool) -> None:
    case = Case(changes={"tie_word_embeddings": tied})
    runs = []
    for streams in (False, True):
        model = adapted(case)
        if streams:
            stream(model)
        train(model, case, steps=1)
        inner = model.get_base_model()
        inner.resize_token_embeddings(VOCABULARY + 7, mean_resizing=False)
        with torch.no_grad():
            for end in (inner.get_input_embeddings(), inner.get_output_embeddings()):
                end.weight.requires_grad_(False)
                end.weight[VOCABULARY:] = 0.01
        runs.append(train(model, case, steps=2))
    assert_same(*runs)


@pytest.mark.parametrize("checkpointing", ["none", "non-reentrant", "reentrant"])
def test_generation_between_a_forward_and_its_backward(checkpointing: str) -> None:
    found = []
    for streams in (False, True):
        model = adapted(Case(checkpointing=checkpointing))
        if streams:
            stream(model)
        loss = model(**one_batch(), use_cache=False).loss
        ids = one_batch()["input_ids"]
        tokens = model.eval().generate(input_ids=ids, max_new_tokens=4, do_sample=False)
        model.train()
        loss.backward()
        found.append([tokens, *(p.grad for p in model.parameters() if p.grad is not None)])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_two_graphs_at_once() -> None:
    """Two losses before their backwards, and one graph differentiated twice."""
    found = []
    for streams in (False, True):
        model = adapted(Case())
        if streams:
            stream(model)
        first, second = (model(**one_batch(), use_cache=False).loss for _ in range(2))
        first.backward(retain_graph=True)
        second.backward()
        first.backward()
        found.append([p.grad for p in model.parameters() if p.grad is not None])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_packed_documents(family: str) -> None:
    ids = torch.randint(3, VOCABULARY, (1, 24), generator=torch.Generator().manual_seed(1))
    places = torch.cat([torch.arange(length) for length in (7, 12, 5)])[None]
    found = []
    for streams in (False, True):
        model = adapted(Case(family, checkpointing="non-reentrant"))
        if streams:
            stream(model)
        use_variable_length_attention(model)
        fuse_causal_lm_loss(model)
        losses = []
        for _ in range(3):
            batch = {"input_ids": ids, "labels": ids, "position_ids": places}
            loss = model(**batch, use_cache=False).loss
            loss.backward()
            losses.append(loss)
        found.append([*losses, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) > 20
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


class Opaque(Tensor):
    """A weight of bytes and scales that does not say what it is made of."""

    values: Tensor
    scales: Tensor

    def __new__(cls, values: Tensor, scales: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(cls, values.shape, dtype=scales.dtype)  # type: ignore

    def __init__(self, values: Tensor, scales: Tensor) -> None:
        self.values, self.scales = values, scales

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].values.detach(), args[0].scales.detach())
        plain = [a.values * a.scales if isinstance(a, cls) else a for a in args]
        return func(*plain, **(kwargs or {}))


class Scaled(Opaque):
    """One that says it, as torchao's do."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values", "scales"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], *ignored: Any) -> Scaled:
        return Scaled(parts["values"], parts["scales"])


class OfScaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        values = torch.randint(-127, 127, (16, 16), dtype=torch.int8)
        weight = Scaled(values, torch.rand(16, 1) / 99)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.trained = nn.Parameter(torch.randn(16))

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + (hidden * self.trained) @ self.weight


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_weights_made_of_tensors_stream_as_those(reentrant: bool | None) -> None:
    found = []
    for streams in (False, True):
        torch.manual_seed(0)
        model = nn.ModuleDict({"blocks": nn.ModuleList(OfScaled() for _ in range(3))})
        if streams:
            streamed = stream(model, min_bytes=0, buffers=1)
            names = [slot.attributes[0][1] for slot in streamed.blocks[0].slots]
            assert names == ["values", "scales"]
        hidden = torch.ones(4, 16, requires_grad=True)
        for block in model["blocks"]:  # type: ignore[attr-defined]
            if reentrant is None:
                hidden = block(hidden)
            else:
                hidden = checkpoint(block, hidden, use_reentrant=reentrant)
        hidden.square().sum().backward()
        found.append([p.grad for p in model.parameters() if p.grad is not None])
    assert len(found[0]) == 3
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_weights_of_unknown_make_stay() -> None:
    blocks = nn.ModuleList(OfScaled() for _ in range(3))
    for block in blocks:
        block.other = nn.Parameter(torch.randn(16, 16), requires_grad=False)
        made = Opaque(block.weight.values, block.weight.scales)
        block.weight = nn.Parameter(made, requires_grad=False)
    streamed = stream(nn.ModuleDict({"blocks": blocks}), min_bytes=0)
    assert [slot.name for slot in streamed.blocks[0].slots] == ["other"]


def test_pickling_is_refused_with_the_reason() -> None:
    model = adapted(Case())
    stream(model)
    for part in (model, model.get_base_model().model.layers[0]):
        with pytest.raises(ValueError, match="streamed, which cannot be pickled"):
            torch.save(part, io.BytesIO())


def test_evaluation_and_generation_between_steps() -> None:
    case = Case()
    resident, model = adapted(case), adapted(case)
    streamed = stream(model)
    ids = one_batch()["input_ids"]
    for _ in range(2):
        assert_same(train(resident, case, steps=1), train(model, case, steps=1))
        found, wanted = (
            m.eval().generate(ids, max_new_tokens=5, do_sample=False) for m in (model, resident)
        )
        assert torch.equal(found, wanted)
        with torch.no_grad(), model.disable_adapter(), resident.disable_adapter():
            assert torch.equal(model(ids).logits, resident(ids).logits)
        assert streamed.ring.resident_bytes == 0
        model.train()
        resident.train()


def test_partly_frozen_blocks_stream_what_is_frozen() -> None:
    case = Case()
    resident, model = base(case), base(case)
    for candidate in (resident, model):
        for name, parameter in candidate.named_parameters():
            parameter.requires_grad_("layers.3" in name or "norm" in name)
    streamed = stream(model)
    assert [block.label for block in streamed.blocks[:-1]] == [
        f"model.layers.{n}" for n in range(3)
    ]
    assert_same(train(resident, case, steps=3), train(model, case, steps=3))


class Odd(nn.Module):
    """A weight used past its owner's forward, a saved parameter, an output taken from inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.randn(16, 16))
        self.trained = nn.Parameter(torch.randn(16))

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.first(hidden * self.trained)
        mixed = gate @ self.second.weight
        return hidden + mixed.tanh() * self.scale[: hidden.shape[0]], gate


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_modules_of_ones_own(reentrant: bool | None) -> None:
    def run(streamed: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.ModuleDict({"blocks": nn.ModuleList(Odd() for _ in range(4))})
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("trained" in name)
        if streamed:
            stream(model, min_bytes=0)
        gradients = []
        for step in range(3):
            torch.manual_seed(step)
            hidden, gates = torch.randn(8, 16, requires_grad=True), []
            for block in model["blocks"]:  # type: ignore[attr-defined]
                if reentrant is None:
                    hidden, gate = block(hidden)
                else:
                    hidden, gate = checkpoint(block, hidden, use_reentrant=reentrant)
                gates.append(gate)
            # The last block's output gets no gradient, its gate does.
            loss = torch.stack(gates).square().sum()
            loss.backward()
            gradients += [p.grad.clone() for p in model.parameters() if p.grad is not None]
            model.zero_grad()
        return gradients

    for one, other in zip(run(False), run(True), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("checkpointing", ["none", "non-reentrant"])
def test_a_loss_that_reads_the_head_itself(checkpointing: str) -> None:
    """TRL's fused head and Liger's multiply by `lm_head.weight` in the model's forward."""
    case = Case(checkpointing=checkpointing)
    gradients = []
    for streams in (False, True):
        model = adapted(case)
        causal = model.get_base_model()

        def forward(input_ids: Tensor, causal: Any = causal, **ignored: Any) -> CausalLMOutput:
            hidden = causal.model(input_ids, use_cache=False).last_hidden_state
            return CausalLMOutput(loss=(hidden @ causal.lm_head.weight.t()).logsumexp(-1).mean())

        causal.forward = forward
        if streams:
            stream(model)
        ids = one_batch()["input_ids"]
        first, second = model(input_ids=ids).loss, model(input_ids=ids.flip(0, 1)).loss
        (first + 2 * second).backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert gradients[0]
    assert all(map(torch.equal, *gradients))
