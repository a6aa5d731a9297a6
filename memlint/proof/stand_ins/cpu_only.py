"""No hub and no GPU: what asks for them is answered or moved to the CPU."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import MagicMock

from memlint.proof.stand_ins.missing_packages import Anything
from memlint.proof.stand_ins.sample_rows import TABLES

# Of an accelerator: what needs a GPU, or a package that is not installed.
_ELSEWHERE = ("mixed_precision", "deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin", "log_with")
_WRITE = ("create_repo", "upload_file", "upload_folder", "create_commit")


def keep_from_hub(*names: str) -> None:
    """Models and data may be loaded from the hub; nothing is written to it. names: more functions
    that do nothing."""
    try:
        import huggingface_hub
    except ImportError:
        return
    for owner in (huggingface_hub, huggingface_hub.HfApi):
        for name in (*_WRITE, *names):
            setattr(owner, name, lambda *a, **k: MagicMock(repo_id="stand-in"))


def replace_hub() -> None:
    import peft
    import transformers

    keep_from_hub("login", "notebook_login", "whoami", "snapshot_download")
    for cls in (
        transformers.utils.PushToHubMixin,
        transformers.PreTrainedModel,
        transformers.PreTrainedTokenizerBase,
        peft.PeftModel,
    ):
        cls.push_to_hub = lambda self, *a, **k: None
    transformers.set_seed(42)


def move_to_cpu() -> None:
    import torch
    import transformers

    def on_cpu(value: Any) -> Any:
        gpu = isinstance(value, str) and value.startswith(("cuda", "mps"))
        gpu = gpu or (isinstance(value, torch.device) and value.type != "cpu")
        return "cpu" if gpu or (isinstance(value, int) and not isinstance(value, bool)) else value

    def moved(real: Any) -> Any:
        def to(self: Any, *args: Any, **kw: Any) -> Any:
            if "device" in kw:
                kw["device"] = on_cpu(kw["device"])
            return real(self, *map(on_cpu, args), **kw)

        return to

    for cls in (torch.nn.Module, torch.Tensor, transformers.BatchEncoding):
        cls.to = moved(cls.to)
    torch.nn.Module.cuda = torch.Tensor.cuda = lambda self, *a, **k: self
    real_accelerator = torch.accelerator.current_accelerator

    def accelerator(check_available: bool = False) -> Any:
        by_torch = sys._getframe(1).f_globals.get("__name__", "").startswith("torch.")
        return real_accelerator(check_available) if by_torch else torch.device("cpu")

    torch.accelerator.current_accelerator = accelerator
    torch.cpu.is_bf16_supported = lambda *a: True  # what a script then asks
    transformers.training_args.is_torch_tf32_available = lambda: True
    answer_for_gpu(
        get_device_capability=(8, 0), get_device_name="stand-in",
        get_device_properties=MagicMock(total_memory=80 * 2**30),
    )  # fmt: skip


def answer_for_gpu(**answers: Any) -> None:
    """Answer what is asked of a GPU that is not here, by the name of the question; 0 to others."""
    import torch

    for name, value in {**dict.fromkeys(TABLES["asked of a gpu"], 0), **answers}.items():
        setattr(torch.cuda, name, lambda *a, answer=value, **k: answer)


def replace_process_groups() -> None:
    """Gloo for NCCL; a model on the CPU has no device of its own."""
    import torch

    real_init = torch.distributed.init_process_group
    wrapper = torch.nn.parallel.DistributedDataParallel
    real_wrapper = wrapper.__init__

    def init(backend: Any = None, *args: Any, **kw: Any) -> None:
        kw.pop("device_id", None)
        real_init("gloo" if backend in (None, "nccl") else backend, *args, **kw)

    def wrap(self: Any, module: Any, device_ids: Any = None, *args: Any, **kw: Any) -> None:
        kw.pop("output_device", None)
        real_wrapper(self, module, None, *args, **kw)

    torch.distributed.init_process_group = init
    wrapper.__init__ = wrap


def replace_engine(*, exact: bool) -> None:
    """An engine of DeepSpeed's in one process, where it is not installed, and accelerators without
    what needs a GPU or another package. exact: precision stays what the script says."""
    import accelerate  # type: ignore[import-untyped]
    import torch

    class Engine(torch.nn.Module):
        device = torch.device("cpu")

        def __init__(self, model: Any, optimizer: Any) -> None:
            super().__init__()
            self.module, self.optimizer, self.forward = model, optimizer, model.forward
            self.backward = lambda loss, **_: loss.backward()

        def step(self) -> None:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def initialize(args: Any = None, model: Any = None, optimizer: Any = None, **kw: Any) -> Any:
        weights = kw.get("model_parameters") or model.parameters()
        if optimizer is None or callable(optimizer):
            optimizer = optimizer(weights) if optimizer else torch.optim.AdamW(weights)
        rows = kw.get("training_data")
        loader = rows and torch.utils.data.DataLoader(rows, 2, collate_fn=kw.get("collate_fn"))
        return Engine(model, optimizer), optimizer, loader, kw.get("lr_scheduler")

    real_init = accelerate.Accelerator.__init__

    def init(self: Any, *values: Any, **keywords: Any) -> None:
        left = {name: value for name, value in keywords.items() if name not in _ELSEWHERE}
        real_init(self, *values, **(keywords if exact else left))

    Anything.own["deepspeed.initialize"] = initialize
    accelerate.Accelerator.__init__ = init
