"""The version of a library whose own source tree a script stands in.

The examples and tests of a checkout of trl are for that trl, not for the newest release: its
``pyproject.toml`` or ``setup.py`` says what it is, and it or a ``VERSION`` file which version.
"""

import os
import re
from collections.abc import Container

from memlint.api.tables import PACKAGES
from memlint.project.manifests import text_of

_NAMES = "|".join(PACKAGES)
_PROJECT = r"(?ms)^\[project\][ \t]*$(.*?)(?=^\[|\Z)"
_PROJECT_NAME = rf"(?m)^name\s*=\s*[\"']({_NAMES})[\"']"
_PROJECT_VERSION = r"(?m)^version\s*=\s*[\"']([^\"'\n]+)[\"']"
_SETUP_NAME = rf"\bname\s*=\s*[\"']({_NAMES})[\"']"
_SETUP_VERSION = r"(?i)\bversion\s*=\s*[\"']([^\"'\n]+)[\"']"
_VERSION_FILES = ("VERSION", "version.txt")


def own_version(folder: str, names: Container[str]) -> tuple[str, str, str] | None:
    """Package, version and the file that says so, where ``folder`` (which holds ``names``) is the
    root of one of the libraries; None elsewhere, and where the version cannot be read."""
    package = version = source = ""
    for name, pattern in (("pyproject.toml", _PROJECT_NAME), ("setup.py", _SETUP_NAME)):
        if name not in names:
            continue
        source = os.path.join(folder, name)
        text = text_of(source)
        if name == "pyproject.toml":
            section = re.search(_PROJECT, text)
            text = section[1] if section is not None else ""
        found = re.search(pattern, text)
        if found is not None:
            package = package or found[1]
            written = re.search(_SETUP_VERSION if name == "setup.py" else _PROJECT_VERSION, text)
            if written is not None:
                return package, written[1], source
    for name in _VERSION_FILES if package else ():
        if name in names:
            source = os.path.join(folder, name)
            version = text_of(source).strip()
            if version and "\n" not in version:
                return package, version, source
    return None
