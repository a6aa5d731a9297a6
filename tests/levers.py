"""The memory levers of 2026: one row each, without it and with it, and what it changes in bytes.

``python -m tests.levers`` writes ``docs/levers.md`` from the rows and from what memlint says of
them; ``tests/memlint/test_levers_page.py`` holds both. Sizes are those of Qwen2.5-7B unless a row
says otherwise: N weights in L layers of width D, an inner width INNER, a vocabulary V.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from memlint.cli.main import run

PAGE = Path(__file__).parent.parent / "docs" / "levers.md"
GIB = 2**30
N, L, D, INNER, V, KV = 7.6156e9, 28, 3584, 18944, 152064, 512
T, LONG = 4096, 32768  # tokens of a row
TABLES = 2 * V * D
MAPS = L * (2 * D * D + 2 * D * KV + 3 * D * INNER)  # numbers of the layers' linear maps

TRAINER = """\
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
{top}
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
rows = load_dataset("a", split="train").map(
    lambda row: tokenizer(row["text"], truncation=True, max_length={length})
)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.{dtype})
{after}
args = TrainingArguments("out", per_device_train_batch_size=1, bf16=True, {more})
Trainer(model, args, train_dataset=rows).train()
"""
SFT = """\
import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer
{top}
rows = load_dataset("a", split="train")
model = AutoModelForCausalLM.from_pretrained("{name}", dtype=torch.bfloat16{how})
args = SFTConfig("out", per_device_train_batch_size=1, max_length={length}, bf16=True, {more})
{after}
SFTTrainer(model, args=args, train_dataset=rows, {given}).train()
"""
LOOP = """\
import torch
import torch.nn.functional as F
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer
{top}
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
rows = load_dataset("a", split="train").map(
    lambda row: tokenizer(row["text"], truncation=True, max_length={length})
)
loader = DataLoader(rows, batch_size=1)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.{dtype}).cuda()
{after}
model.train()
for batch in loader:
    {loss}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TUNE = """\
model:
  _component_: torchtune.models.qwen2_5.qwen2_5_7b_base
tokenizer:
  _component_: torchtune.models.qwen2_5.qwen2_5_tokenizer
  path: /tmp/vocab.json
  max_seq_len: {length}
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: true
batch_size: 1
epochs: 1
gradient_accumulation_steps: 1
optimizer: {{_component_: {optimizer}, lr: 2e-5}}
optimizer_in_bwd: {in_backward}
clip_grad_norm: null
loss:
  _component_: {loss}
device: cuda
enable_activation_checkpointing: {again}
enable_activation_offloading: {host}
dtype: bf16
"""
ADAM = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)"
PLAIN = "loss = model(**batch, use_cache=False).loss"
LORA = 'peft_config=LoraConfig(r=8, target_modules="all-linear")'
PEFT = "from peft import LoraConfig, get_peft_model"
ADAPTED = 'model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear"))'
FROZEN = f"{ADAPTED}\nmodel.gradient_checkpointing_enable()\n{ADAM}"
HIDDEN = "hidden = model.model.model(batch['input_ids'], use_cache=False).last_hidden_state\n    "


def trainer(more: str = "", *, top: str = "", after: str = "", dtype: str = "bfloat16") -> str:
    return TRAINER.format(top=top, after=after, more=more, dtype=dtype, length=T)


def sft(more: str = "", *, name: str = "Qwen/Qwen2.5-7B", **parts: str) -> str:
    empty = {**dict.fromkeys(("top", "how", "after", "given"), ""), "length": str(T)}
    return SFT.format(name=name, more=more, **{**empty, **parts})


def loop(
    after: str = ADAM,
    *,
    top: str = "",
    loss: str = PLAIN,
    dtype: str = "bfloat16",
    length: int = T,
) -> str:
    return LOOP.format(top=top, after=after, loss=loss, dtype=dtype, length=length)


def tune(**parts: str) -> str:
    usual = {"optimizer": "torch.optim.AdamW", "in_backward": "false", "again": "true"}
    usual |= {"host": "false", "loss": "torchtune.modules.loss.LinearCrossEntropyLoss"}
    usual["length"] = str(T)
    return TUNE.format(**{**usual, **parts})


class Lever(NamedTuple):
    """One lever.

    without, with_: the script (or recipe, or files by their names) without and with it.
    rule: what speaks where it is missing and is silent where it is used; "" with a ``reason``.
    saved: bytes that it takes from ``kind`` in ``phase`` (from the peak, where ``kind`` is empty),
        within ``within``; None with a ``reason``. how: where that number comes from.
    case: a case of ``tests/cases`` or a test that shows more of it.
    """

    group: str
    name: str
    without: str | Mapping[str, str]
    with_: str | Mapping[str, str]
    rule: str
    saved: float | None
    how: str
    case: str
    reason: str = ""
    kind: str = ""
    phase: str = ""
    within: float = 0.03
    gpu: str = ""
    target: str = "newest"


# What layers keep of a token (docs/memory-model.md), and of it what checkpointing keeps.
KEPT = 16 * D + 4 * (D + KV) + 4 * 28 + 8 * INNER
STATES = "optimizer states"
CHECKPOINTED = "gradient_checkpointing=True"
STRINGS = {  # one factor of GaLore's and APOLLO's states by the rank
    rank: L
    * sum(
        count * 4 * rank * (min(rows, columns) + 2 * max(rows, columns))
        for count, rows, columns in ((2, D, D), (2, KV, D), (3, INNER, D))
    )
    for rank in (128, 256)
}


def _lever(*given: Any, **more: Any) -> Lever:
    """A row whose two sides may come from one generator."""
    return Lever(*given, **more)


def _states(name: str, left: float, how: str, **more: Any) -> Lever:
    """One of the Trainer's optimizers beside AdamW, over float32 weights."""
    given = f"{CHECKPOINTED}, optim={name!r}"
    if name.startswith(("galore", "apollo")):
        given += ", optim_target_modules=['attn', 'mlp']"
    fields = {"rule": "MEM501", "case": "tests/cases/MEM501/clean_other_optimizers.py", **more}
    return _lever(
        "Optimizers", f"`optim={name!r}`".replace("'", '"'), trainer(CHECKPOINTED, dtype="float32"),
        trainer(given, dtype="float32"), saved=8 * N - left, how=how, kind=STATES,
        phase="optimizer step", **fields,
    )  # fmt: skip


def _made(name: str, make: str, left: float, how: str, top: str = "", **more: Any) -> Lever:
    """An optimizer that a loop makes, over float32 weights."""
    adam = loop(ADAM, dtype="float32")
    fields = {"rule": "MEM501", "case": "tests/cases/MEM501/clean_other_optimizers.py", **more}
    return _lever(
        "Optimizers", name, adam, loop(f"optimizer = {make}", top=top, dtype="float32"),
        saved=8 * N - left, how=how, kind=STATES, phase="optimizer step", **fields,
    )  # fmt: skip


MODEL = "model.parameters(), lr=1e-5"
FSDP2 = "from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard"
DDP = "model = torch.nn.parallel.DistributedDataParallel(model)"
SHARDED = "fully_shard(model)"
ZERO = "deepspeed={{'bf16': {{'enabled': True}}, 'zero_optimization': {{'stage': {}}}"
CP = """\
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel"""
MESH = 'mesh = init_device_mesh("cuda", (4,))\n'
LORA_LOOP = ADAPTED
NF4 = 'nf4 = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")'
QUANTIZED = ", quantization_config=nf4"
EXPERTS = 48 * 128 * 3 * 2048 * 768  # numbers of the experts of Qwen3-30B-A3B


def _on(gpus: int, script: str) -> dict[str, str]:
    return {"train.py": script, "run.sh": f"torchrun --nproc_per_node {gpus} train.py\n"}


def grpo(more: str, share: float) -> str:
    return f"""\
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

rows = load_dataset("a", split="train")
args = GRPOConfig("out", {more}use_vllm=True, vllm_mode="colocate",
                  vllm_gpu_memory_utilization={share})
GRPOTrainer("Qwen/Qwen2.5-7B", args=args, reward_funcs=score, train_dataset=rows).train()
"""


LEVERS = [
    _lever(
        "Activations",
        "`gradient_checkpointing=True`",
        trainer("gradient_checkpointing=False"),
        trainer(CHECKPOINTED),
        "MEM301",
        T * L * (KEPT - 2 * D),
        "arithmetic",
        "tests/cases/MEM301/clean_a_loop_with_checkpointing.py",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Activations",
        "`activation_memory_budget` of a compiled graph",
        loop("model = torch.compile(model)\n" + ADAM),
        loop(
            "torch._functorch.config.activation_memory_budget = 0.3\n"
            "model = torch.compile(model)\n" + ADAM
        ),
        "MEM301",
        None,
        "",
        "tests/cases/MEM301/clean_a_budget_in_a_loop.py",
        "the compiler chooses what stays; counted as selective, and said to be assumed",
    ),
    _lever(
        "Activations",
        "selective checkpointing (`create_selective_checkpoint_contexts`)",
        loop(),
        loop(
            'model.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": kept})\n'
            + ADAM,
            top="from functools import partial\nfrom torch.utils.checkpoint import "
            "create_selective_checkpoint_contexts\nkept = partial("
            "create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])",
        ),
        "MEM301",
        None,
        "",
        "tests/memlint/memory/test_levers.py::test_what_a_models_own_checkpointing_keeps_is_kept",
        "the list of operations decides; counted as torchtitan's, and said to be assumed",
    ),
    _lever(
        "Activations",
        "TRL's `activation_offloading=True`",
        *(sft(given, length=str(LONG)) for given in ("", "activation_offloading=True")),
        "MEM305",
        LONG * (L - 5) * 2 * D,
        "arithmetic; five layers are under way",
        "tests/cases/MEM305/of_a_trainer_whose_tokenizer_cuts_late.py",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Activations",
        "`save_on_cpu`, torchtune's `OffloadActivations` in a loop",
        loop("model.gradient_checkpointing_enable()\n" + ADAM, length=LONG),
        loop(
            "model.gradient_checkpointing_enable()\n" + ADAM,
            length=LONG,
            top="from torch.autograd.graph import save_on_cpu",
            loss=f"with save_on_cpu(pin_memory=True):\n        {PLAIN}",
        ),
        "MEM305",
        LONG * (L - 5) * 2 * D,
        "arithmetic; five layers are under way",
        "tests/cases/MEM305/clean_a_loop_that_saves_on_the_host.py",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Activations",
        'Unsloth\'s `use_gradient_checkpointing="unsloth"`',
        *(
            f"""\
from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer
model, tokenizer = FastLanguageModel.from_pretrained("Qwen/Qwen2.5-7B", max_seq_length=4096)
model = FastLanguageModel.get_peft_model(model, r=16, use_gradient_checkpointing={given})
args = SFTConfig("out", per_device_train_batch_size=1)
SFTTrainer(model, args=args, train_dataset=rows).train()
"""
            for given in ("True", '"unsloth"')
        ),
        "",
        T * (L - 5) * 2 * D,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::test_unsloth_decides_format_checkpoints_and_lengths",
        "Unsloth has it on by default",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Activations",
        "MLPs in tiles: `tile_mlp`, Liger's, DeepSpeed's",
        loop(),
        loop("tile_mlp(model)\n" + ADAM, top="from memlint_runtime import tile_mlp"),
        "",
        T * L * 8 * INNER,
        "fakes",
        "tests/memlint/memory/test_levers.py::test_tiles_of_an_mlp_leave_its_input_alone",
        "checkpointing takes more, and tiles cost time; `estimate --fit` weighs them",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Losses",
        'TRL\'s `loss_type="chunked_nll"`',
        sft('loss_type="nll"', given=LORA),
        sft('loss_type="chunked_nll"', given=LORA),
        "MEM201",
        12 * T * V - 4 * T * 32768,
        "arithmetic: one tile stays",
        "tests/cases/MEM201/losses_of_all_logits_asked_for.py",
        phase="loss",
        target="trl=1.9,transformers=5.20",
    ),
    _lever(
        "Losses",
        "`use_liger_kernel=True`",
        *(
            trainer(f"{CHECKPOINTED}, use_liger_kernel={on}", top=PEFT, after=ADAPTED)
            for on in (False, True)
        ),
        "MEM201",
        12 * T * V,
        "arithmetic",
        "tests/cases/MEM201/clean_ligers_kernel_is_the_other_way_to_the.py",
        phase="loss",
    ),
    _lever(
        "Losses",
        "PyTorch's `linear_cross_entropy`",
        loop(FROZEN, top=PEFT),
        loop(
            FROZEN,
            top=PEFT,
            loss=HIDDEN + "loss = F.linear_cross_entropy(hidden.flatten(0, 1), "
            "model.lm_head.weight, batch['labels'].flatten(), "
            "options=torch.nn.LinearCrossEntropyOptions())",
        ),
        "MEM201",
        12 * T * V - 16 * T * D,
        "arithmetic: what the final norm makes stays",
        "tests/cases/MEM201/clean_loop_with_a_fused_loss.py",
        phase="loss",
    ),
    _lever(
        "Losses",
        "`cut_cross_entropy`",
        loop(FROZEN, top=PEFT),
        loop(
            FROZEN,
            top=f"{PEFT}\nfrom cut_cross_entropy import linear_cross_entropy",
            loss=HIDDEN
            + "loss = linear_cross_entropy(hidden, model.lm_head.weight, batch['labels'], "
            "shift=True)",
        ),
        "MEM201",
        12 * T * V - 16 * T * D,
        "arithmetic: what the final norm makes stays",
        "tests/memlint/memory/test_levers.py::test_a_loop_has_the_loss_that_it_computes",
        phase="loss",
    ),
    _lever(
        "Losses",
        "torchtune's `LinearCrossEntropyLoss`",
        {"recipe.yaml": tune(loss="torch.nn.CrossEntropyLoss")},
        {"recipe.yaml": tune()},
        "MEM201",
        7 * T * V - TABLES / 2 * 2,
        "arithmetic: five bytes stay, and the head's gradient",
        "tests/cases/MEM201/torchtune_in_chunks.py",
        phase="loss",
    ),
    _states("adamw_8bit", 8 * V * D + 2 * (N - V * D) * (1 + 4 / 256), "arithmetic"),
    _states("paged_adamw_8bit", 0, "arithmetic"),
    _states("adamw_torch_8bit", 2 * N * (1 + 4 / 256), "arithmetic"),
    _states("adamw_torch_4bit", 2 * N * (0.5 + 4 / 128), "arithmetic"),
    _states("galore_adamw", 8 * TABLES + STRINGS[128], "arithmetic"),
    _states("apollo_adamw", 8 * TABLES + STRINGS[256], "arithmetic"),
    _states("lion_32bit", 4 * N, "arithmetic"),
    _states(
        "schedule_free_adamw",
        8 * N,
        "arithmetic",
        rule="",
        reason="two states, as Adam has: it saves the schedule, no memory",
    ),
    _made(
        "torchao's `AdamW8bit`",
        f"AdamW8bit({MODEL})",
        2 * N * (1 + 4 / 256),
        "arithmetic",
        "from torchao.optim import AdamW8bit",
    ),
    _made(
        "torchao's `AdamW4bit`",
        f"AdamW4bit({MODEL})",
        2 * N * (0.5 + 4 / 128),
        "arithmetic",
        "from torchao.optim import AdamW4bit",
    ),
    _made(
        "torchao's `AdamWFp8`",
        f"AdamWFp8({MODEL})",
        2 * N * (1 + 4 / 256),
        "arithmetic",
        "from torchao.optim import AdamWFp8",
    ),
    _made(
        "torchao's `CPUOffloadOptimizer`",
        "CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-5, fused=True)",
        0,
        "arithmetic",
        "from torchao.optim import CPUOffloadOptimizer",
    ),
    _made(
        "DeepSpeed's `DeepSpeedCPUAdam`",
        f"DeepSpeedCPUAdam({MODEL})",
        0,
        "arithmetic",
        "from deepspeed.ops.adam import DeepSpeedCPUAdam",
    ),
    _made("Lion", f"Lion({MODEL})", 4 * N, "arithmetic", "from lion_pytorch import Lion"),
    _made(
        "Adam-mini",
        "Adam_mini(model.named_parameters(), lr=1e-5, dim=3584, n_heads=28)",
        4 * N,
        "arithmetic",
        "from adam_mini import Adam_mini",
    ),
    _made(
        "schedule-free AdamW",
        f"AdamWScheduleFree({MODEL})",
        8 * N,
        "arithmetic",
        "from schedulefree import AdamWScheduleFree",
        rule="",
        reason="two states, as Adam has: it saves the schedule, no memory",
    ),
    _made(
        "Muon for the matrices, AdamW for the rest",
        "torch.optim.Muon([p for n, p in model.named_parameters() if p.ndim == 2 and "
        "'embed' not in n and 'lm_head' not in n], lr=1e-3)\nothers = torch.optim.AdamW("
        "[p for n, p in model.named_parameters() if p.ndim != 2 or 'embed' in n or "
        "'lm_head' in n], lr=1e-5)",
        8 * TABLES + 4 * MAPS,
        "arithmetic",
        case="tests/cases/MEM501/clean_vectors_beside_muon.py",
    ),
    _lever(
        "Optimizers",
        "`fused=True`",
        loop(ADAM.replace(", fused=True", "")),
        loop(ADAM),
        "MEM507",
        2 * N,
        "arithmetic",
        "tests/memlint/memory/test_lever_prices.py",
        kind="optimizer temporaries",
        phase="optimizer step",
    ),
    _lever(
        "Optimizers",
        "a step in backward (`OptimizerInBackward`)",
        loop(),
        loop(
            "optimizer = OptimizerInBackward(torch.optim.AdamW(model.parameters(), lr=1e-5))",
            top="from memlint_runtime import OptimizerInBackward",
        ),
        "MEM504",
        2 * N,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::"
        "test_a_loop_that_steps_in_backward_keeps_no_gradients",
        kind="gradients",
        phase="optimizer step",
        within=0.1,
    ),
    _lever(
        "Optimizers",
        "torchtune's `optimizer_in_bwd`",
        {"recipe.yaml": tune()},
        {"recipe.yaml": tune(in_backward="true")},
        "MEM504",
        2 * N,
        "arithmetic",
        "tests/cases/recipes/torchtune_full_trades.yaml",
        kind="gradients",
        phase="optimizer step",
        within=0.1,
    ),
    _lever(
        "Optimizers",
        "torchtune's 8-bit optimizer",
        {"recipe.yaml": tune()},
        {"recipe.yaml": tune(optimizer="bitsandbytes.optim.PagedAdamW8bit")},
        "MEM501",
        4 * N,
        "arithmetic",
        "tests/cases/recipes/torchtune_full_trades.yaml",
        kind=STATES,
        phase="optimizer step",
    ),
    _lever(
        "Activations",
        "torchtune's `enable_activation_checkpointing`",
        {"recipe.yaml": tune(again="false")},
        {"recipe.yaml": tune()},
        "MEM301",
        T * L * (KEPT - 2 * D),
        "arithmetic",
        "tests/cases/recipes/torchtune_full_single_device.yaml",
        kind="activations",
        phase="loss",
        within=0.2,
    ),
    _lever(
        "Activations",
        "torchtune's `enable_activation_offloading`",
        {"recipe.yaml": tune(length=str(LONG))},
        {"recipe.yaml": tune(host="true", length=str(LONG))},
        "MEM305",
        LONG * (L - 5) * 2 * D,
        "arithmetic; five layers are under way",
        "tests/cases/recipes/torchtune_offloaded_weights_clean.yaml",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Several GPUs",
        "FSDP2: `fully_shard`",
        *(_on(8, loop(after, top=FSDP2)) for after in (f"{DDP}\n{ADAM}", f"{SHARDED}\n{ADAM}")),
        "MEM508",
        4 * N * 7 / 8,
        "arithmetic",
        "tests/memlint/memory/test_lever_prices.py::test_sharding_saves_what_the_other_gpus_keep",
        kind=STATES,
        phase="optimizer step",
    ),
    _lever(
        "Several GPUs",
        "FSDP2 with `CPUOffloadPolicy`",
        *(
            _on(8, loop(after, top=FSDP2))
            for after in (
                f"{DDP}\n{ADAM}",
                SHARDED.replace("model)", "model, offload_policy=CPUOffloadPolicy())")
                + f"\n{ADAM}",
            )
        ),
        "MEM508",
        4 * N,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::"
        "test_weights_on_the_host_leave_one_gpu_without_states",
        kind=STATES,
        phase="optimizer step",
    ),
    _lever(
        "Several GPUs",
        "FSDP2 with `MixedPrecisionPolicy`",
        _on(
            8,
            loop(
                f"{SHARDED}\n{ADAM}",
                top=FSDP2.replace("MixedPrecisionPolicy, ", ""),
                dtype="float32",
            ),
        ),
        _on(
            8,
            loop(
                "fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))"
                f"\n{ADAM}",
                top=FSDP2,
                dtype="float32",
            ),
        ),
        "MEM402",
        T * L * (8 * D + 4 * (D + KV) + 8 * INNER),
        "arithmetic",
        "tests/cases/MEM402/clean_fsdp_computes_in_bf16.py",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Several GPUs",
        "DeepSpeed's ZeRO-3",
        *(_on(8, trainer(f"{CHECKPOINTED}, {more}")) for more in ("", ZERO.format("3}"))),
        "MEM508",
        2 * N * 7 / 8,
        "arithmetic",
        "tests/cases/recipes/deepspeed_zero.yaml",
        kind="weights",
        phase="optimizer step",
    ),
    _lever(
        "Several GPUs",
        "ZeRO-3 with `offload_optimizer`",
        *(
            _on(8, trainer(f"{CHECKPOINTED}, {more}"))
            for more in ("", ZERO.format("3, 'offload_optimizer': {'device': 'cpu'}}"))
        ),
        "MEM508",
        4 * N,
        "arithmetic",
        "tests/cases/recipes/deepspeed_zero.yaml",
        kind=STATES,
        phase="optimizer step",
    ),
    _lever(
        "Several GPUs",
        "context parallelism (`context_parallel`, `cp_size`)",
        *(
            loop("model.gradient_checkpointing_enable()\n" + MESH + ADAM, top=CP, loss=loss)
            for loss in (
                PLAIN,
                f"with context_parallel(mesh, buffers=[batch['input_ids']]):\n        {PLAIN}",
            )
        ),
        "",
        T * (L + 4) * 2 * D * 3 / 4,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::test_a_mesh_says_how_many_share_a_row_or_a_layer",
        "a plan for several GPUs: `memlint estimate --fit --gpus N` finds it",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Several GPUs",
        "Ulysses' sequence parallelism (`sp_size`)",
        *(
            _on(
                4,
                trainer(f"{CHECKPOINTED}, {more}", top="from accelerate import ParallelismConfig"),
            )
            for more in ("", "parallelism_config=ParallelismConfig(sp_size=4)")
        ),
        "",
        T * (L + 4) * 2 * D * 3 / 4,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::"
        "test_weights_are_divided_over_those_that_share_rows_and_not_over_copies",
        "as context parallelism",
        kind="activations",
        phase="loss",
    ),
    _lever(
        "Several GPUs",
        'tensor parallelism (`tp_plan="auto"`, `tp_size`)',
        *(
            _on(4, loop(f"{LORA_LOOP}\n{ADAM}", top=PEFT, dtype=f"bfloat16{more}"))
            for more in ("", ', tp_plan="auto", tp_size=4')
        ),
        "",
        2 * (MAPS + TABLES) * 3 / 4,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::test_a_load_says_how_many_share_each_layer",
        "a plan for several GPUs, as context parallelism; embeddings, which transformers leaves "
        "whole, are counted as divided",
        kind="weights",
        phase="load",
    ),
    _lever(
        "Several GPUs",
        "expert parallelism (`enable_expert_parallel`)",
        *(
            _on(
                8,
                loop(
                    ADAM,
                    top="from transformers.distributed import DistributedConfig",
                    dtype=f"bfloat16{more}",
                ).replace("Qwen2.5-7B", "Qwen3-30B-A3B"),
            )
            for more in ("", ", distributed_config=DistributedConfig(enable_expert_parallel=True)")
        ),
        "",
        2 * EXPERTS * 7 / 8,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::"
        "test_experts_are_shared_by_the_processes_of_a_launcher",
        "a plan for several GPUs, as context parallelism",
        kind="weights",
        phase="load",
    ),
    _lever(
        "Weights",
        "a base in 4 bits (`BitsAndBytesConfig`)",
        sft(given=LORA),
        sft(given=LORA, top=NF4, how=QUANTIZED),
        "MEM407",
        MAPS * (2 - 0.5 - 4 / 64),
        "arithmetic",
        "tests/cases/MEM407/clean_quantized.py",
        kind="weights",
        phase="load",
    ),
    _lever(
        "Weights",
        "double quantization (Llama 3.1 70B)",
        *(
            sft(given=LORA, top=top, how=QUANTIZED, name="meta-llama/Llama-3.1-70B")
            for top in (NF4, NF4.replace('"nf4"', '"nf4", bnb_4bit_use_double_quant=True'))
        ),
        "MEM413",
        68.45e9 / 64 * (4 - 1 - 4 / 256),
        "arithmetic",
        "tests/cases/MEM413/the_scales_of_a_large_base.py",
        kind="weights",
        phase="load",
    ),
    _lever(
        "Weights",
        "a base in NVFP4 or MXFP4 (`FPQuantConfig`)",
        sft(given=LORA),
        sft(
            given=LORA,
            top="from transformers import FPQuantConfig",
            how=', quantization_config=FPQuantConfig(forward_dtype="nvfp4")',
        ),
        "MEM407",
        MAPS * (2 - 4.5 / 8),
        "arithmetic",
        "tests/memlint/memory/test_levers.py::test_a_base_is_as_large_as_its_format",
        kind="weights",
        phase="load",
    ),
    _lever(
        "Weights",
        "a base in 8 bits (`FineGrainedFP8Config`)",
        sft(given=LORA),
        sft(
            given=LORA,
            top="from transformers import FineGrainedFP8Config",
            how=", quantization_config=FineGrainedFP8Config()",
        ),
        "MEM407",
        MAPS,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::test_a_base_is_as_large_as_its_format",
        kind="weights",
        phase="load",
    ),
    _lever(
        "Weights",
        "a frozen base that streams from the host (`load_streamed`)",
        sft("packing=True", given=LORA),
        sft("packing=True", given=LORA, top="from memlint_runtime import load_streamed").replace(
            "AutoModelForCausalLM.from_pretrained(", "load_streamed("
        ),
        "MEM412",
        2 * (N - 2 * MAPS / L),
        "arithmetic: two layers stay",
        "tests/cases/MEM412/clean_a_small_base_and_one_that_streams.py",
        kind="weights",
        phase="load",
    ),
    _lever(
        "Weights",
        "float8 training (torchao, accelerate's `fp8`)",
        loop(dtype="float32"),
        loop(
            "convert_to_float8_training(model)\n" + ADAM,
            dtype="float32",
            top="from torchao.float8 import convert_to_float8_training",
        ),
        "MEM402",
        None,
        "",
        "tests/cases/MEM402/clean_a_loop_whose_matmuls_are_in_float8.py",
        "it saves time; weights, states and what layers keep stay as wide",
    ),
    _lever(
        "Weights",
        "quantization-aware training (`QATConfig`)",
        loop(),
        loop(
            "quantize_(model, QATConfig(base))\n" + ADAM,
            top="from torchao.quantization.qat import QATConfig, quantize_",
        ),
        "",
        None,
        "",
        "tests/memlint/memory/test_levers.py::"
        "test_copies_of_training_that_knows_of_its_quantization_are_said",
        "a cost: `estimate` says that its rounded copies are not counted",
    ),
    _lever(
        "Adapters",
        "DoRA (`use_dora=True`)",
        sft(given=LORA),
        sft(given=LORA.replace("r=8", "r=8, use_dora=True")),
        "",
        None,
        "",
        "tests/memlint/memory/test_levers.py::test_magnitudes_of_dora_keep_both_results",
        "a cost: both results of every adapted map are kept, and counted",
    ),
    _lever(
        "Adapters",
        "LoRA-FA (`create_lorafa_optimizer`)",
        loop(f"{LORA_LOOP}\n{ADAM}", top=PEFT),
        loop(
            f"{LORA_LOOP}\noptimizer = create_lorafa_optimizer(model, r=8, lora_alpha=16, lr=1e-4)",
            top=f"{PEFT}\nfrom peft.optimizers import create_lorafa_optimizer",
        ),
        "",
        8 * 8 * L * (3 * D + D + 2 * D + INNER),
        "arithmetic",
        "tests/memlint/memory/test_levers.py::"
        "test_an_adapter_with_a_fixed_first_matrix_keeps_no_input",
        "it changes which matrices learn",
        kind=STATES,
        phase="optimizer step",
    ),
    _lever(
        "Adapters",
        "VB-LoRA (`VBLoRAConfig`)",
        sft(given=LORA),
        sft(
            given=LORA.replace("LoraConfig(r=8", "VBLoRAConfig(r=8"),
            top="from peft import VBLoRAConfig",
        ),
        "",
        None,
        "",
        "tests/memlint/memory/test_levers.py::"
        "test_banks_of_vectors_are_counted_as_the_matrices_that_they_make",
        "its vectors are made into the same matrices, which are what a step needs: counted as LoRA",
    ),
    _lever(
        "Adapters",
        "`trainable_token_indices` for new words",
        *(
            sft(given=LORA.replace("r=8", f"r=8, {more}"))
            for more in (
                'modules_to_save=["embed_tokens", "lm_head"]',
                "trainable_token_indices=[5, 6]",
            )
        ),
        "MEM411",
        4 * TABLES,
        "arithmetic",
        "tests/cases/MEM411/new_words.py",
        kind=STATES,
        phase="optimizer step",
    ),
    _lever(
        "Generation",
        "vLLM's sleep (`vllm_enable_sleep_mode`)",
        grpo("", 0.3),
        grpo("vllm_enable_sleep_mode=True, ", 0.3),
        "MEM604",
        0.3 * 80 * GIB,
        "arithmetic",
        "tests/cases/MEM604/clean_it_sleeps.py",
        kind="vLLM",
        phase="backward",
        gpu="a100-80gb",
    ),
    _lever(
        "Generation",
        "vLLM's share (`vllm_gpu_memory_utilization`)",
        grpo("", 0.8),
        grpo("", 0.3),
        "MEM603",
        0.5 * 80 * GIB,
        "arithmetic",
        "tests/cases/MEM603/clean_given_back_while_asleep.py",
        kind="vLLM",
        phase="backward",
        gpu="a100-80gb",
    ),
    _lever(
        "Generation",
        'vLLM\'s `kv_cache_dtype="fp8"` beside a loop',
        *(
            loop(
                top=f'from vllm import LLM\nengine = LLM("Qwen/Qwen2.5-7B", '
                f"gpu_memory_utilization=0.3{more})",
                loss=f"answers = engine.generate(prompts)\n    {PLAIN}",
            )
            for more in ("", ', kv_cache_dtype="fp8"')
        ),
        "",
        0,
        "arithmetic",
        "tests/memlint/memory/test_levers.py::test_an_engine_beside_a_loop_takes_its_share",
        "more tokens go into vLLM's share, which stays as large",
        kind="vLLM",
        phase="backward",
        gpu="a100-80gb",
    ),
    _lever(
        "Allocator and data",
        "`expandable_segments:True`",
        loop(),
        loop(top="import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'"),
        "MEM109",
        None,
        "",
        "tests/memlint/memory/test_levers.py::"
        "test_segments_that_grow_reserve_little_more_than_is_allocated",
        "it is what is reserved that falls: fragments, which depend on the rows",
    ),
    _lever(
        "Allocator and data",
        '`packing_strategy="bfd_split"`',
        *(
            sft(more).replace("batch_size=1", "batch_size=4")
            for more in ("", 'packing=True, packing_strategy="bfd_split"')
        ),
        "MEM103",
        None,
        "",
        "tests/cases/MEM103/clean_packed_paddingfree.py",
        "fewer steps of full rows: memory for nothing, not a lower peak",
    ),
]

# Levers without a row, and why.
LEFT_OUT = {
    "Megatron's switches (`--recompute-granularity`, `--sequence-parallel`)": (
        "its models and its command line are its own: memlint says nothing of them"
    ),
    "weights that vLLM and the trainer share (Unsloth's standby)": (
        "Unsloth decides it by a variable of the environment; memlint leaves its scripts alone"
    ),
    "grouped experts (`experts_implementation`)": (
        "transformers 5 has them by default: what experts keep is counted by the release"
    ),
    "training in NVFP4 or MXFP8": "it saves time: weights and states stay in 16 or 32 bits",
    "`pad_to_multiple_of`": "it may cost as much as it saves (MEM803 asks for multiples of 8)",
    "quantized caches of transformers' own `generate`": (
        "generation between steps is short beside training, and its cache is gone by then"
    ),
}

_HEAD = """# Levers on memory

What memlint makes of each lever of 2026. Where a lever is missing, the rule in the second column
speaks, and its finding has the price. Where it is used, the same rule is silent, and
`memlint estimate` counts what the third column says. Sizes are those of Qwen2.5-7B with rows of
4,096 tokens, unless a row says otherwise. Generated by `python -m tests.levers`; the test
`tests/memlint/test_levers_page.py` runs each row.

- "safe" fixes leave what the model learns as it is, "unsafe" ones change it, "advice" is said and
  never applied.
- Hints (MEM109, MEM305, MEM407, MEM411, MEM412, MEM504, MEM508) speak where a run does not fit its
  GPU, or where they are selected.
- "arithmetic" is the formula in the row, as the library's source has it; "fakes" are the library's
  own operations on tensors without memory.
"""
_COLUMNS = """
| lever | missing | used | bytes by | shown by |
| --- | --- | --- | --- | --- |
"""


def command(*words: str) -> Any:
    """What a command of memlint prints, as JSON."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run([*words, "--output-format", "json"])
    return json.loads(text.getvalue())


class Seen(NamedTuple):
    """What memlint says of a script. findings: of the row's rule. size: bytes, by the row's place.
    peak: bytes."""

    findings: list[dict[str, Any]]
    size: int
    peak: int


def seen(lever: Lever, files: str | Mapping[str, str], folder: Path) -> Seen:
    """Check and estimate one side of a row in an empty folder."""
    named = {"train.py": files} if isinstance(files, str) else files
    for name, text in named.items():
        (folder / name).write_text(text, encoding="utf-8")
    target = ("--target", lever.target)
    chosen = ("--select", lever.rule) if lever.rule else ()
    found = command("check", "--no-cache", "--no-prices", *target, *chosen, str(folder))
    started = [name for name in named if name != "train.py"] or ["train.py"]
    gpu = ("--gpu", lever.gpu) if lever.gpu else ()
    counted = command("estimate", *target, *gpu, str(folder / started[0]))
    phases = {phase["name"]: phase for phase in counted["phases"]}
    size = 0
    if lever.phase:
        phase = phases[lever.phase]
        size = phase["bytes_by_kind"].get(lever.kind, 0) if lever.kind else phase["total"]
    return Seen(found, int(size), int(counted["allocated"]["estimate"]))


@cache
def both(name: str) -> tuple[Seen, Seen]:
    """Both sides of the row of this name."""
    (lever,) = (one for one in LEVERS if one.name == name)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        return seen(lever, lever.without, Path(one)), seen(lever, lever.with_, Path(other))


def page() -> str:
    """The page."""
    parts = [_HEAD]
    for group in dict.fromkeys(lever.group for lever in LEVERS):
        rows = [_row(lever) for lever in LEVERS if lever.group == group]
        parts.append(f"\n## {group}\n{_COLUMNS}" + "\n".join(rows) + "\n")
    left = "\n".join(f"| {name} | {why} |" for name, why in LEFT_OUT.items())
    parts.append(f"\n## Left out\n\n| lever | why |\n| --- | --- |\n{left}\n")
    return "".join(parts)


def _row(lever: Lever) -> str:
    missing, used = both(lever.name)
    told = f"nothing: {lever.reason}"
    if lever.rule:
        (first, *_) = missing.findings
        tier = (first["fix"] or {"applicability": "display"})["applicability"]
        told = f"{first['code']} {first['name']}: {_TIERS[tier]}"
    counted = _counted(lever, missing, used)
    name, _, test = lever.case.partition("::")
    shown = f"[`{test or Path(name).stem}`](../{name})"
    return f"| {lever.name} | {told} | {counted} | {lever.how or '-'} | {shown} |"


_TIERS = {"safe": "safe", "unsafe": "unsafe", "display": "advice"}


def _counted(lever: Lever, missing: Seen, used: Seen) -> str:
    silent = "silent; " if lever.rule else ""
    if lever.saved is None:
        change = (used.peak - missing.peak) / GIB
        moved = f"{abs(change):.2f} GiB {'more' if change > 0 else 'less'} at the peak"
        said = moved if abs(change) > 0.005 else "the same peak"
        return f"{silent}{said}{': ' + lever.reason if lever.rule and lever.reason else ''}"
    what = lever.kind or "all bytes"
    place = f"{what} at the {lever.phase}" if lever.phase != "load" else what
    return f"{silent}{missing.size / GIB:.2f} -> {used.size / GIB:.2f} GiB of {place}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
