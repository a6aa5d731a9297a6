"""``memlint profile``: show what was alive at the peak of a memory snapshot."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from memlint.memory import Estimate


def profile_command(
    path: str,
    script: str | None,
    *,
    assumptions: tuple[str, ...],
    target: str | None,
    output_format: str,
) -> int:
    """Print the peak of each GPU and return the exit status, 0."""
    from memlint.profile.peak import peaks
    from memlint.profile.plain_pickle import PickleError
    from memlint.profile.shown import beside, text
    from memlint.profile.snapshot import read_snapshot

    estimated = _estimate(script, assumptions, target) if script is not None else None
    quiet = not sys.stderr.isatty()
    with click.progressbar(length=1, label="reading", file=sys.stderr, hidden=quiet) as bar:

        def progress(at: int, size: int) -> None:
            bar.length = size
            bar.update(at - bar.pos)

        try:
            found = peaks(read_snapshot(path, progress))
        except OSError as error:
            raise click.ClickException(
                f"{path} cannot be read: {error.strerror or error}"
            ) from None
        except PickleError as error:
            raise click.ClickException(f"{path} is no memory snapshot: {error}") from None
    kinds = estimated.peak.bytes_by_kind if estimated is not None else {}
    if output_format == "json":
        values = [peak.to_json() for peak in found]
        click.echo(json.dumps({"gpus": values, "estimated": dict(kinds)}, indent=2))
        return 0
    click.echo("\n".join(text(path, found, estimated and estimated.settings)))
    for peak in found[:1] if estimated is not None else ():
        click.echo("\n".join(beside(peak, kinds)))
    return 0


def _estimate(script: str, assumptions: tuple[str, ...], target: str | None) -> Estimate:
    """Return what the memory model says of the run."""
    from memlint.cli.runs_of_file import configured, require_model, runs_of_file
    from memlint.memory.estimates import estimate
    from memlint.memory.settings import SettingsError, read_with

    run = runs_of_file(script, None, target)[0]
    assumptions = configured(run.path, target, None, assumptions).assume
    require_model(run, assumptions)
    try:
        return estimate(read_with(run.settings, "", assumptions))
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
