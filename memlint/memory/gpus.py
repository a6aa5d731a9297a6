"""GPUs by name: the bytes that torch and nvidia-smi report, and the context's share."""

import json
import os
from functools import cache
from typing import Any

from memlint.memory.settings import SettingsError
from memlint.source.bounded import read_regular
from memlint.source.record import Record


class Gpu(Record):
    """A GPU. bytes: in all, as nvidia-smi shows; context: what CUDA takes before any tensor.

    hopper, blackwell: of compute capability 9, or of 10 and more. link, host: bytes that it sends
    in a second to other GPUs of its machine, and to the host, by its data sheet.
    """

    name: str
    bytes: int
    context: int
    hopper: bool = False
    blackwell: bool = False
    link: int = 0
    host: int = 0

    @property
    def room(self) -> int:
        """Bytes that torch may allocate."""
        return self.bytes - self.context

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "bytes": self.bytes, "room": self.room}


@cache
def known_gpus() -> dict[str, Gpu]:
    path = os.path.join(os.path.dirname(__file__), "data", "gpus.json")
    rows = json.loads(read_regular(path))["gpus"]
    table: dict[str, Gpu] = {}
    for row in rows:
        sizes = row["mib"] * 2**20, row["context_mib"] * 2**20
        kinds = (bool(row.get(key)) for key in ("hopper", "blackwell"))
        speeds = (row[key] * 10**9 for key in ("link_gbs", "host_gbs"))
        gpu = Gpu(row["name"], *sizes, *kinds, *speeds)
        for name in (row["name"], *row.get("aliases", ())):
            table[_plain(name)] = gpu
    return table


def _plain(name: str) -> str:
    lowered = name.lower().replace("nvidia", "").replace("geforce", "").replace("tesla", "")
    return "".join(character for character in lowered if character.isalnum())


def find_gpu(name: str) -> Gpu:
    """The GPU of a name such as ``a100-80gb`` or ``RTX 4090``.

    Raises:
        SettingsError: no such GPU, with the nearest names.
    """
    table = known_gpus()
    plain = _plain(name)
    if plain in table:
        return table[plain]
    import difflib

    near = difflib.get_close_matches(plain, table, 3, 0.5)
    names = sorted({table[key].name for key in near})
    hint = f"; near: {', '.join(names)}" if names else "; known are such as a100-80gb, rtx4090-24gb"
    raise SettingsError(f"unknown GPU {name!r}{hint}")
