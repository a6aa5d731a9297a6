"""No hub, no GPU: what asks for them is answered or moved to the CPU."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock


def replace_hub() -> None:
    import datasets
    import huggingface_hub
    import peft
    import transformers

    for name in ("login", "notebook_login", "whoami", "create_repo", "snapshot_download"):
        setattr(huggingface_hub, name, lambda *a, **k: MagicMock())
    for cls in (
        transformers.utils.PushToHubMixin,
        transformers.PreTrainedModel,
        transformers.PreTrainedTokenizerBase,
        peft.PeftModel,
        datasets.Dataset,
        datasets.DatasetDict,
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
    torch.cuda.get_device_capability = lambda *a: (8, 0)
    torch.cuda.get_device_name = lambda *a: "stand-in"
    torch.cuda.empty_cache = lambda: None
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        setattr(torch.cuda, name, lambda *a: 0)
    torch.cuda.get_device_properties = lambda *a: MagicMock(total_memory=80 * 2**30)


def add_notebook_names() -> None:
    import builtins

    builtins.display = lambda *values, **keywords: None
    builtins.get_ipython = MagicMock
