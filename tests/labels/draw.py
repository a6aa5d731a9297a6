"""Draw files to label: ``python -m tests.labels.draw ROOT [--seed 0] [--count 84]``.

ROOT holds checkouts, ``OWNER__NAME`` each. A third of the files are hand-written loops, a third are
scripts whose settings come from other files (modules of the project, or a parser), a third are any
others that train. At most two files of a repository; tests, copies of libraries and files above
``MAX_BYTES`` are left out. The same seed and checkouts give the same files.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

MAX_BYTES = 24_000
_A_REPOSITORY = 2
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|site-packages|build|docs?|\.[^/]*)/|(^|/)(test_|conftest|setup)"
)
_LOOP = re.compile(r"\.backward\(")
_TRAINER = re.compile(r"\b\w*Trainer\(")
_TRAINS = re.compile(r"from_pretrained\(|\btrl\b|\bpeft\b")
_PARSER = re.compile(r"HfArgumentParser|TrlParser|ArgumentParser\(|safe_load\(|OmegaConf|hydra")
_IMPORT = re.compile(r"(?m)^\s*from\s+(\.*[\w.]*)\s+import|^\s*import\s+([\w.]+)")


def strata(root: Path) -> dict[str, list[str]]:
    """Candidates by stratum, as paths below ``root``."""
    found: dict[str, list[str]] = {"loop": [], "elsewhere": [], "other": []}
    for path in sorted([*root.glob("*/**/*.py"), *root.glob("*/**/*.ipynb")]):
        name = path.relative_to(root).as_posix()
        if _LEFT_OUT.search(name.partition("/")[2]) or not path.is_file():
            continue
        if path.suffix == ".py" and path.stat().st_size > MAX_BYTES:
            continue
        if path.stat().st_size > 40 * MAX_BYTES:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        kind = _stratum(path, text, root)
        if kind is not None:
            found[kind].append(name)
    return found


def _stratum(path: Path, text: str, root: Path) -> str | None:
    if not _TRAINS.search(text):
        return None
    trainer = bool(_TRAINER.search(text))
    if _LOOP.search(text) and not trainer:
        return "loop"
    if not trainer:
        return None
    if path.suffix == ".py" and (_PARSER.search(text) or any(_own_imports(path, text, root))):
        return "elsewhere"
    return "other"


def _own_imports(path: Path, text: str, root: Path) -> Iterator[bool]:
    """True if each import is of a file beside the script, or of its project."""
    repository = root / path.relative_to(root).parts[0]
    for match in _IMPORT.finditer(text):
        name = match[1] or match[2] or ""
        parts = name.strip(".").split(".")
        for folder in (path.parent, path.parent.parent, repository, repository / "src"):
            stem = folder.joinpath(*parts)
            if parts[0] and (stem.with_suffix(".py").is_file() or (stem / "__init__.py").is_file()):
                yield True


def draw(root: Path, seed: int, count: int) -> list[tuple[str, str]]:
    """(stratum, path below ``root``) of ``count`` files."""
    chance = random.Random(seed)
    taken: Counter[str] = Counter()
    drawn = []
    for kind, names in strata(root).items():
        # A repository of hundreds of files counts as much as one of two.
        by_repository: dict[str, list[str]] = {}
        for name in names:
            by_repository.setdefault(name.partition("/")[0], []).append(name)
        order = sorted(by_repository)
        for each in by_repository.values():
            chance.shuffle(each)
        chance.shuffle(order)
        picked: list[tuple[str, str]] = []
        for turn in range(_A_REPOSITORY):
            for repository in order:
                files = by_repository[repository]
                if (
                    len(picked) < count // 3
                    and taken[repository] < _A_REPOSITORY
                    and turn < len(files)
                ):
                    taken[repository] += 1
                    picked.append((kind, files[turn]))
        drawn += picked
    return drawn


@click.command()
@click.argument("root", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--seed", default=0)
@click.option("--count", default=84)
def main(root: Path, seed: int, count: int) -> None:
    """Print the drawn files with their strata."""
    for kind, name in draw(root, seed, count):
        click.echo(f"{kind} {name}")


if __name__ == "__main__":
    main()
