"""Options whose values are those of an enumeration of another library."""

from __future__ import annotations

from collections.abc import Mapping

# Option -> the enumeration, in the tables of values.
READ_ELSEWHERE: Mapping[str, str] = {
    # transformers hands the name to accelerate, which looks it up in capitals (TorchDynamoPlugin).
    "transformers.TrainingArguments.torch_compile_backend": "accelerate.DynamoBackend",
    "accelerate.Accelerator.mixed_precision": "accelerate.PrecisionType",
}
