"""What the process has imported that the steps are forked from; what is not installed, not."""

from __future__ import annotations

import contextlib
import importlib

for _name in (
    "torch._dynamo",
    "triton",
    "transformers.models.llama.modeling_llama",
    "peft",
    "trl.trainer.utils",
    "memlint_runtime",
):
    # A step that wants the module says why it cannot be imported.
    with contextlib.suppress(Exception):
        importlib.import_module(_name)
