"""What git says of a project's history."""

from __future__ import annotations

import os
import subprocess

_SECONDS = 120


class HistoryError(ValueError):
    """git gave no answer; the message says why."""


def where_it_left(ref: str) -> str:
    """Return the commit where this branch left ``ref``, as a pull request compares it.

    Raises ``HistoryError``.
    """
    commit = f"{ref}^{{commit}}"
    known = git("rev-parse", "--verify", "--quiet", "--end-of-options", commit, none=True).strip()
    if not known:
        raise HistoryError(f"git knows no commit {ref!r} here (a shallow clone lacks it)")
    return git("merge-base", known, "HEAD", none=True).strip() or known


def git(*arguments: str, none: bool = False) -> str:
    """Return what git prints, as file names are decoded; none: nothing where it fails."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise HistoryError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise HistoryError(f"git gave no answer in {_SECONDS} s") from None
    if done.returncode and not none:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise HistoryError(f"git failed: {why[0] if why else 'it does not say why'}")
    return "" if done.returncode else os.fsdecode(done.stdout)
