"""What scripts do about memory is read: losses, activations, devices, formats, copies."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.memory import estimate
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source

HEAD = """\
import copy
import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
"""
LOAD = 'model = AutoModelForCausalLM.from_pretrained("{name}", {how}).cuda()\n'
STEP = """\
model.train()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for batch in loader:
    {loss}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
HIDDEN = "hidden = model.model(batch['input_ids'], use_cache=False).last_hidden_state\n    "
PLAIN = "loss = model(**batch, use_cache=False).loss"


def settings(text: str) -> dict[str, Any]:
    found = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert found is not None
    return found


def loop(
    top: str = "",
    loss: str = PLAIN,
    name: str = "Qwen/Qwen2.5-3B",
    how: str = "dtype=torch.bfloat16",
    after: str = "",
) -> dict[str, Any]:
    text = HEAD + top + "\n" + LOAD.format(name=name, how=how) + after + "\n"
    return settings(text + STEP.format(loss=loss))


@pytest.mark.parametrize(
    ("top", "call", "wanted"),
    [
        ("", "F.linear_cross_entropy(hidden, w, y, options=torch.nn.LinearCrossEntropyOptions())",
         "chunked"),
        ("", "F.linear_cross_entropy(hidden, w, y)", None),
        ("from torchtune.modules.loss import LinearCrossEntropyLoss as Loss\nloss_fn = Loss()",
         "loss_fn(hidden, y)", "chunked"),
        ("from cut_cross_entropy import linear_cross_entropy", "linear_cross_entropy(hidden, w, y)",
         "liger"),
        ("from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss as Fused\n"
         "loss_fn = Fused()", "loss_fn(w, hidden, y)", "liger"),
    ],
)  # fmt: skip
def test_a_loop_has_the_loss_that_it_computes(top: str, call: str, wanted: str | None) -> None:
    assert loop(top, f"{HIDDEN}loss = {call}").get("loss") == wanted


@pytest.mark.parametrize(
    ("top", "context"),
    [
        ("from torch.autograd.graph import save_on_cpu", "save_on_cpu(pin_memory=True)"),
        ("from torchtune.training import OffloadActivations", "OffloadActivations()"),
        ("from trl.models.activation_offloading import get_act_offloading_ctx_manager as host",
         "host(model)"),
    ],
)  # fmt: skip
def test_activations_wait_where_a_context_puts_them(top: str, context: str) -> None:
    assert loop(top, f"with {context}:\n        {PLAIN}")["offload"] == "activations"
    assert "offload" not in loop(top)


@pytest.mark.parametrize(
    ("top", "after", "wanted"),
    [
        ("torch._functorch.config.activation_memory_budget = 0.3", "model = torch.compile(model)",
         "selective"),
        ("from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts",
         "", "selective"),
        ("from torch.utils.checkpoint import checkpoint", "", "full"),
        ("", "", "none"),
    ],
)  # fmt: skip
def test_what_a_script_recomputes_itself_is_not_kept(top: str, after: str, wanted: str) -> None:
    found = loop(top, after=after)
    assert found["checkpointing"] == wanted
    doubted = {one.name for one in estimate({**found, "seq_len": 512}).assumptions}
    assert ("checkpointing" in doubted) == (wanted != "none" and bool(top))


def trainer(arguments: str, load: str = "dtype=torch.bfloat16") -> dict[str, Any]:
    load = LOAD.format(name="Qwen/Qwen2.5-3B", how=load).replace(".cuda()", "")
    run = f'args = TrainingArguments("o", bf16=True, {arguments})\nTrainer(model, args).train()\n'
    return settings(HEAD + load + run)


def test_keywords_of_checkpointing_say_what_stays() -> None:
    on = "gradient_checkpointing=True, gradient_checkpointing_kwargs={}"
    assert trainer(on.format('{"offload": True}'))["offload"] == "activations"
    dropped = trainer(on.format('{"offload": True, "use_reentrant": False}'))
    assert "offload" not in dropped
    chosen = trainer(on.format('{"use_reentrant": False, "context_fn": make}'))
    assert chosen["checkpointing"] == "selective"


FSDP2 = "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard"


def test_sharded_weights_compute_in_the_dtype_of_their_policy() -> None:
    after = (
        'mesh = init_device_mesh("cuda", (2, 4))\n'
        "policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)\n"
        "fully_shard(model, mesh=mesh, mp_policy=policy)"
    )
    found = loop(FSDP2, how="dtype=torch.float32", after=after)
    wanted = {"sharding": "fsdp2", "world_size": 8, "compute_dtype": "bfloat16"}
    assert wanted.items() <= found.items()
    peak = estimate({**found, "seq_len": 256, "checkpointing": "full"}).peak
    states = sum(one.bytes for one in peak.tensors if one.kind == "optimizer states")
    assert states == pytest.approx(8 * 3.086e9 / 8, rel=0.01)


@pytest.mark.parametrize(
    ("top", "after", "loss", "option"),
    [
        ("from torch.distributed.tensor.experimental import context_parallel", "",
         f"with context_parallel(mesh, buffers=[batch['input_ids']]):\n        {PLAIN}", "cp_size"),
        ("from torch.distributed.tensor.parallel import parallelize_module",
         "parallelize_module(model, mesh, plan)", PLAIN, "tp_size"),
    ],
)  # fmt: skip
def test_a_mesh_says_how_many_share_a_row_or_a_layer(
    top: str, after: str, loss: str, option: str
) -> None:
    found = loop(f'{top}\nmesh = init_device_mesh("cuda", (4,))', loss, after=after)
    assert (found["world_size"], found["sharding_options"]) == (4, {option: 4})


def test_a_load_says_how_many_share_each_layer() -> None:
    found = loop(how='tp_plan="auto", tp_size=4, dtype=torch.bfloat16')
    assert (found["world_size"], found["sharding_options"]) == (4, {"tp_size": 4})
    assert "world_size" not in loop(how='tp_plan="auto", dtype=torch.bfloat16')


def test_deepspeeds_configuration_may_name_the_optimizer() -> None:
    engine = """import deepspeed
options = {"zero_optimization": {"stage": 2}, "optimizer": {"type": "Lion"}}
deepspeed.initialize(model=model, config=options)"""
    assert loop(after=engine)["optimizer"] == "Lion"


# Formats by what loads them: bytes of a matrix of 1024 x 1024, by the formats' own descriptions.
FORMATS = {
    'quantization_config=HqqConfig(nbits=4, group_size=64)': 4.5 / 8,
    'quantization_config=TorchAoConfig("int4_weight_only", group_size=128)': 4.25 / 8,
    'quantization_config=FineGrainedFP8Config()': 1,
    'quantization_config=FPQuantConfig(forward_dtype="nvfp4")': 4.5 / 8,
    'quantization_config=FPQuantConfig(forward_dtype="mxfp4")': 4.25 / 8,
}  # fmt: skip


@pytest.mark.parametrize("how", FORMATS)
def test_a_base_is_as_large_as_its_format(how: str) -> None:
    names = how.partition("=")[2].partition("(")[0]
    top = f"from peft import LoraConfig, get_peft_model\nfrom transformers import {names}"
    after = "model = get_peft_model(model, LoraConfig(r=8))"
    weights = []
    for one in (how, "dtype=torch.bfloat16"):
        phase = estimate({**loop(top, how=one, after=after), "seq_len": 64}).phases[0]
        weights.append(sum(kept.bytes for kept in phase.tensors if kept.kind == "weights"))
    maps = 2.775e9  # numbers of the layers' linear maps
    assert (weights[1] - weights[0]) / maps == pytest.approx(2 - FORMATS[how], rel=0.02)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", {"bits": 4, "type": "awq"}),
        ("Qwen/Qwen3-8B-FP8", {"bits": 8, "type": "fp8"}),
        ("unsloth/Qwen2.5-7B-bnb-4bit", {"bits": 4, "type": "nf4", "double_quant": True}),
        ("Qwen/Qwen2.5-7B", None),
    ],
)
def test_a_checkpoints_name_says_its_format(name: str, stored: dict[str, Any] | None) -> None:
    top = "from peft import LoraConfig, get_peft_model"
    found = loop(top, name=name, after="model = get_peft_model(model, LoraConfig(r=8))")
    kept = found.get("quantization", {})
    assert {key: kept[key] for key in kept if key != "kbit_preparation"} == (stored or {})


@pytest.mark.parametrize(
    ("after", "held"),
    [
        ("ema = copy.deepcopy(model)", True),
        ("ema = copy.deepcopy(model).cpu()", False),
        ('ema = copy.deepcopy(model).to("cpu")', False),
        ("best = copy.deepcopy(model.state_dict())", True),
    ],
)
def test_a_copy_counts_where_it_stays_on_the_gpu(after: str, held: bool) -> None:
    assert loop(after=after).get("copies", 0) == held


def test_tiles_of_an_mlp_leave_its_input_alone() -> None:
    """Faked, Qwen2.5-0.5B, 16,384 tokens, nothing recomputed: 35.54 and 21.29 GiB at the peak."""
    text = HEAD + "from memlint_runtime import tile_mlp\n"
    text += LOAD.format(name="Qwen/Qwen2.5-0.5B", how="dtype=torch.bfloat16") + "tile_mlp(model)\n"
    found = settings(text + STEP.format(loss=PLAIN))
    assert found["tiled_mlp"] is True
    run = {**found, "seq_len": 16384, "checkpointing": "none", "loss": "liger"}
    tiled, plain = (
        next(one for one in estimate({**run, "tiled_mlp": on}).phases if one.name == "forward")
        for on in (True, False)
    )
    assert (plain.total - tiled.total) / 2**30 == pytest.approx(35.54 - 21.29, rel=0.01)


SMALL = {
    "model_type": "qwen2", "vocab_size": 1000, "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 12, "num_attention_heads": 14, "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}  # fmt: skip


def test_magnitudes_of_dora_keep_both_results() -> None:
    """Faked, 4,096 tokens, all linear maps: 4.72 GiB at the peak with LoRA, 8.33 with DoRA."""
    top = "from peft import LoraConfig, get_peft_model"
    after = 'get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", use_dora=True))'
    found = loop(top, after=f"model = {after}")
    assert found["lora"]["dora"] is True
    run = {**found, "model": {"config": SMALL}, "seq_len": 4096, "loss": "full_logits"}
    peaks = [
        estimate({**run, "lora": {**found["lora"], "dora": on}}).peak.total for on in (True, False)
    ]
    assert (peaks[0] - peaks[1]) / 2**30 == pytest.approx(8.33 - 4.72, rel=0.03)


def test_segments_that_grow_reserve_little_more_than_is_allocated() -> None:
    setting = 'import os\nos.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:{}"'
    grown, fixed = (
        estimate({**loop(setting.format(on)), "seq_len": 2048, "checkpointing": "full"})
        for on in (True, False)
    )
    assert grown.reserved.estimate < 1.1 * grown.allocated.estimate
    assert fixed.reserved.estimate > 1.2 * fixed.allocated.estimate
