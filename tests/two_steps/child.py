"""Run one script with stand-ins, in a process of its own that a fork made."""

from __future__ import annotations

import json
import os
import random
import runpy
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

from memlint.proof import stand_ins
from memlint.proof.stand_ins.tiny_models import build_model
from tests.two_steps.jobs import Job
from tests.two_steps.progress import Progress


def import_libraries() -> None:
    """Import what nearly every script imports, once for all forks."""
    import accelerate  # noqa: F401
    import datasets  # noqa: F401
    import peft  # noqa: F401
    import torch
    import transformers
    import trl
    from transformers.models.auto import modeling_auto  # noqa: F401

    torch.set_num_threads(1)
    for name in ("Trainer", "Seq2SeqTrainer", "LlamaForCausalLM", "T5ForConditionalGeneration"):
        getattr(transformers, name)
    for name in ("SFTTrainer", "DPOTrainer", "GRPOTrainer"):
        getattr(trl, name)


def run_forked(job: Job, script: Path, checkout: Path, result: Path, fp32: bool) -> Never:
    """Run ``script``, write how it ended to ``result`` as JSON, and end this process."""
    log = os.open(result.with_suffix(".log"), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    tempfile.tempdir = os.environ["TMPDIR"] = str(result.parent)  # which goes with the run
    code = 1
    try:
        result.write_text(json.dumps(_run(job, script, checkout, fp32)), encoding="utf-8")
        code = 0
    finally:
        os._exit(code)


def _run(job: Job, script: Path, checkout: Path, fp32: bool) -> dict[str, Any]:
    os.chdir(checkout / job.folder)
    sys.argv = [str(script), *job.arguments]
    sys.path[:0] = [str(script.parent), os.getcwd()]
    warnings.simplefilter("ignore")
    random.seed(42)
    progress = Progress()
    ended: dict[str, Any] = {"ok": True}
    try:
        stand_ins.install(
            str(checkout), job.data, job.rows, exact=job.exact, chat_template=job.chat_template,
            build=_builder(exact=job.exact, fp32=fp32),
        )  # fmt: skip
        os.environ |= job.environment
        progress.watch()
        runpy.run_path(str(script), {"print": progress.print}, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            ended = {"ok": False, "error": f"SystemExit: {end.code}"}
    except progress.Enough:
        pass
    except BaseException as error:
        ended = _failure(error, str(script))
    return {**ended, **progress.seen()}


def _builder(*, exact: bool, fp32: bool) -> Callable[[Any, Any, dict[str, Any]], Any]:
    """Return what makes models, in fp32 whatever the script says, or really quantized."""
    import torch
    import transformers

    real_load = transformers.PreTrainedModel.from_pretrained.__func__

    def build(make: Any, config: Any, kw: dict[str, Any]) -> Any:
        quantize = exact and kw.get("quantization_config") is not None
        if quantize:
            config.hidden_size, config.intermediate_size, config.head_dim = 64, 128, 16
        dtype = "dtype" if "dtype" in kw else "torch_dtype"
        is_bf16 = kw.get(dtype) in (torch.bfloat16, "bfloat16")
        left_out = {"quantization_config"} if quantize else set()
        left_out |= {dtype} if is_bf16 and fp32 else set()
        model = build_model(make, config, {n: kw[n] for n in kw if n not in left_out})
        return _quantized(model, real_load, kw) if quantize else model

    return build


def _quantized(made: Any, real_load: Any, kw: dict[str, Any]) -> Any:
    """``made`` as bitsandbytes loads it from a file: its kernels for the CPU are real."""
    with tempfile.TemporaryDirectory(prefix="memlint-verify-") as folder:
        made.save_pretrained(folder)
        options = {name: kw[name] for name in ("quantization_config", "dtype") if name in kw}
        return real_load(type(made), folder, config=made.config, device_map="cpu", **options)


def _failure(error: BaseException, script: str) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if os.path.abspath(frame.filename) == script]
    return {
        "ok": False,
        "error": f"{type(error).__name__}: {str(error)[:600]}",
        "source": f"line {own[-1].lineno}: {own[-1].line}" if own else "",
        "deepest": " < ".join(f"{each.filename}:{each.lineno}" for each in frames[:-4:-1]),
    }
