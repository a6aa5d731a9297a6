"""A run whose memory is counted: ``python -m memlint.trace.traced_run JOB``, a process of its own.

Under fakes where the job says so; else with real tensors, on the GPU or on the host.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from memlint.proof import child, stand_ins
from memlint.proof.stand_ins.cpu_only import answer_for_gpu, keep_from_hub


def _run(job: dict[str, Any], told: dict[str, Any]) -> None:
    told |= {"how": "", "phases": [], "steps": 0, "assumed": []}
    overlay = child.begin(job)
    folder = os.path.join(overlay.copy, "")
    assumed: list[str] = []
    start = _under_fakes if job["fakes"] else _with_real_tensors
    told["how"], counted, modes = start(job, folder, assumed)
    child.seed(0)
    overlay.guard_writers()
    counted.begin()
    try:
        with modes, counted:
            child.execute(job["text"])
    finally:
        told |= {"steps": counted.steps, "phases": counted.told(), **counted.of_allocator()}
        told["assumed"] = list(dict.fromkeys(assumed))


def _with_real_tensors(
    job: dict[str, Any], folder: str, assumed: list[str]
) -> tuple[str, Any, Any]:
    from memlint_runtime.measure import measure_memory

    from memlint.trace.live_bytes import LiveBytes

    keep_from_hub()
    measured = measure_memory(timeline=False).tracker
    counted = LiveBytes(folder, measured.device_type, measured.allocator)
    assumed.append("two steps are like those that follow; kernels' own workspaces not counted")
    how = "with real tensors, those of the host counted: no GPU is here"
    if measured.device_type != "cpu":
        how = f"with real tensors, those on {measured.device_type} counted"
    return how, counted, contextlib.nullcontext()


def _under_fakes(job: dict[str, Any], folder: str, assumed: list[str]) -> tuple[str, Any, Any]:
    os.environ |= stand_ins.OFFLINE
    from memlint_runtime.fake_memory import _convertible_fakes

    from memlint.trace.fake_gpu import FakeGpu, GpuCalls
    from memlint.trace.live_bytes import LiveBytes

    assumed += [
        f"rows of data have {job['length']} tokens before truncation, prompts {job['prompt']}",
        "one process, no quantization, no compiled graph; kernels' own workspaces not counted",
    ]
    gpu = FakeGpu(folder, assumed)
    calls = GpuCalls(gpu)
    calls.watch_backward()
    _replace(gpu, job, assumed)

    @contextlib.contextmanager
    def modes() -> Iterator[None]:
        with calls, gpu, _convertible_fakes():
            yield

    counted = LiveBytes(folder, "cpu", is_elsewhere=gpu.is_elsewhere)
    return "traced under fake tensors, nothing allocated", counted, modes()


def _replace(gpu: Any, job: dict[str, Any], assumed: list[str]) -> None:
    """Replace GPU, models, tokenizers, data and hub."""
    import torch

    from memlint.trace import fake_gpu, full_models

    _replace_cuda(gpu)
    fake_gpu.keep_files(gpu)
    real_new = torch.nn.Parameter.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        kept = gpu.put(data.detach()) if torch.is_tensor(data) else data
        return real_new(cls, kept, requires_grad)

    torch.nn.Parameter.__new__ = new
    torch.nn.Module.cuda = lambda self, *a, **k: self.to("cuda")
    try:
        import datasets  # noqa: F401
        import peft  # noqa: F401
        import transformers
    except ImportError:
        return
    full_models.replace(gpu, job["length"], job["prompt"], assumed)
    with contextlib.suppress(ImportError):  # in older releases
        from trl.kernels import chunked_divergence, chunked_logprob
        from trl.trainer import utils

        # A GPU computes in Triton what torch makes tensors for on a CPU, for fewer positions.
        for module in (chunked_logprob, chunked_divergence):
            for name in [each for each in vars(module) if each.endswith(("_kernel", "_fp32"))]:
                setattr(module, name, _NoKernel())
            module._use_triton, module.triton = _NoKernel(), _NoKernel()
        utils._use_triton = chunked_logprob._use_triton
    stand_ins.replace_the_rest(job["copy"], {"*": job["columns"]}, job["rows"], exact=True)
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
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    def asked_by_script() -> bool:
        return sys._getframe(1).f_code.co_filename.startswith(gpu.folder)

    from memlint.trace.fake_gpu import CUDA

    torch.cuda.is_available = asked_by_script
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
    # On a GPU, optimizers and clipping take all tensors at once: their temporaries are as many.
    optimizer._foreach_supported_types.append(FakeTensor)
    for module in (optimizer, _foreach_utils):
        module._get_foreach_kernels_supported_devices = lambda: ["cpu"]
    answer_for_gpu(get_device_capability=(9, 0), **CUDA["answers"])
    torch.compile = lambda model=None, *a, **k: model if model is not None else (lambda it: it)


class _NoKernel:
    """A kernel of any grid, or Triton's module: what is asked of it does nothing."""

    def __getitem__(self, grid: Any) -> Any:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> int:
        return 1

    __getattr__ = __getitem__


if __name__ == "__main__":
    child.carry_out(sys.argv[1], _run)
