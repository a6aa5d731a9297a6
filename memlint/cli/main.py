"""The command line: ``memlint check``, ``fix``, ``rule``, ``rules`` and ``target``.

Only this package knows click and prints. Everything that a
command needs is imported inside it: start-up time is part of what the tool is.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

import memlint
from memlint.cli.options import read_options, shared_options

CLEAN, FOUND, BROKEN = 0, 1, 2


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status: 0 clean, 1 findings, 2 usage or unreadable input."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = main.main(arguments, prog_name="memlint", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return BROKEN
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; no file was left half-written", err=True)
        return 130
    except BrokenPipeError:
        # The reader (``| head``) has gone; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"error: the output could not be written: {error.strerror or error}", err=True)
        return BROKEN
    return status if isinstance(status, int) else CLEAN


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(memlint.__version__, "-V", "--version", message="memlint %(version)s")
def main() -> None:
    """Find what wastes GPU memory in LLM training scripts, and mend it.

    \b
    memlint check train.py            what wastes memory, why, and what would mend it
    memlint fix train.py              apply the fixes that change nothing the model learns
    memlint fix --unsafe-fixes .      apply those too that change training
    memlint rule MEM301               explain a rule
    """


@main.command(short_help="Report what wastes memory.")
@shared_options
@click.option(
    "--output-format",
    default="full",
    metavar="FORMAT",
    type=click.Choice(["full", "concise", "json", "sarif", "github", "gitlab"]),
    help="full (default), concise, json, sarif, github or gitlab.",
)
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of listing them.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something is found.")
def check(output_format: str, statistics: bool, exit_zero: bool, **values: Any) -> int:
    """Report what wastes GPU memory in the scripts and notebooks under PATHS.

    PATHS are files and folders (default: the current folder); - reads a script from standard
    input. Exits with 0 if nothing is found (hints do not count), 1 if something is, 2 if the usage
    is wrong or a file cannot be read.
    """
    from memlint.cli.check import check_command

    return check_command(
        tuple(values["paths"]),
        read_options(values),
        stdin_filename=values["stdin_filename"],
        output_format=output_format,
        statistics=statistics,
        exit_zero=exit_zero,
    )


@main.command(short_help="Mend what can be mended.")
@shared_options
@click.option(
    "--unsafe-fixes/--no-unsafe-fixes",
    default=None,
    help="Apply fixes that change training, too (data cut, precision, optimizer, batch).",
)
@click.option("--diff", is_flag=True, help="Show what would change, and write nothing.")
@click.option(
    "--check",
    "only_check",
    is_flag=True,
    help="Write nothing; exit with 1 if a file would change.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if findings remain.")
def fix(
    unsafe_fixes: bool | None, diff: bool, only_check: bool, exit_zero: bool, **values: Any
) -> int:
    """Apply the fixes of what is found under PATHS, formatting kept.

    Only fixes that do not change what the model learns are applied, unless --unsafe-fixes is given.
    Exits with 0 if nothing remains, 1 if findings do (with --check: if a file would change), 2 if
    the usage is wrong or a file cannot be read. --diff without --check exits with 0.
    """
    from memlint.cli.fix import fix_command

    return fix_command(
        tuple(values["paths"]),
        read_options(values),
        stdin_filename=values["stdin_filename"],
        unsafe=unsafe_fixes,
        diff=diff,
        only_check=only_check,
        exit_zero=exit_zero,
    )


@main.command(short_help="Explain a rule.")
@click.argument("rule_name", metavar="CODE|NAME")
@click.option("--no-color", is_flag=True, help="No colours.")
def rule(rule_name: str, no_color: bool) -> int:
    """Explain a rule: what it sees, why it matters, an example before and after, sources."""
    from memlint.cli.rules import rule_command

    return rule_command(rule_name, False if no_color else None)


@main.command(short_help="List all rules.")
@click.option("--no-color", is_flag=True, help="No colours.")
def rules(no_color: bool) -> int:
    """List all rules with their level and whether they have a fix."""
    from memlint.cli.rules import rules_command

    return rules_command(False if no_color else None)


@main.command(short_help="Show the library versions that scripts are checked for.")
@click.argument("path", type=click.Path(), default=".", metavar="[PATH]")
@click.option("--target", metavar="VERSIONS", help="As for check.")
@click.option("--config", type=click.Path(), metavar="FILE", help="As for check.")
def target(path: str, target: str | None, config: str | None) -> int:
    """Show for which versions the scripts at PATH are checked, and where they were found."""
    from memlint.cli.target import target_command

    return target_command(path, target, config)
