"""Peers' recipes with our packed samples and losses in the place of theirs: the same losses.

    python -m tests.swaps [torchtune] [axolotl]

Each trains ten steps of a tiny model on the CPU, in float32, as the peer does it and again with
ours. Every loss and gradient norm must agree to 1e-6 and 1e-5, relative. What to install is said in
`tests/swaps/torchtune.py` and `tests/swaps/axolotl.py`.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path

TOLERATED = {"loss": 1e-6, "grad_norm": 1e-5}
PEERS = ("torchtune", "axolotl")


def worst(theirs: list[dict[str, float]], ours: list[dict[str, float]], name: str) -> float:
    """Largest relative difference over the steps; infinite where there are other steps."""
    if len(theirs) != len(ours) or not theirs:
        return float("inf")
    return max(
        abs(one[name] - other[name]) / abs(one[name])
        for one, other in zip(theirs, ours, strict=True)
    )


def main(names: list[str]) -> int:
    failed = 0
    for peer in names or PEERS:
        swaps = importlib.import_module(f"tests.swaps.{peer}")
        with tempfile.TemporaryDirectory() as folder:
            for title, theirs, ours in swaps.compare(Path(folder)):
                found = {name: worst(theirs, ours, name) for name in TOLERATED}
                right = all(found[name] <= limit for name, limit in TOLERATED.items())
                failed += not right
                shown = ", ".join(f"{name} {value:.1e}" for name, value in found.items())
                sys.stdout.write(
                    f"{'same' if right else 'DIFFERS'}: {title}: {len(ours)} steps, "
                    f"loss {theirs[0]['loss']:.4f} to {theirs[-1]['loss']:.4f}; {shown}\n"
                )
                sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
