"""Numbers in a model's configuration, by whichever key its family writes them."""

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

_LAYERS = 10**5
_MOST = 10**9  # no size of a model reaches it


class ConfigError(ValueError):
    """A configuration that says too little to size a model."""


def number(config: Config, *names: str, default: int | None = None) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        elif isinstance(value, str) and default is None:
            raise ConfigError(f"{name!r} is a whole number, not {value!r}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if value < 0 and default is not None:
                return default  # -1 switches an option off
            least = 1 if default is None else 0
            most = _LAYERS if "layer" in name else _MOST
            if not least <= value < most or value != int(value):
                raise ConfigError(
                    f"{name!r} is a whole number from {least} to {most}, not {value!r}"
                )
            return int(value)
    if default is None:
        raise ConfigError(f"the model's configuration has no {names[0]!r}")
    return default
