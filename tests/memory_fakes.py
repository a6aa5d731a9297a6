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
import contextlib
import statistics
import sys
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memlint.memory import estimate
from memlint.memory.checkpoints import find_config

GIB = 2**30


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of live storages, as they are made and die."""

    def __init__(self) -> None:
        super().__init__()
        self.current = 0
        self.peak = 0
        self.largest: list[tuple[int, str]] = []
        self._live: dict[int, tuple[int, str]] = {}

    def watch(self, value: object, name: str) -> None:
        """Count a tensor's storage from now on."""
        if not isinstance(value, torch.Tensor):
            return
        storage = value.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        size = -(-storage.nbytes() // 512) * 512
        self._live[key] = (size, name)
        self.current += size
        weakref.finalize(storage, self._gone, key)
        if self.current > self.peak:
            self.peak = self.current
            self.largest = sorted(self._live.values(), reverse=True)[:16]

    def _gone(self, key: int) -> None:
        size, _ = self._live.pop(key, (0, ""))
        self.current -= size

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            self.watch(leaf, str(func))
        return result


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
            _use_kernels()
        if settings.get("method") == "lora":
            model = _with_adapters(model, settings["lora"], settings.get("checkpointing"))
        return model

    def measured(self) -> LiveBytes:
        """Live bytes of two steps of the real libraries."""
        settings = self.settings
        model = self.built()
        with FakeTensorMode(allow_non_fake_inputs=True):
            _place(model)
            counter = LiveBytes()
            for parameter in model.parameters():
                counter.watch(parameter, "parameter")
            optimizer = _optimizer(str(settings.get("optimizer", "adamw_torch")), model)
            for state in optimizer.state.values():
                for value in state.values():
                    counter.watch(value, "state")
            ids = torch.randint(0, 100, _shape(settings))
            name: list[Any] = []
            with _shared_prompts(model, settings), counter:
                for _ in range(2):
                    _step(model, ids, optimizer, settings, name)
        return counter


def on_gpu(cell: Cell) -> tuple[int, int]:
    """Peak allocated and reserved bytes of two steps on a GPU, the model's weights random."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    settings = cell.settings
    with torch.device("cuda"):
        model = cell.built()
        _place(model)
        for parameter in model.parameters():
            parameter.data.normal_(std=0.02)
        optimizer = _optimizer(str(settings.get("optimizer", "adamw_torch")), model)
        ids = torch.randint(0, 100, _shape(settings))
        name: list[Any] = []
        for _ in range(2):
            _step(model, ids, optimizer, settings, name)
        name.clear()
    return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


@contextlib.contextmanager
def _shared_prompts(model: Any, settings: Mapping[str, Any]) -> Iterator[None]:
    """The runtime's shared prompts, where the cell has them.

    Which rows begin alike is read from the tokens' values, which fakes do not have: the tree is
    made of real tokens, and given to the runtime in the place where it would make its own.
    """
    if not settings.get("shared_prompt"):
        yield
        return
    from memlint_runtime.shared_prompt import Sharing
    from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree
    from memlint_runtime.shared_prompt.models import causal_lm_inside
    from memlint_runtime.trl.forward import TokenCount, share_prompts

    fakes = torch._guards.detect_fake_mode()
    assert isinstance(fakes, FakeTensorMode)
    prompt, group = int(settings["prompt_len"]), int(settings["group_size"])
    rows, length = _shape(settings)
    with unset_fake_temporarily():
        starts = torch.randint(0, 100, (rows // group, prompt)).repeat_interleave(group, 0)
        ids = torch.cat([starts, torch.randint(0, 100, (rows, length - prompt))], 1)
        scored = torch.ones_like(ids, dtype=torch.bool)
        scored[:, :prompt] = False
        tree = build_tree(ids, torch.ones_like(ids), scored)
    share_prompts(causal_lm_inside(model), Sharing(), TokenCount())
    made = PrefixTree(
        **{
            key: fakes.from_tensor(value) if isinstance(value, torch.Tensor) else value
            for key, value in vars(tree).items()
        }
    )
    with mock.patch("memlint_runtime.shared_prompt.runs.build_tree", return_value=made):
        yield


def _use_kernels() -> None:
    """TRL's tiles as on a GPU: kernels that work in place, where the CPU copies whole tiles."""
    from trl.kernels import chunked_logprob

    for name in ("_forward_tile", "_backward_tile", "_addmm_fp32"):
        setattr(chunked_logprob, name, lambda *_, **__: None)


def _shape(settings: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and tokens of a batch: pairs for DPO, prompt and completion for GRPO."""
    rows, length = int(settings["micro_batch"]), int(settings["seq_len"])
    if settings.get("trainer") == "trl.DPOTrainer":
        return 2 * rows, length
    return rows, length


def _place(model: Any) -> None:
    """Give every parameter and buffer on the meta device a (fake) storage; ties stay ties."""
    placed: dict[int, Any] = {}
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, value in table.items():
                if value is None:
                    continue
                if id(value) not in placed:
                    fresh = torch.empty(value.shape, dtype=value.dtype)
                    if isinstance(value, torch.nn.Parameter):
                        fresh = torch.nn.Parameter(fresh, requires_grad=value.requires_grad)
                    placed[id(value)] = fresh
                table[name] = placed[id(value)]


def _with_adapters(model: Any, lora: Mapping[str, Any], checkpointing: object) -> Any:
    from peft import LoraConfig, get_peft_model

    made = LoraConfig(
        r=lora["r"],
        target_modules=list(lora["target_modules"]),
        lora_dropout=lora.get("dropout", 0.0),
    )
    model = get_peft_model(model, made, autocast_adapter_dtype=lora.get("dtype") != "bfloat16")
    if checkpointing == "full":
        model.enable_input_require_grads()
    return model


def _optimizer(name: str, model: Any) -> Any:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if name == "sgd":
        return torch.optim.SGD(trained, lr=1e-3)
    if name == "adagrad":
        return torch.optim.Adagrad(trained, lr=1e-3, foreach=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(trained, lr=1e-3, foreach=True)
    return torch.optim.AdamW(
        trained, lr=1e-3, fused=name.endswith("fused"), foreach=not name.endswith("fused")
    )


def _step(
    model: Any,
    ids: torch.Tensor,
    optimizer: Any,
    settings: Mapping[str, Any],
    name: list[Any],
) -> None:
    """One step. ``name`` holds what a loop's name would: the output, until the next is there."""
    held = settings.get("trainer", "loop") == "loop"
    mixed = settings.get("weights_dtype") == "float32"
    trainer = str(settings.get("trainer", "loop"))
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=mixed):
        if trainer in ("trl.DPOTrainer", "trl.GRPOTrainer"):
            outputs = None
            loss = _preference(model, ids, settings)
        elif settings.get("loss") == "chunked":
            outputs = None
            loss = -model(input_ids=ids, labels=ids, fused_lm_head=True).log_probs.mean()
        else:
            outputs = model(input_ids=ids, labels=ids)
            loss = outputs.loss
    name[:] = [outputs] if held else []
    del outputs
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _preference(model: Any, ids: torch.Tensor, settings: Mapping[str, Any]) -> torch.Tensor:
    """Mean log-probability of the completions, as TRL's preference trainers take it."""
    from trl.trainer.utils import selective_log_softmax

    kept = int(settings.get("completion_len", ids.shape[1] - 1))
    if settings.get("loss") == "chunked":
        labels = ids.clone()
        labels[:, : ids.shape[1] - kept] = -100
        return -model(input_ids=ids, labels=labels, fused_lm_head=True).log_probs.mean()
    logits = model(input_ids=ids, logits_to_keep=kept + 1).logits[:, :-1]
    chances: torch.Tensor = selective_log_softmax(logits, ids[:, -kept:])
    return -chances.mean()


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
