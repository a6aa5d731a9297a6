"""Weights of a streamed model that are saved, merged, converted, moved and replaced."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from torch import Tensor, nn

from tests.runtime.streaming.schedulers import RecordingLock
from tests.runtime.streaming.training import (
    VOCABULARY,
    Case,
    adapted,
    assert_same,
    base,
    change_a_weight,
    one_batch,
    stream,
    train,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]


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

    change_a_weight(models, way)
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
