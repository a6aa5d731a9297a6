"""Copies of the libraries inside users' repositories: nobody wants findings in them.

A package folder counts as a copy by its name and a file that only this library has in it. The
library's own repository is no copy: its project file lies above the package and nothing above that
is a project. Cost: a set lookup per folder; file system checks only for folders with such a name.
"""

from __future__ import annotations

import os

from memlint.source.bounded import read_regular_text
from memlint.source.roots import folders_above, is_root

# What lies in the package's own folder and tells it from a user's folder of the same name.
_MARKS = {
    "accelerate": ("accelerator.py", "state.py"),
    "axolotl": ("cli", "utils"),
    "bitsandbytes": ("functional.py", "nn"),
    "deepspeed": ("runtime", "ops"),
    "diffusers": ("pipelines", "models"),
    "liger_kernel": ("ops", "transformers"),
    "peft": ("peft_model.py", "tuners"),
    "sentence_transformers": ("SentenceTransformer.py", "losses"),
    "torch": ("nn", "autograd"),
    "torchtune": ("modules", "training"),
    "transformers": ("modeling_utils.py", "tokenization_utils_base.py"),
    "trl": ("trainer", "import_utils.py"),
    "unsloth": ("models", "kernels"),
    "verl": ("trainer", "workers"),
}
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


def is_vendored(folder: str) -> bool:
    """True if ``folder`` (absolute) is a library's package within somebody else's project."""
    name = os.path.basename(folder)
    marks = _MARKS.get(name)
    if marks is None or not os.path.isfile(os.path.join(folder, "__init__.py")):
        return False
    if not all(os.path.exists(os.path.join(folder, mark)) for mark in marks):
        return False
    project = _project_above(folder)
    if project is None or not _is_project_of(project, name):
        return True
    return any(map(is_root, folders_above(os.path.dirname(project))))


def _project_above(folder: str) -> str | None:
    """Return the folder of the nearest project file above a package: its parent or ``src``'s."""
    parent = os.path.dirname(folder)
    for here in (parent, os.path.dirname(parent)):
        if any(os.path.isfile(os.path.join(here, file)) for file in _PROJECT_FILES):
            return here
    return None


def _is_project_of(project: str, name: str) -> bool:
    """True if a project file in ``project`` names the library as its distribution."""
    wanted = {name, name.replace("_", "-")}
    for file in _PROJECT_FILES:
        try:
            lines = read_regular_text(os.path.join(project, file)).split("\n")
        except OSError:
            continue
        for line in lines:
            key, equals, value = line.strip().partition("=")
            if equals and key.strip() == "name" and value.strip(" \t\"',") in wanted:
                return True
    return False
