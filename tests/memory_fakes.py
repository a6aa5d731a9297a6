"""Holds the memory model against the libraries themselves, without a GPU.

    python -m tests.memory_fakes [--only TEXT]

Each cell builds a real transformers model under ``FakeTensorMode`` (nothing is allocated), runs a
training step and counts the bytes of all live storages at every operation, rounded as the
allocator rounds. Widths, vocabularies and lengths are the checkpoints' own; the number of layers
is cut to a few, here and in the prediction, so that a cell takes seconds: memory is a sum over
layers, and the same sum is predicted. Operations are those of the CPU, whose attention differs
from a GPU's in its workspace.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from memlint.memory import estimate
from memlint.memory.checkpoints import find_config
from tests.fake_steps import (
    LiveBytes,
    give_storage,
    optimizer_of,
    shape_of,
    shared_prompts,
    train_step,
    use_kernels,
    with_adapters,
)

GIB = 2**30


# Short convolutions and attention in turn, in the shape of LFM2-1.2B.
CONVOLUTIONS: dict[str, Any] = {
    "model_type": "lfm2",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "block_auto_adjust_ff_dim": False,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 4,
    "vocab_size": 65536,
    "conv_L_cache": 3,
    "tie_word_embeddings": True,
    "layer_types": ["conv", "full_attention", "conv", "full_attention"],
    "max_position_embeddings": 128000,
}


class Cell:
    """One comparison."""

    def __init__(self, model: str, **settings: Any) -> None:
        self.model = model
        self.hybrid = model == "LFM2"
        self.layers = int(settings.pop("layers", 3))
        self.settings = settings

    @property
    def name(self) -> str:
        s = self.settings
        parts = [
            self.model.rpartition("/")[2],
            f"L{self.layers}",
            str(s.get("method", "full")),
            f"b{s['micro_batch']}x{s['seq_len']}",
            f"ckpt={s.get('checkpointing', 'none')}",
            str(s.get("attention", "sdpa")),
            str(s.get("loss", "full_logits")),
            str(s.get("optimizer", "adamw_torch")),
            str(s.get("trainer", "loop")),
            str(s.get("weights_dtype", "bfloat16")),
            *(["shared"] if s.get("shared_prompt") else []),
        ]
        return " ".join(parts)

    def config(self) -> dict[str, Any]:
        if self.hybrid:
            return dict(CONVOLUTIONS)
        config = dict(find_config(self.model))
        if "n_layer" in config:
            config["n_layer"] = self.layers
        else:
            config["num_hidden_layers"] = self.layers
        config.pop("layer_types", None)
        for key in ("resid_pdrop", "attn_pdrop", "hidden_dropout_prob"):
            if key in config:
                config[key] = 0.0
        if config.get("model_type") == "gpt2":
            config["embd_pdrop"] = 0.0
        return config

    def run(self) -> dict[str, Any]:
        """The cell as settings."""
        return {
            "model": {"config": self.config()},
            "method": "full",
            "trainer": "loop",
            "weights_dtype": "bfloat16",
            "compute_dtype": "bfloat16",
            "optimizer": "adamw_torch",
            "loss": "full_logits",
            "checkpointing": "none",
            "attention": "sdpa",
            "packed": True,
            "versions": {"transformers": "5.23.0", "torch": "2.13.0", "peft": "0.21.2"},
            **self.settings,
        }

    def predicted(self) -> int:
        """Bytes by the model, without what a CPU run has not: cuBLAS."""
        result = estimate(self.run())
        workspace = sum(t.bytes for t in result.peak.tensors if t.kind in ("workspace", "batch"))
        return result.peak.total - workspace

    def built(self) -> Any:
        """The model on the meta device, with its adapters."""
        from transformers import AutoConfig, AutoModelForCausalLM

        settings = self.settings
        config = self.config()
        kind = str(config.pop("model_type"))
        width = getattr(torch, str(settings.get("weights_dtype", "bfloat16")))
        made = AutoConfig.for_model(kind, **config)
        made.use_cache = False
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(
                made, dtype=width, attn_implementation=str(settings.get("attention", "sdpa"))
            )
        model.train()
        if settings.get("checkpointing") == "full":
            model.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": False}
            )
        if settings.get("loss") == "chunked":
            from trl.trainer.utils import add_fused_lm_head

            shared = bool(settings.get("shared_prompt"))
            add_fused_lm_head(model, **({"outputs": ("log_probs", "entropy")} if shared else {}))
            use_kernels()
        if settings.get("method") == "lora":
            model = with_adapters(model, settings["lora"], settings.get("checkpointing"))
        return model

    def measured(self) -> LiveBytes:
        """Live bytes of two steps of the real libraries."""
        settings = self.settings
        model = self.built()
        with FakeTensorMode(allow_non_fake_inputs=True):
            give_storage(model)
            counter = LiveBytes()
            for parameter in model.parameters():
                counter.watch(parameter, "parameter")
            optimizer = optimizer_of(str(settings.get("optimizer", "adamw_torch")), model)
            for state in optimizer.state.values():
                for value in state.values():
                    counter.watch(value, "state")
            ids = torch.randint(0, 100, shape_of(settings))
            name: list[Any] = []
            with shared_prompts(model, settings), counter:
                for _ in range(2):
                    train_step(model, ids, optimizer, settings, name)
        return counter


def on_gpu(cell: Cell) -> tuple[int, int]:
    """Peak allocated and reserved bytes of two steps on a GPU, the model's weights random."""
    gc.collect()  # a run before may have left cycles, whose segments would count here
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    settings = cell.settings
    with torch.device("cuda"):
        model = cell.built()
        give_storage(model)
        for parameter in model.parameters():
            parameter.data.normal_(std=0.02)
        optimizer = optimizer_of(str(settings.get("optimizer", "adamw_torch")), model)
        ids = torch.randint(0, 100, shape_of(settings))
        name: list[Any] = []
        for _ in range(2):
            train_step(model, ids, optimizer, settings, name)
        name.clear()
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def cells() -> Iterator[Cell]:
    """Eight cells for each architecture, and single ones for what is rare."""
    lora = {"r": 16, "target_modules": ["q_proj", "v_proj"], "dtype": "float32"}
    wide = {"r": 32, "target_modules": ALL, "dtype": "bfloat16"}
    decoders = (
        "Qwen/Qwen2.5-0.5B",
        "Qwen/Qwen3-1.7B",
        "meta-llama/Llama-3.2-1B",
        "mistralai/Mistral-7B-v0.1",
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-70B",
        "allenai/OLMo-2-1124-7B",
        "google/gemma-2b",
    )
    for model in decoders:
        yield Cell(model, micro_batch=1, seq_len=4096)
        yield Cell(model, micro_batch=4, seq_len=1024, checkpointing="full")
        yield Cell(
            model,
            micro_batch=2,
            seq_len=2048,
            trainer="transformers.Trainer",
            autocast=False,
            checkpointing="full",
        )
        yield Cell(model, micro_batch=2, seq_len=1024, optimizer="adamw_torch_fused")
        yield Cell(
            model, micro_batch=1, seq_len=2048, method="lora", lora={**lora, "dtype": "bfloat16"}
        )
        yield Cell(
            model,
            micro_batch=2,
            seq_len=2048,
            method="lora",
            lora={**lora, "dtype": "bfloat16"},
            checkpointing="full",
        )
        yield Cell(model, micro_batch=2, seq_len=1024, method="lora", lora=wide)
        yield Cell(model, micro_batch=1, seq_len=1024, attention="eager")
        yield Cell(model, micro_batch=1, seq_len=2048, weights_dtype="float32", autocast=True)
    yield Cell(
        "microsoft/Phi-3-mini-4k-instruct",
        micro_batch=2,
        seq_len=1024,
        method="lora",
        lora={**lora, "target_modules": ["qkv_proj", "o_proj"]},
        checkpointing="full",
    )
    for model in ("EleutherAI/pythia-1b", "openai-community/gpt2", "microsoft/phi-2"):
        yield Cell(model, micro_batch=2, seq_len=1024)
        yield Cell(model, micro_batch=4, seq_len=1024, checkpointing="full")
        yield Cell(model, micro_batch=1, seq_len=1024, attention="eager")
    for model in ("mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B"):
        yield Cell(model, micro_batch=1, seq_len=2048, layers=2)
        yield Cell(model, micro_batch=2, seq_len=2048, layers=2, checkpointing="full")
    short = {**lora, "dtype": "bfloat16"}
    for model in ("LFM2", "Qwen/Qwen3-Next-80B-A3B-Instruct"):
        yield Cell(model, micro_batch=1, seq_len=1024, layers=4)
        yield Cell(model, micro_batch=4, seq_len=1024, layers=4, checkpointing="full")
    # Qwen3-Next's own gated delta rule runs as a reference on the CPU, which keeps other tensors
    # than the kernels that are modelled; with LoRA nothing larger covers them.
    yield Cell("LFM2", micro_batch=1, seq_len=4096, layers=4, method="lora", lora=short)
    for model in ("Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.2-1B", "Qwen/Qwen3-1.7B"):
        common: dict[str, Any] = {
            "method": "lora",
            "lora": {**lora, "dtype": "bfloat16"},
            "autocast": False,
            "checkpointing": "full",
        }
        yield Cell(
            model,
            micro_batch=2,
            seq_len=1024,
            trainer="trl.DPOTrainer",
            loss="full_logits",
            reference_model=False,
            **common,
        )
        yield Cell(
            model,
            micro_batch=8,
            seq_len=1280,
            prompt_len=1024,
            completion_len=256,
            trainer="trl.GRPOTrainer",
            loss="full_logits",
            **common,
        )
        yield Cell(
            model,
            micro_batch=8,
            seq_len=1280,
            prompt_len=1024,
            completion_len=256,
            group_size=8,
            trainer="trl.GRPOTrainer",
            loss="chunked",
            packed=False,
            **common,
        )
        yield Cell(
            model,
            micro_batch=4,
            seq_len=2048,
            trainer="trl.SFTTrainer",
            loss="chunked",
            packed=False,
            **common,
        )
        yield Cell(
            model,
            micro_batch=4,
            seq_len=1536,
            prompt_len=1024,
            completion_len=512,
            group_size=2,
            shared_prompt=True,
            reference_model=False,
            trainer="trl.DPOTrainer",
            loss="chunked",
            packed=False,
            **common,
        )
        for prompt, completion, group in ((1024, 256, 8), (4096, 256, 16)):
            yield Cell(
                model,
                micro_batch=16,
                seq_len=prompt + completion,
                prompt_len=prompt,
                completion_len=completion,
                group_size=group,
                shared_prompt=True,
                trainer="trl.GRPOTrainer",
                loss="chunked",
                packed=False,
                **common,
            )
    yield Cell("Qwen/Qwen2.5-7B", micro_batch=1, seq_len=2048, layers=28, checkpointing="full")
    for optimizer in ("sgd", "adagrad", "rmsprop"):
        yield Cell("Qwen/Qwen2.5-0.5B", micro_batch=1, seq_len=1024, optimizer=optimizer)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--explain", action="store_true", help="print the largest live tensors")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    errors: list[tuple[float, str]] = []
    for cell in cells():
        if options.only not in cell.name:
            continue
        start = time.perf_counter()
        predicted = cell.predicted()
        try:
            counter = cell.measured()
        except Exception as error:
            sys.stdout.write(f"   failed {cell.name}: {type(error).__name__} {str(error)[:120]}\n")
            continue
        error_ = predicted / counter.peak - 1
        errors.append((error_, cell.name))
        sys.stdout.write(
            f"{error_:+7.1%} {predicted / GIB:8.3f} for {counter.peak / GIB:8.3f}  "
            f"{cell.name}  ({time.perf_counter() - start:.1f} s)\n"
        )
        sys.stdout.flush()
        if options.explain:
            for size, name in counter.largest:
                sys.stdout.write(f"        {size / GIB:8.3f} {name}\n")
    sizes = sorted(abs(error) for error, _ in errors)
    if sizes:
        sys.stdout.write(
            f"{len(sizes)} cells: median {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%}\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
