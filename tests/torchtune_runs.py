"""True if torchtune runs the scripts of its own classes: ``python -m tests.torchtune_runs``.

Every case ``tests/cases/MEM*/torchtune*.py``, and what the fixes make of it, trains two steps of a
tiny Llama on the CPU. The builders of models, the tokenizer and the data set are small; all else is
torchtune's own. Needs torchtune and torchao beside memlint (0.6.1 and 0.9.0 were tried with torch
2.13); bitsandbytes, which needs a GPU, is torch's Adam.
"""

from __future__ import annotations

import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
_NO_GPU = "needs a GPU"
_SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "num_layers": 2,
    "num_heads": 2,
    "num_kv_heads": 1,
    "embed_dim": 256,
    "max_seq_len": 64,
}


class _Tokenizer:
    pad_id = 0

    def __init__(self, path: str, max_seq_len: int | None = None) -> None:
        self.max_seq_len = max_seq_len


def _dataset(tokenizer: _Tokenizer, packed: bool = False) -> Any:
    from torchtune.datasets import PackedDataset

    lengths = [5, 9]
    rows = [
        {"tokens": [1 + n % 60 for n in range(size)], "labels": [1 + n % 60 for n in range(size)]}
        for size in lengths * 16
    ]
    return PackedDataset(rows, max_seq_len=32, max_packs=2) if packed else rows[:8]


def _install() -> None:
    """Small builders in the place of large ones."""
    import torch
    import torchtune.datasets
    import torchtune.models.llama3 as llama3
    import torchtune.training

    full, adapter = llama3.llama3, llama3.lora_llama3

    def lora(modules: list[str], **options: Any) -> Any:
        options = {"lora_rank": 4, "lora_alpha": 8, **options}
        return adapter(modules, **options, **_SMALL)

    llama3.llama3_8b = lambda: full(**_SMALL)
    llama3.lora_llama3_8b = lora
    llama3.qlora_llama3_8b = lambda modules, **options: lora(modules, quantize_base=True, **options)
    llama3.llama3_tokenizer = _Tokenizer
    torchtune.datasets.alpaca_dataset = _dataset
    # Neither pinned memory nor a second stream without a GPU.
    offloading = torchtune.training._activation_offloading
    offloading.OffloadActivations = partial(
        offloading.OffloadActivations, use_pin_memory=False, use_streams=False
    )
    optimizers = types.ModuleType("bitsandbytes.optim")
    vars(optimizers)["PagedAdamW8bit"] = torch.optim.AdamW
    sys.modules["bitsandbytes"] = types.ModuleType("bitsandbytes")
    sys.modules["bitsandbytes.optim"] = optimizers


def run(text: str) -> str:
    """What stops a script; empty where it trains to a finite loss."""
    import torch

    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(text.replace('"cuda"', '"cpu"'), "script.py", "exec"), names)
    except Exception as error:  # whatever torchtune raises
        if "not compiled with CUDA" in str(error):
            return _NO_GPU
        return f"{type(error).__name__}: {error}".splitlines()[0]
    finally:
        torch.set_default_dtype(torch.float32)
    loss = names.get("loss")
    return "" if loss is not None and torch.isfinite(loss) else "no finite loss"


def main() -> int:
    _install()
    stopped = 0
    paths = sorted(CASES.glob("MEM*/torchtune*.py"))
    for path in paths:
        reason = run(path.read_text(encoding="utf-8"))
        stopped += bool(reason) and reason != _NO_GPU
        sys.stdout.write(f"{path.parent.name}/{path.name}: {reason or 'runs'}\n")
    sys.stdout.write(f"{len(paths)} scripts, {stopped} stopped\n")
    return 1 if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
