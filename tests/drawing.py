"""The drawing of the packages in CONTRIBUTING.md: ``python -m tests.drawing`` makes it anew.

An arrow says which package imports which. Arrows that follow from others are left out: if ``rule``
imports ``script`` and ``script`` imports ``api``, there is no arrow from ``rule`` to ``api``.
Imports for type checkers alone are no arrows.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.structure import Import, measure, package_of

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "CONTRIBUTING.md"
START, END = "<!-- drawing -->\n", "<!-- end of drawing -->"


def arrows(imports: Iterable[Import]) -> dict[str, set[str]]:
    """Return the packages that each package imports."""
    targets: dict[str, set[str]] = {}
    for item in imports:
        file, module = package_of(item.file), package_of(item.module)
        if file and module and file != module and not item.typed:
            targets.setdefault(file, set()).add(module)
    return targets


def reduced(targets: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the arrows that do not follow from the others."""

    def reached(package: str) -> set[str]:
        return set().union(*({other} | reached(other) for other in targets.get(package, ())))

    return {
        package: {
            target
            for target in others
            if not any(target in reached(other) for other in others - {target})
        }
        for package, others in targets.items()
    }


def drawing(imports: Iterable[Import]) -> str:
    """Return the packages and their arrows as a Mermaid block."""
    lines = [
        f"    {package} --> {target}"
        for package, targets in sorted(reduced(arrows(imports)).items())
        for target in sorted(targets)
    ]
    # No module of the linter imports the runtime: scripts do.
    return "\n".join(["```mermaid", "graph TD", *lines, "    memlint_runtime", "```", ""])


def rendered(text: str) -> str:
    """Return the guide with today's drawing between its marks."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}{drawing(measure(ROOT).imports)}{END}{tail}"


if __name__ == "__main__":
    GUIDE.write_text(rendered(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")
