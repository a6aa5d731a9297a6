"""Words without which a file has nothing of the libraries that rules report on.

Most files of a repository import none of them: their bytes show it, unparsed.
"""

from __future__ import annotations

PACKAGES = ("transformers", "trl", "peft", "accelerate")

# Packages whose names and options are compared with their releases.
COMPARED = (*PACKAGES, "datasets")

# How a file runs a backward pass; functions of the kernels of libraries are called ``backward``.
BACKWARD = (
    *(".backward(", "manual_backward(", "forward_backward(", "backward_pass(", "import backward"),
)

# How a file names what it imports: the beginning of a statement, or further in a list of modules.
# The usual ones come first: the search ends at the first that is found.
LIBRARIES = tuple(
    f"{before} {package}"
    for before in ("from", "import", ",")
    for package in (*PACKAGES, "memlint_runtime")
)

# How a file shows that it trains, where the backward pass may stand in another one.
TRAINING = ("Trainer", "backward(", "optim")
