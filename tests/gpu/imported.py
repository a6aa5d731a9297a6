"""What the process has imported that the steps are forked from: libraries, and all steps."""

from __future__ import annotations

import contextlib
import importlib

from tests.gpu import harness

for _name in (
    "torch._dynamo",
    "triton",
    "transformers.models.llama.modeling_llama",
    "peft",
    "trl.trainer.utils",
    *harness.step_modules(),
):
    # A step that wants what cannot be imported says so itself.
    with contextlib.suppress(Exception):
        importlib.import_module(_name)
