"""A GPU of fake tensors beside a real CPU.

What is on the GPU is a fake of any size; data sets, tokens and collated batches on the host stay
real, until they are moved or meet a fake. A fake of numbers that are known (ids, masks, labels)
keeps a real twin, so that what depends on them (rows that are picked, counts, `mask.all()`) is
exact. What only a computed float would tell is taken as a plausible constant: a loss of 1.0, no NaN
anywhere. Torch's CPU build traces no fake of device "cuda" through autograd: fakes say "cpu".
"""

from __future__ import annotations

import json
import math
import os
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from memlint.proof.watching import line_in
from memlint.source.bounded import read_regular

_MOST_KNOWN = 1 << 22  # elements of a twin
_MOST_FLOATS = 1 << 12
_HALF = (torch.bfloat16, torch.float16)
_aten = torch.ops.aten
_READS = (_aten._local_scalar_dense.default, _aten.item.default)
# What CUDA's autocast computes in float32 and the CPU's does not; what its functions answer, but 0.
CUDA: dict[str, Any] = json.loads(
    read_regular(os.path.join(os.path.dirname(__file__), "data", "cuda.json"))
)


class FakeGpu(FakeTensorMode):
    """The fakes. folder: the script's, whose lines are named. assumed: gets what is taken for a
    number, with its line. makes_all, to_host: what is made is a fake, and waits on the host."""

    def __init__(self, folder: str, assumed: list[str]) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.folder = folder
        self._assumed = assumed
        self.on_host: Any = WeakIdKeyDictionary()
        self._twins: Any = WeakIdKeyDictionary()
        self.storages: dict[int, Tensor] = {}  # of the file that is read
        self.makes_all = self.to_host = False
        self._inside = 0

    def is_elsewhere(self, value: Tensor) -> bool:
        """True of what takes no memory of the GPU."""
        is_fake = isinstance(value, FakeTensor)
        return not is_fake or self.to_host or value.untyped_storage() in self.on_host

    def put(self, value: Any) -> Any:
        """Return a tensor of the host as a fake on the GPU, and what is none as it is."""
        if isinstance(value, FakeTensor) or not isinstance(value, Tensor):
            return value
        fake = self.from_tensor(value.detach(), static_shapes=True)
        if _is_small(value):
            self._twins[fake] = value.detach().clone()
        return fake.requires_grad_(value.requires_grad and value.is_leaf)

    def fetch(self, value: Any) -> Any:
        """Return a fake as it comes to the host, and what is none as it is."""
        if not isinstance(value, FakeTensor):
            return value
        twin = self._twins.get(value)
        if twin is not None:
            return torch.clone(twin)
        if value.numel() <= _MOST_KNOWN:
            self._assume("values that come to the host are 1")
            return torch.ones((), dtype=value.dtype).expand(value.shape).clone()
        with mock.patch.object(self, "to_host", True):
            moved = value.detach().clone()
        self.on_host[moved.untyped_storage()] = True
        return moved

    def read(self, value: Tensor) -> Any:
        """Return the number in a tensor of one."""
        twin = self._twins.get(value)
        if twin is not None:
            return twin.item()
        if value.dtype == torch.bool:
            return False
        self._assume("a number read from the GPU is 1")
        return 1.0 if value.is_floating_point() else 1

    def _assume(self, what: str) -> None:
        self._assumed.append(f"line {line_in(self.folder)}: {what}")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # What a backward pass makes is on the GPU, where its gradients are.
        made = "device" in kwargs and torch._C._current_graph_task_id() != -1
        has_fake = any(isinstance(each, FakeTensor) for each in tree_leaves((args, kwargs)))
        if not (made or self.makes_all or self._inside or has_fake):
            return func(*args, **kwargs)
        if func in _READS:
            return self.read(args[0])
        changed = args[0] if func._schema.is_mutable and "out" not in kwargs else None
        if isinstance(changed, Tensor) and not isinstance(changed, FakeTensor):
            return changed  # a tensor of the host keeps its values
        args, kwargs = tree_map(self.put, (args, kwargs))
        return self._on_gpu(func, types, args, kwargs)

    def _on_gpu(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        args = self._picked(func, args)
        known = None if self._inside else self._known(func, args, kwargs)
        if func is _aten.nonzero.default and known is not None:
            return self.put(known)
        if func is _aten.masked_select.default:
            return _aten.index.Tensor(args[0], list(self._indices(args[1])))
        self._inside += 1  # what an operation is made of makes fakes, too
        try:
            result = super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self._inside -= 1
        self._follow(func, args, result, known)
        return result

    def _indices(self, mask: Tensor) -> tuple[Tensor, ...]:
        twin = self._twins.get(mask)
        if twin is None:
            self._assume("a mask of computed values picks all")
            twin = torch.ones((), dtype=torch.bool).expand(mask.shape)
        return tuple(self.put(each) for each in twin.nonzero(as_tuple=True))

    def _picked(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments with rows in the place of masks: how many is then known."""
        if func is not _aten.index.Tensor:
            return args
        places: list[Any] = []
        for each in args[1]:
            masks = isinstance(each, Tensor) and each.dtype in (torch.bool, torch.uint8)
            places += self._indices(each) if masks else [each]
        return (args[0], places)

    def _known(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result in real numbers where all that it is made of is known."""
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, FakeTensor)]
        if any(each not in self._twins for each in given):
            return None
        sizes = [max(abs(each), 1) for each in tree_leaves(args) if isinstance(each, int)]
        if not given and math.prod(sizes) > _MOST_KNOWN:
            return None

        def twin(each: Any) -> Any:
            if isinstance(each, torch.device):
                return torch.device("cpu")
            return self._twins[each] if isinstance(each, FakeTensor) else each

        try:
            return func(*tree_map(twin, args), **tree_map(twin, kwargs))
        except Exception:  # of what is not known no number is lost
            return None

    def _follow(self, func: Any, args: Any, result: Any, known: Any) -> None:
        """Keep the twins of a result."""
        fakes, real = tree_leaves(result), tree_leaves(known)
        if known is None or len(fakes) != len(real):
            real = [None] * len(fakes)
        for fake, value in zip(fakes, real, strict=True):
            if not isinstance(fake, FakeTensor):
                continue
            if isinstance(value, Tensor) and value.shape == fake.shape and _is_small(value):
                self._twins[fake] = value
            elif func._schema.is_mutable:
                self._twins.pop(fake, None)
            elif not fake.is_floating_point() and not fake.is_complex():
                self._twins[fake] = torch.full((), _usual(func, args), dtype=fake.dtype).expand(
                    fake.shape
                )


def _is_small(value: Tensor) -> bool:
    most = _MOST_FLOATS if value.is_floating_point() else _MOST_KNOWN
    return value.numel() <= most and value.layout == torch.strided


def _usual(func: Any, args: Any) -> int:
    """Return what a comparison of floats, or an index by their values, usually is.

    `isfinite` is `x == x` and `|x| != inf`: true; `isnan` is `x != x`: false, as is any other.
    """
    name = func._schema.name
    if name == "aten::eq" and args[0] is args[1]:
        return 1
    return int(name == "aten::ne" and args[1] in (float("inf"), float("-inf")))


class GpuCalls(TorchFunctionMode):
    """Sends to the fakes what a program asks of the device "cuda", as CUDA's kernels have it."""

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def watch_backward(self) -> None:
        """Get what a backward pass calls, too: recomputed layers, own functions."""
        engine: Any = torch.autograd
        real_run = engine._engine_run_backward

        def run(*arguments: Any, **keywords: Any) -> Any:
            with self:
                return real_run(*arguments, **keywords)

        engine._engine_run_backward = run

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        first = args[0] if args else None
        name = getattr(func, "__name__", "")
        if isinstance(first, Tensor):
            if name in ("cuda", "pin_memory"):
                return self._to(Tensor.to, (first, "cuda"), {}) if name == "cuda" else first
            special = getattr(self, f"_{name}", None)
            if special is not None:
                return special(func, args, kwargs)
            if name in CUDA["in float32"] and torch.is_autocast_enabled("cpu"):
                args = tuple(
                    each.float() if getattr(each, "dtype", None) in _HALF else each for each in args
                )
                with torch.autocast("cpu", enabled=False):
                    return func(*args, **kwargs)
        elif _is_gpu(kwargs.get("device")) or isinstance(kwargs.get("device"), torch.device):
            kwargs["device"] = "cpu"
            with mock.patch.object(self._gpu, "makes_all", True):
                return self._gpu.put(func(*args, **kwargs))
        return func(*args, **kwargs)

    def _to(self, func: Any, args: Any, kwargs: Any) -> Any:
        devices = [*args[1:2], kwargs.get("device")]
        if "cpu" in [each for each in devices if isinstance(each, str)]:
            return self._cpu(func, args, kwargs)
        moves = any(isinstance(each, str | torch.device) for each in devices)
        rest = [torch.device("cpu") if _is_gpu(each) else each for each in args[1:]]
        if _is_gpu(kwargs.get("device")):
            kwargs["device"] = torch.device("cpu")
        kept = self._gpu.put(args[0]) if moves else args[0]
        if moves and self._gpu.is_elsewhere(kept):
            kept = kept.clone()
        return func(kept, *rest, **kwargs)

    def _cpu(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self._gpu.fetch(args[0])

    def _numpy(self, func: Any, args: Any, kwargs: Any) -> Any:
        value = self._cpu(func, args, kwargs)
        if isinstance(value, FakeTensor):  # too many to be made: one zero stands for all
            value = torch.zeros((), dtype=value.dtype).expand(value.shape)
        return func(value, *args[1:], **kwargs)

    _tolist = _numpy

    def ___format__(self, func: Any, args: Any, kwargs: Any) -> Any:
        value, form = args
        fake = isinstance(value, FakeTensor) and value.dim() == 0
        return format(self._gpu.read(value), form) if fake else func(value, form)

    def _dropout(self, func: Any, args: Any, kwargs: Any) -> Any:
        """As on a GPU: a mask of one byte is kept."""
        value, p = args[0], kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        trained = kwargs.get("training", args[2] if len(args) > 2 else True)
        if not isinstance(value, FakeTensor) or not trained or not p:
            return func(*args, **kwargs)
        return _aten.native_dropout(value, p, True)[0]

    def _scaled_dot_product_attention(self, func: Any, args: Any, kwargs: Any) -> Any:
        """No scores are written out: a GPU's kernels take dropout, and biases that are trained, the
        CPU's do not. None takes a bias whose rows are not in one piece: all is in float32 then."""
        mask = kwargs.pop("attn_mask", args[3] if len(args) > 3 else None)
        options = {**kwargs, "dropout_p": 0.0}
        if mask is None or mask.stride(-1) == 1:
            return func(*args[:3], None if mask is None else mask.detach(), **options)
        is_mixed = torch.is_autocast_enabled("cpu")
        dtype = torch.get_autocast_dtype("cpu") if is_mixed else args[0].dtype
        parts = [each.to(dtype) for each in (*args[:3], mask)]
        with torch.autocast("cpu", enabled=False):
            return torch._scaled_dot_product_attention_math(*parts, **options)[0]


def keep_files(gpu: FakeGpu) -> None:
    """Let torch's files hold fakes: how large each storage is, and what is seen of it."""
    real_load = torch.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        to_host = map_location == "cpu" or callable(map_location)
        with (
            # It would leave numbers out where it sees a mode of fakes.
            mock.patch.object(torch._guards, "detect_fake_mode", return_value=None),
            mock.patch.object(gpu, "storages", {}),
            torch._C.DisableTorchFunction(),
        ):
            read = real_load(f, "cpu", *args, **kwargs)
        return read if map_location is None else tree_map(gpu.fetch if to_host else gpu.put, read)

    def reduce(fake: Any, protocol: Any) -> Any:
        storage = fake.untyped_storage()
        view = tuple(fake.shape), fake.stride(), fake.storage_offset()
        return _loaded, (storage._cdata, storage.nbytes(), fake.dtype, view, fake.requires_grad)

    torch.load = load
    FakeTensor.__reduce_ex__ = reduce
    torch.serialization.add_safe_globals([_loaded])


def _loaded(key: int, size: int, dtype: torch.dtype, view: Any, requires_grad: bool) -> Tensor:
    """Return a fake as it was saved; those of one storage share one again."""
    gpu: Any = active_fake_mode()
    with mock.patch.object(gpu, "makes_all", True):
        if key not in gpu.storages:
            gpu.storages[key] = torch.empty(size, dtype=torch.uint8)
        made: Tensor = gpu.storages[key].view(dtype).as_strided(*view).detach()
    return made.requires_grad_(requires_grad)


def _is_gpu(device: Any) -> bool:
    return str(device).startswith(("cuda", "mps")) or type(device) is int
