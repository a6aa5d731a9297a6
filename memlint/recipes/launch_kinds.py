"""Which files hold launch commands, by their names. Imported at every start: light."""

from __future__ import annotations

from memlint.source.patterns import lazy_pattern

PROGRAMS = (
    r"\b(?:python[\d.]*|torchrun|accelerate|deepspeed|trl|tune|llamafactory-cli|lmf|axolotl)\b"
)
STARTS = lazy_pattern(PROGRAMS)
_LAUNCHES = lazy_pattern(PROGRAMS.encode())
_STARTED = lazy_pattern(rb"\.py|\s(?:-m|--module)\s")
_SUFFIXES = {
    "sh": "shell",
    "bash": "shell",
    "zsh": "shell",
    "slurm": "shell",
    "sbatch": "shell",
    "mk": "makefile",
    "just": "justfile",
    "dockerfile": "dockerfile",
    "ipynb": "notebook",
}
_NAMES = {
    "makefile": "makefile",
    "gnumakefile": "makefile",
    "justfile": "justfile",
    ".justfile": "justfile",
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
}


def kind_of(path: str) -> str | None:
    """How a file of this name is read; None if it holds no commands."""
    name = path.replace("\\", "/").rpartition("/")[2].lower()
    if name in _NAMES:
        return _NAMES[name]
    if name.startswith(("dockerfile.", "containerfile.")):
        return "dockerfile"
    stem, _, suffix = name.rpartition(".")
    return _SUFFIXES.get(suffix) if stem.strip(".") else None


def is_launch_file(path: str) -> bool:
    """True if a file of this name holds commands and nothing else."""
    return kind_of(path) not in (None, "notebook")


def may_launch(data: bytes) -> bool:
    """True if a file of commands may start a script of Python: most build or install something."""
    return _STARTED.search(data) is not None and _LAUNCHES.search(data) is not None
