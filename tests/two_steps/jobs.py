"""The scripts of ``scripts.toml``: which to run, and what each expects."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("scripts.toml")


class Job(NamedTuple):
    """One script or notebook of a checkout.

    data: the shape of rows by data set name or file, ``*`` for all others; see ``stand_ins``.
    files: texts to write below the working folder, by path. rows: length of every data set.
    folder: the working folder, in the checkout. chat_template: whether tokenizers come with one, as
    those of instruction-tuned models do.
    text: the script itself, where it stands in no checkout. exact: keep what the script says of
    batches, precision and optimizer, which else become small and fp32. select: the rules whose
    fixes are applied; all, if it is empty.
    """

    repository: str
    script: str
    data: dict[str, str]
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    files: dict[str, str]
    rows: int
    chat_template: bool
    text: str = ""
    exact: bool = False
    select: str = ""

    @property
    def name(self) -> str:
        """Repository, script, and the shape of rows where it is not plain text."""
        return f"{self.repository}/{self.script} ({self.data.get('*', 'files')})"


def read_jobs(path: Path = LIST, names: Sequence[str] = ()) -> list[Job]:
    """The scripts of ``path``, or those whose name holds one of ``names``."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    found = [
        Job(
            repository=entry["repository"],
            script=entry["script"],
            data=entry.get("data", {"*": "text"}),
            arguments=entry.get("arguments", []),
            folder=entry.get("folder", "."),
            environment=entry.get("environment", {}),
            files=entry.get("files", {}),
            rows=entry.get("rows", 16),
            chat_template=entry.get("chat_template", True),
        )
        for entry in table["script"]
    ]
    return [job for job in found if not names or any(name in job.name for name in names)]
