"""``python -m tests.hostile [--count 1000] [--seed 0]``: the worst of each reader.

Exits with 1 where an input takes more than five seconds or a GiB, waits, or is called a defect.
"""

from __future__ import annotations

import time

import click

from tests.hostile.running import SECONDS, Outcome, run


@click.command()
@click.option("--count", default=1000)
@click.option("--seed", default=0)
@click.option("--minutes", default=60.0, help="Stop after so long, whatever is left.")
@click.option("--seconds", default=SECONDS, help="Of CPU that an input may take.")
def main(count: int, seed: int, minutes: float, seconds: int) -> None:
    """Run hostile inputs, and print the worst of each reader."""
    import memlint.cli.main
    import memlint.script  # noqa: F401

    worst: dict[str, list[Outcome]] = {}
    faults = 0
    end = time.monotonic() + 60 * minutes
    for number in range(count):
        if time.monotonic() > end:
            break
        outcome = run(number, seed, seconds)
        worst.setdefault(outcome.reader, []).append(outcome)
        if outcome.fault:
            faults += 1
            click.echo(
                f"{number}: {outcome.reader}, {outcome.say}: "
                f"{outcome.seconds:.1f} s, {outcome.bytes >> 20} MiB: {outcome.fault}"
            )
    click.echo(f"{'reader':15} inputs  worst s  worst MiB  faults")
    for name, outcomes in sorted(worst.items()):
        click.echo(
            f"{name:15} {len(outcomes):6} {max(o.seconds for o in outcomes):8.2f} "
            f"{max(o.bytes for o in outcomes) >> 20:10} {sum(bool(o.fault) for o in outcomes):7}"
        )
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
