"""A model that is streamed from the start: never whole on the device, nor twice on the host.

    model = load_streamed(path_or_id, quantization="nf4", peft_config=LoraConfig(...))

The model is built without memory (on the meta device); each block's tensors come from the
memory-mapped safetensors files straight into the block's host memory, one block after another, and
the pages of the file are let go; or they stay in the files (`store="files"`). Where the files'
names are not the model's (transformers converts those while it loads), and where bitsandbytes
quantizes, transformers' own loading on the CPU does the first part; it takes one tensor at a time
as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from memlint_runtime.streaming.streamed import stream_frozen_weights

__all__ = ["load_streamed"]


def load_streamed(
    path_or_id: str | Path,
    *,
    quantization: Literal["nf4", "int8"] | None = None,
    dtype: torch.dtype | str = "auto",
    device: torch.device | str | None = None,
    config: Any = None,
    store: Literal["host", "files"] = "host",
    peft_config: Any = None,
    **options: Any,
) -> Any:
    """A frozen transformers causal LM whose weights stream.

    Args:
        path_or_id: a folder with `config.json` and safetensors files, or a name on the Hub.
        quantization: of the blocks, by bitsandbytes, on the CPU, once.
        dtype: of everything that is not quantized, as `from_pretrained` takes it: a type, its name,
            or "auto" for the one that the checkpoint was saved in.
        device: where what stays is put; the accelerator of this machine, else the CPU.
        config: instead of the folder's.
        store: "host" takes as much host memory as the weights have bytes, locked; "files" leaves
            them in the memory-mapped files, unquantized, in the files' own dtype.
        peft_config: adapters to add, in training mode then (`get_peft_model`).
        options: of `stream_frozen_weights`.

    Returns the model, in evaluation mode, all of it frozen: add adapters, then train.
    Raises ValueError for an unknown quantization or dtype, or where the files are not the model as
    it is to be and weights are to stay there, and OSError where files are missing.
    """
    if quantization not in (None, "nf4", "int8"):
        raise ValueError(f"quantization is 'nf4', 'int8' or None, got {quantization!r}")
    if device is None:
        device = torch.accelerator.current_accelerator(check_available=True)
        device = device or torch.device("cpu")
    if quantization is not None and store == "files":
        raise ValueError(
            "store='files' streams the weights as the files have them: quantization needs "
            "store='host'"
        )
    dtype = _dtype(dtype, path_or_id, config)
    model = None
    if quantization is None:
        model = _mapped(_folder(path_or_id), config, dtype, as_is=store == "files")
    if model is None and store == "files":
        raise ValueError(
            f"the safetensors files of {path_or_id} do not hold the model's weights under the "
            "model's names (transformers converts them while it loads): take store='host'"
        )
    if model is None:
        model = _loaded(path_or_id, quantization, dtype, config)
    model.requires_grad_(False)
    stream_frozen_weights(model, store=store, **options)
    model.to(device)
    if peft_config is None:
        return model.eval()
    from peft import get_peft_model

    return get_peft_model(model, peft_config).train()


def _dtype(dtype: torch.dtype | str, path_or_id: str | Path, config: Any) -> torch.dtype:
    """The type that is meant: float32, as transformers has it, where a checkpoint does not say."""
    if dtype == "auto":
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(path_or_id) if config is None else config
        text = config.get_text_config()
        dtype = getattr(text, "dtype", None) or getattr(config, "dtype", None) or torch.float32
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype):
        raise ValueError(f"dtype is a torch.dtype, its name or 'auto', got {dtype!r}")
    return found


def _folder(path_or_id: str | Path) -> Path:
    """Where the files are; from the Hub they are fetched into its cache."""
    if Path(path_or_id).is_dir():
        return Path(path_or_id)
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "*.safetensors", "*.model", "*.jinja"]
    return Path(snapshot_download(str(path_or_id), allow_patterns=wanted))


def _mapped(folder: Path, config: Any, dtype: torch.dtype, *, as_is: bool) -> Any:
    """The model over the memory-mapped files, or None where names need transformers.

    as_is: whether matrices of another type are refused instead of converted.
    """
    from accelerate import init_empty_weights  # type: ignore[import-untyped]
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    files = _files(folder)
    if not files:
        return None
    config = AutoConfig.from_pretrained(folder) if config is None else config
    # Parameters are made on the meta device; buffers, which code computes, are real.
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore
    tensors = dict(_tensors(files))
    if not _fit(model, tensors):
        return None
    for name, tensor in tensors.items():
        converts = tensor.is_floating_point() and tensor.dtype != dtype
        if converts and as_is and tensor.dim() >= 2:
            raise ValueError(
                f"{name} is {tensor.dtype} in the files: with store='files' dtype is that, got "
                f"{dtype}"
            )
        tensors[name] = tensor.to(dtype) if converts else tensor
    model.requires_grad_(False).load_state_dict(tensors, strict=False, assign=True)
    model.tie_weights()
    if any(p.device.type == "meta" for p in [*model.parameters(), *model.buffers()]):
        return None
    if (folder / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder)
    model.config._name_or_path = model.name_or_path = str(folder)
    return model


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        return [folder / name for name in names]
    single = folder / "model.safetensors"
    return [single] if single.is_file() else []


def _tensors(files: list[Path]) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors over the mapped files: no bytes are read yet."""
    from safetensors import safe_open

    for path in files:
        with safe_open(path, framework="pt", device="cpu") as opened:
            for name in opened.keys():  # noqa: SIM118 - not a dictionary
                yield name, opened.get_tensor(name)


def _fit(model: nn.Module, tensors: dict[str, Tensor]) -> bool:
    """True if the files' names and shapes are the model's; tied weights may be missing."""
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if any(wanted.get(name) != tensor.shape for name, tensor in tensors.items()):
        return False
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    return all(name in tensors or name in tied for name in wanted)


def _loaded(path_or_id: str | Path, quantization: Any, dtype: torch.dtype, config: Any) -> Any:
    """The model as transformers loads it, on the CPU."""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    quantize: Any = BitsAndBytesConfig  # untyped in transformers
    more: dict[str, Any] = {}
    if config is not None:
        more["config"] = config
    if quantization == "nf4":
        more["quantization_config"] = quantize(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
    elif quantization == "int8":
        more["quantization_config"] = quantize(load_in_8bit=True)
    return AutoModelForCausalLM.from_pretrained(
        path_or_id, dtype=dtype, device_map={"": "cpu"}, **more
    )
