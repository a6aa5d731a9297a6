"""How services identify a finding: its file's path from the working folder, and a fingerprint."""

import os

from memlint.run.results import Rendered
from memlint.source.digests import blake2b


def relative(path: str) -> str | None:
    """Return ``path`` relative to the working folder, with ``/``; None if it is not below it."""
    try:
        found = os.path.relpath(path)
    except ValueError:  # another drive
        return None
    if found == os.pardir or found.startswith(os.pardir + os.sep):
        return None
    return found.replace(os.sep, "/")


def uri(path: str) -> str:
    """Return the path relative to the working folder if it is below it, so services find it."""
    from urllib.parse import quote

    # By bytes: a file's name need not be UTF-8.
    below = relative(path)
    if below is not None:
        return quote(os.fsencode(below))
    return "file://" + quote(
        os.fsencode("/" + os.path.abspath(path).replace(os.sep, "/").lstrip("/"))
    )


class Fingerprints:
    """Tells findings apart, and recognizes them in another run.

    Rows are left out: a finding that moves is no new one. Equal findings of one file are told apart
    by their order.
    """

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def of(self, finding: Rendered) -> str:
        path = relative(finding.path) or finding.path
        return self.of_parts(path, finding.code, finding.message, finding.line.strip())

    def of_parts(self, *parts: str) -> str:
        key = "\0".join(parts)
        count = self._seen[key] = self._seen.get(key, 0) + 1
        data = f"{key}\0{count}".encode("utf-8", "replace")
        return blake2b(data, digest_size=16).hexdigest()
