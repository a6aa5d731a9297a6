"""Options whose values are those of an enumeration of another library, or of a register of one."""

from collections.abc import Mapping

# Option -> the enumeration, in the tables of values.
READ_ELSEWHERE: Mapping[str, str] = {
    # transformers hands the name to accelerate, which looks it up in capitals (TorchDynamoPlugin).
    "transformers.TrainingArguments.torch_compile_backend": "accelerate.DynamoBackend",
    "accelerate.Accelerator.dynamo_backend": "accelerate.DynamoBackend",
    "accelerate.Accelerator.mixed_precision": "accelerate.PrecisionType",
}

# Options that end as the name of a backend in torch's register, which has fewer than the
# enumeration, and more where a package of its own registers one.
COMPILED_BY = (
    "transformers.TrainingArguments.torch_compile_backend",
    "accelerate.Accelerator.dynamo_backend",
    "torch.compile.backend",
)
# Backends that no package registers any more, and the minor version of torch from which on this was
# seen: torch/_dynamo/backends, nvfuser.py (its file is gone), onnxrt.py and torchxla.py.
GONE_BACKENDS: Mapping[str, str] = {
    **dict.fromkeys(("NVFUSER", "AOT_NVFUSER"), "2.0"),
    **dict.fromkeys(("OFI", "FX2TRT", "NVPRIMS_NVFUSER", "AOT_TS_NVFUSER"), "2.1"),
    **dict.fromkeys(("ONNXRT", "AOT_TORCHXLA_TRACE_ONCE", "TORCHXLA_TRACE_ONCE"), "2.13"),
}
# Those that raise where their own package, or their device, is not there.
OF_OTHER_PACKAGES = frozenset({"TVM", "TENSORRT", "IPEX", "HPU_BACKEND", "NEURON"})
