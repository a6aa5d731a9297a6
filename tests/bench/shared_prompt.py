"""Shared prompts against TRL's repeated ones: memory by fakes, time and losses on the CPU.

    python -m tests.bench.shared_prompt memory   # Qwen2.5-7B's shape, half a minute a line
    python -m tests.bench.shared_prompt time     # tiny models, shape by shape, one process
    python -m tests.bench.shared_prompt time --only trainer --rounds 5
    python -m tests.bench.shared_prompt losses   # 30 steps of each trainer, side by side

memory: the case of a group of 16 completions of 256 tokens of a prompt of 5,000, and eight such
groups at once; weights in bfloat16, checkpointed, fused head included. Nothing is allocated.
TRL's own path forwards what its GRPO loss asks for: all rows, labels on completions only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree
from memlint_runtime.trl.forward import TokenCount, share_prompts
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen2Config
from trl.trainer.utils import add_fused_lm_head

from tests.bench.shared_prompt_time import ROUNDS, print_table

GIB = 2**30
QWEN_7B = {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip


def rows_of(prompts: int, group: int, prompt: int, completion: int, vocabulary: int) -> Tensor:
    """`[prompts * group, prompt + completion]` random ids, without padding."""
    torch.manual_seed(0)
    starts = torch.randint(3, vocabulary, (prompts, prompt)).repeat_interleave(group, 0)
    return torch.cat([starts, torch.randint(3, vocabulary, (prompts * group, completion))], 1)


def labels_of(ids: Tensor, prompt: int) -> Tensor:
    labels = ids.clone()
    labels[:, :prompt] = -100
    return labels


def model_of(shape: dict[str, Any], dtype: torch.dtype, *, lora: bool) -> tuple[nn.Module, Any]:
    """The model that is called, and the transformers model within it; checkpointed."""
    inside: PreTrainedModel = AutoModelForCausalLM.from_config(
        Qwen2Config(**shape), dtype=dtype, attn_implementation="sdpa"
    )
    enable = getattr(inside, "activation_checkpointing_enable", None)
    (enable or inside.gradient_checkpointing_enable)({"use_reentrant": False})
    add_fused_lm_head(inside, outputs=("log_probs", "entropy"))
    model: nn.Module = inside
    if lora:
        from peft import LoraConfig, get_peft_model

        # What peft moves is where it belongs already, and fakes do not move.
        with mock.patch.object(nn.Module, "to", lambda self, *_, **__: self):
            model = get_peft_model(
                inside, LoraConfig(r=16, target_modules="all-linear", lora_dropout=0.0)
            )
        inside.enable_input_require_grads()
    return model.train(), inside


# -- memory --------------------------------------------------------------------------------------


def fake_peak(
    prompts: int, *, group: int, prompt: int, completion: int, shared: bool, lora: bool
) -> dict[str, float]:
    ids = rows_of(prompts, group, prompt, completion, QWEN_7B["vocab_size"])
    labels = labels_of(ids, prompt)
    tree = build_tree(ids, torch.ones_like(ids), labels != -100)
    with FakeTensorMode(allow_non_fake_inputs=True) as fakes:
        model, inside = model_of(QWEN_7B, torch.bfloat16, lora=lora)
        ids, labels = fakes.from_tensor(ids), fakes.from_tensor(labels)
        if shared:
            share_prompts(inside, Sharing(), TokenCount())
            tree = PrefixTree(
                **{
                    n: fakes.from_tensor(v) if isinstance(v, Tensor) else v
                    for n, v in vars(tree).items()
                }
            )
        started = time.perf_counter()
        # The tree is read from the tokens' values, which fakes do not have.
        with (
            mock.patch("memlint_runtime.shared_prompt.runs.build_tree", return_value=tree),
            track_memory(model) as tracker,
        ):
            out = model(input_ids=ids, labels=labels, fused_lm_head=True)
            out.log_probs.sum().backward()
    peak = tracker.peak
    return {
        "tokens": tree.num_tokens if shared else ids.numel(),
        **{
            name: round(getattr(peak, name) / GIB, 2)
            for name in ("activations", "temporaries", "gradients", "parameters", "total")
        },
        "seconds": round(time.perf_counter() - started, 1),
    }


def memory() -> None:
    case = {"group": 16, "prompt": 5000, "completion": 256}
    for prompts, lora in ((1, False), (1, True), (8, True)):
        for shared in (False, True):
            found = fake_peak(prompts, **case, shared=shared, lora=lora)
            print(
                json.dumps(
                    {"groups": prompts, "lora": lora, "path": "ours" if shared else "trl", **found}
                ),
                flush=True,
            )


# -- losses --------------------------------------------------------------------------------------


def losses(steps: int = 30) -> None:
    """Largest differences over the steps until generations part, and how many those are."""
    import memlint_runtime.trl as shared
    from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    from tests.runtime.shared_prompt.test_trainers import steps_of, trained
    from tests.runtime.shared_prompt.training import saved_model

    warnings.simplefilter("ignore")
    cases: list[tuple[str, type, type, type, dict[str, Any]]] = [
        (f"GRPO {kind}", GRPOTrainer, shared.GRPOTrainer, GRPOConfig, {"loss_type": kind})
        for kind in ("grpo", "dapo", "dr_grpo", "bnpo", "cispo")
    ]
    sequence = {"loss_type": "grpo", "importance_sampling_level": "sequence"}
    cases += [
        ("GRPO sequence ratios", GRPOTrainer, shared.GRPOTrainer, GRPOConfig, sequence),
        (
            "GRPO 2 iterations",
            GRPOTrainer,
            shared.GRPOTrainer,
            GRPOConfig,
            {"num_iterations": 2, "beta": 0.04},
        ),
        ("RLOO", RLOOTrainer, shared.RLOOTrainer, RLOOConfig, {}),
        ("DPO", DPOTrainer, shared.DPOTrainer, DPOConfig, {}),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = saved_model(folder / "model")
        for title, theirs, ours, config, options in cases:
            logs = [
                steps_of(trained(trainer, config, path, folder / "out", max_steps=steps, **options))
                for trainer in (theirs, ours)
            ]
            agreed = 0
            worst = {"loss": 0.0, "reward": 0.0, "rewards/chosen": 0.0, "grad_norm": 0.0}
            for wanted, found in zip(*logs, strict=True):
                same = "completions/mean_length" not in wanted or (
                    wanted["completions/mean_length"] == found["completions/mean_length"]
                    and wanted["reward"] == found["reward"]
                )
                if not same:
                    break
                agreed += 1
                for key in worst:
                    if key in wanted:
                        worst[key] = max(worst[key], abs(wanted[key] - found[key]))
            print(json.dumps({
                "case": title, "steps": len(logs[0]), "same_generations_for": agreed,
                **{f"worst_{k}": float(f"{v:.1e}") for k, v in worst.items()},
                "last_loss": [logs[0][-1]["loss"], logs[1][-1]["loss"]],
                "rho": round(statistics.mean(e["shared_prompt/rho"] for e in logs[1]), 2),
            }), flush=True)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["memory", "time", "losses"])
    parser.add_argument("--only", default="", help="time: cases whose name holds this")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="time: pairs of each case")
    chosen = parser.parse_args()
    if chosen.what == "time":
        print_table(chosen.only, chosen.rounds)
    else:
        {"memory": memory, "losses": losses}[chosen.what]()
