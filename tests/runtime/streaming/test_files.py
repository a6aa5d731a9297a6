"""Weights that stay in memory-mapped files: equal to resident ones, read ahead, given back."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import load_streamed, stream_frozen_weights
from memlint_runtime.streaming import store as stores
from memlint_runtime.streaming import streamed_weights_of
from memlint_runtime.streaming.moves import expect_on_host
from memlint_runtime.streaming.slots import Slot
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from tests.runtime.streaming.schedulers import SCHEDULERS, DelayedCopies
from tests.runtime.streaming.training import (
    Case,
    adapted,
    assert_same,
    base,
    change_a_weight,
    mapped,
    one_batch,
    train,
)
from tests.runtime.streaming.training import stream as stream_copied

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]
ROOT = Path(__file__).parents[3]


def stream(model: Any, **options: Any) -> Any:
    return stream_copied(model, store="files", **options)


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == stores.READER]


@pytest.mark.draws
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    ("case", "buffers"),
    [
        (Case(), 3),
        (Case(fused=True, checkpointing="non-reentrant"), 2),
        (Case(dora=True, checkpointing="reentrant", accumulate=2), 1),
        (Case(fused=True, offload=True, dtype=torch.bfloat16), 1),
        (Case("qwen2", fused=True), 2),
        (Case("mixtral"), 2),
        (Case("gpt2"), 1),
    ],
)
def test_training_is_that_of_resident_weights(
    case: Case, buffers: int, scheduler: str, tmp_path: Path
) -> None:
    from memlint_runtime import fuse_causal_lm_loss

    resident, model = adapted(case), adapted(case)
    path = mapped(model, tmp_path)
    digest = hashlib.sha256(path.read_bytes()).digest()
    streamed = stream(model, buffers=buffers, copies=SCHEDULERS[scheduler]())
    if case.fused:
        fuse_causal_lm_loss(resident)
        fuse_causal_lm_loss(model)
    assert_same(train(resident, case, steps=3), train(model, case, steps=3))
    assert streamed.store.ahead > streamed.store.late / 2
    assert streamed.ring.resident_bytes == 0
    assert hashlib.sha256(path.read_bytes()).digest() == digest


def test_a_head_larger_than_a_block_passes_in_pieces(tmp_path: Path) -> None:
    case = Case(changes={"vocab_size": 1200})
    resident, model = adapted(case), adapted(case)
    mapped(model, tmp_path)
    streamed = stream(model)
    assert_same(train(resident, case, steps=2), train(model, case, steps=2))
    layer, head = streamed.blocks[0].num_bytes, streamed.blocks[-1].num_bytes
    assert head > 2 * layer
    assert streamed.store.num_bytes == stores.STAGES * layer


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_loaded_so_equals_a_loaded_one(
    family: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    case = Case(family, dtype=dtype)
    base(case).save_pretrained(tmp_path, max_shard_size="40KB")
    assert len([*tmp_path.glob("*.safetensors")]) > 1
    resident = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
    model = load_streamed(
        tmp_path, dtype=dtype, store="files", copies=DelayedCopies(), min_bytes=256
    )
    streamed: Any = streamed_weights_of(model)
    wanted, found = resident.state_dict(), model.state_dict()
    assert list(found) == list(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    trained = []
    for candidate in (resident, model):
        torch.manual_seed(1)
        trained.append(train(get_peft_model(candidate, lora).train(), case, steps=3))
    assert_same(*trained)
    assert streamed.store.ahead > 0


def test_a_build_for_accelerators_without_one_takes_the_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PyTorch names the accelerator that it was built for, unless asked for one that is there."""

    def current(check_available: bool = False) -> torch.device | None:
        return None if check_available else torch.device("meta")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", current)
    base(Case()).save_pretrained(tmp_path)
    model = load_streamed(
        tmp_path, dtype=torch.float32, store="files", copies=DelayedCopies(), min_bytes=256
    )
    assert {buffer.device.type for buffer in model.buffers()} == {"cpu"}


@pytest.mark.parametrize("way", ["in place", "data", "on the device", "data on the device"])
def test_a_changed_weight_counts_and_leaves_the_file(way: str, tmp_path: Path) -> None:
    case = Case()
    models = [adapted(case), adapted(case)]
    path = mapped(models[1], tmp_path)
    content = path.read_bytes()
    stream(models[1])

    change_a_weight(models, way)
    assert_same(train(models[0], case, steps=2), train(models[1], case, steps=2))
    assert path.read_bytes() == content


def test_what_was_read_ahead_is_dropped_where_weights_may_change(tmp_path: Path) -> None:
    """A merge through `data` after a step; what the step had read ahead is the former weights."""
    case = Case()
    resident, model = adapted(case), adapted(case)
    mapped(model, tmp_path)
    streamed = stream(model)
    for _ in range(3):
        assert_same(train(resident, case, steps=1), train(model, case, steps=1))
        assert all(stage.part is None for stage in streamed.store._stages)
        for candidate in (resident, model):
            for layer in candidate.get_base_model().model.layers:
                layer.mlp.up_proj.base_layer.weight.data.mul_(2)


@pytest.mark.parametrize("way", ["in place", "data"])
def test_a_weight_changed_in_a_forward_counts_in_its_backward(way: str, tmp_path: Path) -> None:
    """The stage that the block came through still has the former bytes."""
    case = Case()
    models = [adapted(case), adapted(case)]
    mapped(models[1], tmp_path)
    stream(models[1], buffers=1)

    @torch.no_grad()
    def change(module: Any, *ignored: Any) -> None:
        if way == "data":
            module.weight.data = module.weight.data * 2
        else:
            module.weight.mul_(2)

    gradients = []
    for model in models:
        target = model.get_base_model().model.layers[3].self_attn.q_proj.base_layer
        target.register_forward_pre_hook(change)
        model(**one_batch()).loss.backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize("place", ["forward", "backward"])
def test_an_exception_leaves_no_reader(place: str, tmp_path: Path) -> None:
    case = Case(checkpointing="non-reentrant")
    resident, model = adapted(case), adapted(case)
    mapped(model, tmp_path)
    stream(model)
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
    for thread in readers():
        thread.join(timeout=60)
    assert readers() == []
    failing = False
    model.zero_grad()
    assert_same(train(resident, case, steps=2), train(model, case, steps=2))


def test_undo_gives_everything_back(tmp_path: Path) -> None:
    case = Case()
    resident, model = adapted(case), adapted(case)
    path = mapped(model, tmp_path)
    streamed = stream(model)
    assert_same(train(resident, case, steps=2), train(model, case, steps=2))
    assert streamed.store.num_bytes > 0
    streamed.undo()
    assert readers() == []
    assert streamed.store.num_bytes == 0
    path.unlink()
    assert_same(train(resident, case, steps=2), train(model, case, steps=2))


def test_refusals_name_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'host' or 'files', got 'disk'"):
        stream_frozen_weights(adapted(Case()), store="disk")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="quantization needs"):
        load_streamed(tmp_path, quantization="nf4", store="files")
    base(Case("mixtral")).save_pretrained(tmp_path / "converted")
    with pytest.raises(ValueError, match="under the model's names"):
        load_streamed(tmp_path / "converted", dtype=torch.float32, store="files")
    base(Case()).save_pretrained(tmp_path / "wide")
    with pytest.raises(ValueError, match=r"dtype is that, got torch\.bfloat16"):
        load_streamed(tmp_path / "wide", dtype="bfloat16", store="files")
    layer = torch.nn.Linear(8, 8, device="meta")
    with pytest.raises(ValueError, match="'weight' of a Linear is on meta: load the model with"):
        expect_on_host([Slot(layer, "weight", layer.weight)])


MEASURE = """
import sys, torch
from pathlib import Path
from memlint_runtime import load_streamed
from memlint_runtime.streaming import streamed_weights_of
import peft, safetensors.torch, accelerate, transformers

def anonymous():
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024

start = anonymous()
model = load_streamed(sys.argv[1], dtype=torch.bfloat16, store="files")
loaded = anonymous()
streamed = streamed_weights_of(model)
with torch.no_grad():
    model(input_ids=torch.ones(1, 4, dtype=torch.long))
print(loaded - start, streamed.host_bytes, streamed.blocks[0].num_bytes, streamed.store.num_bytes)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's counters")
def test_the_weights_take_no_memory_of_the_process(tmp_path: Path) -> None:
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "head_dim": 128}
    case = Case(changes={**sizes, "num_hidden_layers": 12}, dtype=torch.bfloat16)
    base(case).save_pretrained(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    loaded, weights, block, stages = map(int, done.stdout.split())
    assert weights > 80e6
    assert loaded < 0.2 * weights
    assert stages == stores.STAGES * block
