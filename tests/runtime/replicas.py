"""What `nn.DataParallel` makes of a model on another device, for machines without one."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def replicate(model: nn.Module, parameters: dict[str, Tensor]) -> Any:
    """A replica of `model` with these in place of its parameters, as torch's `replicate` does it.

    parameters: tensors made of the model's own, by their names.
    """
    replicas: dict[str, Any] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        replica: Any = module._replicate_for_data_parallel()  # type: ignore[operator]
        replica._former_parameters = {}
        replicas[name] = replica
    for name, module in model.named_modules(remove_duplicate=False):
        prefix = f"{name}." if name else ""
        for child in module._modules:
            setattr(replicas[name], child, replicas[prefix + child])
        for key, value in module._parameters.items():
            if value is None:
                replicas[name]._parameters[key] = None
                continue
            setattr(replicas[name], key, parameters[prefix + key])
            replicas[name]._former_parameters[key] = parameters[prefix + key]
    return replicas[""]
