"""Which modules of a model carry a state along the row, and which of these can be continued.

Transformers' layers with a state hand it to their cache by two methods: `update_conv_state` returns
the tokens with those before them that a causal convolution still sees, `update_recurrent_state`
takes the state after the last token. A layer that reads tokens `[B, S, D]`, such a cache and a
mask, and nothing else, can be run over any rows, and over a row in parts.

Whether a part can begin with a recurrent state shows in the code too: some call is given
`initial_state` (or `initial_states`). A scan that takes none (Mamba 1) is run from each row's first
token on.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from torch import nn

__all__ = ["StateLayers", "cache_parameter", "continues", "find_state_layers"]

_UPDATES = frozenset({"update_conv_state", "update_recurrent_state"})
_CACHES = ("cache_params", "past_key_values")
_READ = {"self", "hidden_states", "attention_mask", "conv_mask", *_CACHES}
_INITIAL = ("initial_state", "initial_states")


@dataclass(frozen=True, eq=False)
class StateLayers:
    """modules: those that can be run over rows of tokens. strange: which layer keeps a state and
    cannot, and why; or None."""

    modules: tuple[nn.Module, ...]
    strange: str | None

    @property
    def places(self) -> set[int]:
        """The decoder layers that they are in."""
        return {module.layer_idx for module in self.modules}  # type: ignore[misc]


def find_state_layers(model: nn.Module) -> StateLayers:
    """The modules of `model` that keep a state in a cache."""
    served, strange = [], None
    for name, module in model.named_modules():
        if not any(_UPDATES & set(code.co_names) for code in _codes(type(module))):
            continue
        known = isinstance(getattr(module, "layer_idx", None), int)
        if cache_parameter(module) is None or not known:
            strange = strange or f"its {type(module).__name__} reads more than tokens"
        elif name and not _hands_on_keywords(model.get_submodule(name.rpartition(".")[0])):
            strange = strange or f"its {type(module).__name__} is handed no keywords"
        else:
            served.append(module)
    return StateLayers(tuple(served), strange)


def _hands_on_keywords(module: nn.Module) -> bool:
    """True if any call in the module's forward is given keywords that it does not name."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None:
        return True
    return any(step.opname == "CALL_FUNCTION_EX" for step in dis.get_instructions(code))


def cache_parameter(module: nn.Module) -> str | None:
    """What the layer's forward calls its cache; None where it reads more than tokens."""
    forward = inspect.unwrap(type(module).forward)
    code = getattr(forward, "__code__", None)
    if code is None or not _UPDATES & set(code.co_names):
        return None
    parameters = inspect.signature(forward).parameters
    named = {n for n, p in parameters.items() if p.kind is not inspect.Parameter.VAR_KEYWORD}
    if not named <= _READ:
        return None
    return next((name for name in _CACHES if name in named), None)


def continues(module: nn.Module) -> bool:
    """True if the layer's code begins with a state that it is given."""
    code = inspect.unwrap(type(module).forward).__code__
    if "update_recurrent_state" not in code.co_names:
        return True
    given: set[Any] = set()
    for constant in code.co_consts:
        given |= set(constant) if isinstance(constant, tuple) else set()
    return any(name in given for name in _INITIAL)


def _codes(cls: type) -> Iterator[CodeType]:
    for base in cls.__mro__:
        if base is not nn.Module:
            for method in vars(base).values():
                if isinstance(method, FunctionType):
                    yield inspect.unwrap(method).__code__
