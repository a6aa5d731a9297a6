"""Training steps of the real libraries under fake tensors, and the bytes that live in them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


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


@contextlib.contextmanager
def shared_prompts(model: Any, settings: Mapping[str, Any]) -> Iterator[None]:
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
    rows, length = shape_of(settings)
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


def use_kernels() -> None:
    """TRL's tiles as on a GPU: kernels that work in place, where the CPU copies whole tiles."""
    from trl.kernels import chunked_logprob

    for name in ("_forward_tile", "_backward_tile", "_addmm_fp32"):
        setattr(chunked_logprob, name, lambda *_, **__: None)


def shape_of(settings: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and tokens of a batch: pairs for DPO, prompt and completion for GRPO."""
    rows, length = int(settings["micro_batch"]), int(settings["seq_len"])
    if settings.get("trainer") == "trl.DPOTrainer":
        return 2 * rows, length
    return rows, length


def give_storage(model: Any) -> None:
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


def with_adapters(model: Any, lora: Mapping[str, Any], checkpointing: object) -> Any:
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


def optimizer_of(name: str, model: Any) -> Any:
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


def train_step(
    model: Any,
    ids: torch.Tensor,
    optimizer: Any,
    settings: Mapping[str, Any],
    name: list[Any],
) -> None:
    """One step. ``name`` holds what a loop's name would: the output, until the next is there."""
    trainer = str(settings.get("trainer", "loop"))
    held = trainer == "loop" and settings.get("held_outputs") is not False
    mixed = settings.get("weights_dtype") == "float32" and settings.get("autocast") is not False
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=mixed):
        if trainer in ("trl.DPOTrainer", "trl.GRPOTrainer"):
            outputs = None
            loss = _preference(model, ids, settings)
        elif settings.get("loss") == "chunked":
            outputs = None
            loss = -model(input_ids=ids, labels=ids, fused_lm_head=True).log_probs.mean()
        else:
            cached = bool(settings.get("held_cache"))
            outputs = model(input_ids=ids, labels=ids, use_cache=cached)
            loss = outputs.loss
    if settings.get("float32_outputs") and outputs is not None and outputs.logits is not None:
        outputs = (outputs.logits.float(), loss, outputs.get("past_key_values"))
    name[:] = [outputs] if held else []
    del outputs
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=not settings.get("zeroed_gradients"))


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
