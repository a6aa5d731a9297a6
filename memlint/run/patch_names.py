"""How a patch names a file, so that ``git apply`` and ``patch -p1`` find it.

Git refuses a name with ``..`` in it. A file below the current folder is named from there, any other
from the root of its repository, which is where the patch is then to be applied.
"""

from __future__ import annotations

import os


def patch_name(path: str) -> str:
    """The name of ``path``, as the user gave it, with ``/`` and without ``.`` and ``..``."""
    name = os.path.normpath(path)
    if os.path.isabs(path) or os.pardir in path.replace(os.sep, "/").split("/"):
        folder = os.path.realpath(os.path.dirname(path))
        name = os.path.join(folder, os.path.basename(path))
        bases = (os.path.realpath(os.curdir), _repository(folder))
        for base in bases:
            start = os.path.join(base, "")
            if base and name.startswith(start):
                name = name[len(start) :]
                break
    return name.replace(os.sep, "/").lstrip("/")


def _repository(folder: str) -> str:
    """The nearest folder above or at ``folder`` that holds ``.git``; empty without one."""
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder
