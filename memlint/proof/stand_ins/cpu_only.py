"""No hub, no GPU, no command line: what asks for them is answered or moved to the CPU."""

from __future__ import annotations

import argparse
import builtins
import os
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from memlint.proof.stand_ins.sample_rows import TABLES
from memlint.source.bounded import read_regular_text

# Options for what a script cannot do without, though it may not require them.
_OPEN = re.compile(
    r"-(?:(?:train|training|input|data|dataset)(?:[-_](?:file|path|data|name))?"
    r"|config(?:[-_](?:file|path))?|(?:base[-_])?model(?:[-_]name)?(?:[-_]or)?(?:[-_]path)?)$"
)
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


def answer_what_is_asked(*, not_said: bool) -> None:
    """Answer names of notebooks and of the environment, and what a parser requires: a recipe is the
    project's own. not_said: options for data and models that may be left out are answered, too."""
    found = sorted(Path().glob("*conf*/**/*.[jy]*"), key=lambda path: "train" not in path.name)
    recipe = str(found[0]) if found else ""
    builtins.display = lambda *values, **keywords: None
    builtins.get_ipython = MagicMock
    real_get: Any = type(os.environ).__getitem__

    def get(self: Any, name: str) -> Any:
        try:
            return real_get(self, name)
        except KeyError:
            if not sys._getframe(1).f_code.co_filename.startswith(os.getcwd()):
                raise
            return str(int("SIZE" in name))  # one process, the first

    type(os.environ).__getitem__ = get
    script = read_regular_text(sys.argv[0]) if os.path.isfile(sys.argv[0]) else ""
    kinds = [kind for kind in ("jsonl", "json", "csv", "parquet") if f".{kind}" in script]
    real_add = argparse._ActionsContainer.add_argument

    def add(self: Any, *names: str, **kw: Any) -> Any:
        name = "".join(names[-1:])
        positional = not name.startswith("-") and "nargs" not in kw
        kind = "csv" if "csv" in name else [*kinds, "json"][0]
        file = f"sample.{kind}" if "config" not in name else recipe
        is_open = not_said and [kw.get("default"), kw.get("type", str)] == [None, str]
        is_open = is_open and "action" not in kw and bool(_OPEN.search(name))
        if name and (kw.get("required") or positional or is_open) and file:
            first = next(iter(kw.get("choices") or ()), file)
            kw |= {"nargs": "?"} if positional else {"required": False}
            kw["default"] = {int: 1, float: 0.5}.get(kw.get("type"), first)
        return real_add(self, *names, **kw)

    argparse._ActionsContainer.add_argument = add
