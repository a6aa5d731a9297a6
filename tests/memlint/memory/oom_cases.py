"""Real out-of-memory errors of public threads: ``oom_cases.json``, and how well they are explained.

    python -m tests.memlint.memory.oom_cases

Each case has its source, the size and the frames' code as torch wrote them, what is known of the
run, and the kind of the tensor with what makes it certain: a frame, the thread, or the size alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from memlint.memory.oom_candidates import explain

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "oom_cases.json").read_text(encoding="utf-8")
)


def log_of(case: dict[str, Any], *, frames: bool = True) -> str:
    """A log with the case's numbers, in the wording of its generation of torch."""
    lines: list[str] = []
    for frame in case["frames"] if frames else ():
        place, _, function = frame.partition(".py:")
        if function.isidentifier():
            lines.append(f'  File "/env/{place}.py", line 1, in {function}')
        elif frame.startswith("Failed to clone"):
            lines.append(f"UserWarning: {frame}.")
        else:
            if not lines or not lines[-1].startswith("  File"):
                lines.append('  File "/env/train.py", line 1, in <module>')
            lines.append(f"    {frame}")
    size, total, gpu = case["size"], case["total"] or "24.00 GiB", case["gpu"]
    allocated = case["allocated"]
    if case["form"] == 1:
        lines.append(
            f"RuntimeError: CUDA out of memory. Tried to allocate {size} (GPU {gpu}; {total} total "
            f"capacity; {allocated + ' already allocated; ' if allocated else ''}9.00 MiB free)"
        )
    else:
        lines.append(
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {size}. GPU {gpu} has "
            f"a total capacity of {total} of which 9.00 MiB is free. Including non-PyTorch memory, "
            "this process has 2.00 GiB memory in use."
            + (f" Of the allocated memory {allocated} is allocated by PyTorch" if allocated else "")
        )
    return "\n".join(lines)


def rank(case: dict[str, Any], *, frames: bool = True, settings: bool = True) -> int:
    """The place of the true kind among the candidates, from 1; 99 where it is missing."""
    known = case["settings"] if settings else None
    kinds = [item.kind for item in explain(log_of(case, frames=frames), known).candidates]
    return kinds.index(case["true"]) + 1 if case["true"] in kinds else 99


def main() -> None:
    rows = []
    for case in CASES:
        ranks = (
            rank(case),
            rank(case, frames=False),
            rank(case, settings=False),
            rank(case, frames=False, settings=False),
        )
        rows.append((case, ranks))
        sys.stdout.write(
            f"{case['source'][19:]:48} {case['size']:>12} {case['true']:20} "
            + " ".join(f"{place:3}" for place in ranks)
            + "\n"
        )
    names = ("all", "settings, no frames", "frames, no settings", "size alone")
    known = [(case, ranks) for case, ranks in rows if case["settings"] is not None]
    for label, chosen in (("all cases", rows), ("model known", known)):
        for at, name in enumerate(names):
            first = sum(ranks[at] == 1 for _, ranks in chosen)
            three = sum(ranks[at] <= 3 for _, ranks in chosen)
            sys.stdout.write(
                f"{label}: {name:20} first {first}/{len(chosen)}, "
                f"among three {three}/{len(chosen)} ({three / len(chosen):.0%})\n"
            )


if __name__ == "__main__":
    main()
