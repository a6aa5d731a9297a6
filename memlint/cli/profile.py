"""``memlint profile``: show what was alive at the peak of a memory snapshot."""

import json
import sys

import click


def profile_command(
    path: str,
    others: tuple[str, ...],
    *,
    assumptions: tuple[str, ...],
    target: str | None,
    seconds: float,
    output_format: str,
) -> int:
    """Print the peak of each GPU, or of a script that is run, and return the exit status."""
    from memlint.cli.estimate import estimate_of, trace_command

    as_json = output_format == "json"
    if path.endswith(".py"):
        return trace_command(path, others, target, None, assumptions, seconds, as_json, False)
    if len(others) > 1:
        raise click.UsageError(f"{others[1]}: a snapshot has one FILE beside it")
    from memlint.profile.peak import peaks
    from memlint.profile.plain_pickle import PickleError
    from memlint.profile.shown import text
    from memlint.profile.snapshot import read_snapshot
    from memlint.reports.style import visible
    from memlint.trace.beside import recorded_beside

    estimated = estimate_of(others[0], target, None, assumptions) if others else None
    quiet = not sys.stderr.isatty()
    with click.progressbar(length=1, label="reading", file=sys.stderr, hidden=quiet) as bar:

        def progress(at: int, size: int) -> None:
            bar.length = size
            bar.update(at - bar.pos)

        try:
            found = peaks(read_snapshot(path, progress))
        except OSError as error:
            why = error.strerror or error
            raise click.ClickException(f"{path} cannot be read: {why}") from None
        except PickleError as error:
            raise click.ClickException(f"{path} is no memory snapshot: {error}") from None
    if as_json:
        kinds = {} if estimated is None else dict(estimated.peak.bytes_by_kind)
        facts = {"gpus": [peak.to_json() for peak in found], "estimated": kinds}
        click.echo(json.dumps(facts, indent=2))
        return 0
    click.echo("\n".join(map(visible, text(path, found, estimated and estimated.settings))))
    if estimated is not None and found:
        click.echo("\n".join(map(visible, recorded_beside(found, estimated))))
    return 0
