"""A run under fakes: ``python -m memlint.trace.traced_run JOB``, a process of its own."""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from memlint.proof import stand_ins
from memlint.proof.overlay import Overlay
from memlint.proof.watching import Enough


def main(path: str) -> None:
    """Run the job of the file at ``path``, and write what was alive in it."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    told: dict[str, Any] = {"error": "", "phases": [], "steps": 0, "assumed": []}
    try:
        _run(job, told)
    except Exception as error:
        told["error"] = _stopped(error, told.pop("folder", ""))
    told.pop("folder", None)
    result = Path(job["result"])
    part = result.with_suffix(".part")
    part.write_text(json.dumps(told), encoding="utf-8")
    part.replace(result)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(job: dict[str, Any], told: dict[str, Any]) -> None:
    overlay = Overlay(job["folder"], job["copy"])
    os.chdir(overlay.of(job["working_folder"]))
    seen = overlay.of(job["script"])
    told["folder"] = os.path.join(overlay.copy, "")
    sys.argv = [seen, *job["arguments"]]
    sys.path[0] = os.path.dirname(seen)
    overlay.guard()
    os.environ |= {**stand_ins.QUIET, **stand_ins._OFFLINE}
    import numpy
    import torch
    from memlint_runtime.fake_memory import _convertible_fakes

    from memlint.trace.fake_gpu import FakeGpu, GpuCalls
    from memlint.trace.live_bytes import LiveBytes

    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    gpu = FakeGpu(told["folder"])
    counted = LiveBytes(gpu)
    assumed: list[str] = []
    _replace(gpu, job, assumed)
    overlay.guard_writers()
    main_module = ModuleType("__main__")
    vars(main_module).update(__file__=seen, __builtins__=__builtins__)
    sys.modules["__main__"] = main_module
    counted.begin()
    try:
        with GpuCalls(gpu), gpu, _convertible_fakes(), counted:
            exec(compile(job["text"], seen, "exec"), vars(main_module))
    except (Enough, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code not in (None, 0):
            raise RuntimeError(f"the script ended with {end.code}") from end
    finally:
        told["assumed"] = [
            *dict.fromkeys(assumed), *(f"line {line}: {what}" for line, what in gpu.assumed.items())
        ]  # fmt: skip
        told["steps"] = counted.steps
        told["phases"] = counted.phases()


def _replace(gpu: Any, job: dict[str, Any], assumed: list[str]) -> None:
    """Replace GPU, models, tokenizers, data and hub."""
    import torch

    from memlint.trace import full_models

    _replace_cuda(gpu)
    real_new = torch.nn.Parameter.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        kept = data if data is None or not torch.is_tensor(data) else gpu.put(data.detach())
        return real_new(cls, kept, requires_grad)

    torch.nn.Parameter.__new__ = new
    torch.nn.Module.cuda = lambda self, *a, **k: self.to("cuda")
    try:
        import datasets  # noqa: F401
        import peft  # noqa: F401
        import transformers
    except ImportError:
        return
    sys.meta_path.append(stand_ins.Missing(job["copy"]))
    full_models.replace(gpu, job["length"], assumed)
    stand_ins.replace_data_sets({"*": job["columns"]}, job["rows"])
    stand_ins.replace_adapters()
    stand_ins.shorten_trainers(exact=True)
    stand_ins.replace_hub()
    stand_ins.replace_process_groups()
    stand_ins.add_notebook_names()
    real_post_init = transformers.TrainingArguments.__post_init__

    def post_init(self: Any) -> None:
        if self.fp16:
            self.fp16, self.bf16 = False, True
            assumed.append("fp16 counted as bf16, which is as wide")
        self.dataloader_num_workers, self.torch_compile = 0, False
        self.dataloader_prefetch_factor, self.dataloader_persistent_workers = None, False
        real_post_init(self)

    transformers.TrainingArguments.__post_init__ = post_init


def _replace_cuda(gpu: Any) -> None:
    """Answer the script, and nobody else, that there is a GPU."""
    import torch

    def asked_by_script() -> bool:
        return sys._getframe(2).f_code.co_filename.startswith(gpu.folder)

    torch.cuda.is_available = lambda: asked_by_script()
    real_autocast = torch.autocast.__init__

    def autocast(self: Any, device_type: Any, dtype: Any = None, *a: Any, **k: Any) -> None:
        on_gpu = str(device_type).startswith("cuda")
        if on_gpu and dtype is None:
            dtype = torch.bfloat16
        real_autocast(
            self, "cpu" if on_gpu else device_type,
            torch.bfloat16 if dtype is torch.float16 else dtype, *a, **k,
        )  # fmt: skip

    torch.autocast.__init__ = autocast
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = lambda: 0
    torch.cuda.is_bf16_supported = lambda *a, **k: True
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.get_device_name = lambda *a: "a GPU of fakes"
    for name in ("synchronize", "empty_cache", "set_device", "manual_seed", "manual_seed_all",
                 "reset_peak_memory_stats", "memory_allocated", "max_memory_allocated",
                 "memory_reserved", "max_memory_reserved", "memory_summary"):  # fmt: skip
        setattr(torch.cuda, name, lambda *a, **k: 0)
    torch.compile = lambda model=None, *a, **k: model if model is not None else (lambda it: it)


def _stopped(error: BaseException, folder: str) -> str:
    """Return an error in a line, with the line of the script that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    here = [frame for frame in frames if folder and frame.filename.startswith(folder)]
    where = f"line {here[-1].lineno}: " if here else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    traceback.print_exception(error)
    return f"{where}{text[:300]}"


if __name__ == "__main__":
    main(sys.argv[1])
