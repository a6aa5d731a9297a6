"""The options that commands share."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from memlint.rule.registry import Choice
from memlint.source.record import NamedTuple

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Machine(NamedTuple):
    """What runs are to fit. gpus: how many share a run. host: bytes of its memory; 0: any."""

    gpus: int = 1
    host: int = 0


host_memory_option = click.option(
    "--host-memory",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GIB",
    callback=lambda context, option, value: int((value or 0) * 2**30),
    help="With --fit: what waits on the host may take so much of a machine's memory.",
)


def read_codes(
    context: click.Context, option: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """Parse ``MEM301,MEM4,padded-batches``: codes, prefixes, names or ALL, separated by commas."""
    codes = tuple(word.strip() for value in values for word in value.split(",") if word.strip())
    for value in values:
        if not value.strip(" ,"):
            text = f"expected codes as in MEM301,MEM4, got {value!r}"
            raise click.BadParameter(text, context, option)
    if codes:
        from memlint.rule.registry import check_specifiers

        try:
            check_specifiers(codes)
        except ValueError as error:
            raise click.BadParameter(str(error), context, option) from None
    return codes


class Common(NamedTuple):
    """The values of the shared options."""

    choice: Choice
    target: str | None
    config: str | None
    force_exclude: bool
    cache: bool
    colour: bool | None
    verbose: bool
    quiet: bool
    runtime: bool | None = None
    gpu: str | None = None
    assume: tuple[str, ...] = ()
    prices: bool | None = None
    tests: bool | None = None
    exclude: tuple[str, ...] = ()
    isolated: bool = False
    fixable: tuple[str, ...] = ()
    unfixable: tuple[str, ...] = ()


_OPTIONS = (
    click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATHS]..."),
    click.option(
        "--select", callback=read_codes, multiple=True, metavar="CODES",
        help="Run only these rules: codes, prefixes or names, separated by commas.",
    ),
    click.option(
        "--ignore", callback=read_codes, multiple=True, metavar="CODES", help="Skip these rules."
    ),
    click.option(
        "--extend-select", callback=read_codes, multiple=True, metavar="CODES",
        help="Run these rules too.",
    ),
    click.option(
        "--target", metavar="VERSIONS",
        help="Check for these library versions, such as trl=0.29,transformers=4.57; or newest.",
    ),
    click.option(
        "--range", "of_range", metavar="VERSIONS",
        help="Check for each release in a range, as in 'trl>=0.15,<2', and fix what is right in "
        "all of them.",
    ),
    click.option(
        "--config", type=click.Path(), metavar="FILE",
        help="Use this configuration file and no other.",
    ),
    click.option("--isolated", is_flag=True, help="Use no configuration file."),
    click.option(
        "--exclude", "--extend-exclude", multiple=True, metavar="PATTERN",
        help="Leave out files and folders like these too, such as legacy/ or *_old.py; repeatable.",
    ),
    click.option("--stdin-filename", metavar="NAME", help="The file name of a script read with -."),
    click.option(
        "--force-exclude", is_flag=True,
        help="Treat files named as paths like files found in folders: skip excluded ones, and ones "
        "that do not parse and do not mention training (for hooks, which name every file).",
    ),
    click.option(
        "--no-runtime", is_flag=True,
        help="Leave out fixes that make the script import memlint_runtime.",
    ),
    click.option(
        "--gpu", metavar="NAME",
        help="The GPU that scripts run on, such as rtx4090-24gb; runs that do not fit come first.",
    ),
    click.option(
        "--assume", multiple=True, metavar="KEY=VALUE",
        help="For prices: set a value that scripts leave open, such as seq_len=4096; repeatable.",
    ),
    click.option("--no-prices", is_flag=True, help="Do not estimate what findings cost in GiB."),
    click.option(
        "--tests", is_flag=True,
        help="Ask all rules of files below tests/ and test/ and of functions test_*, whose models "
        "are small. Else only rules on versions speak there, and rules selected by code or name.",
    ),
    click.option("--no-cache", is_flag=True, help="Neither read nor write .memlint_cache."),
    click.option(
        "--no-color", is_flag=True, help="No colours; NO_COLOR in the environment does the same."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show which versions and files are used."),
    click.option("-q", "--quiet", is_flag=True, help="No closing summary."),
)  # fmt: skip


def shared_options(function: _Function) -> _Function:
    """Add the paths and options of ``_OPTIONS`` to a command, in their order."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def fixable_options(function: _Function) -> _Function:
    """Add the options that choose whose fixes are applied."""
    for name, what in (("--unfixable", "no fixes"), ("--fixable", "only fixes")):
        function = click.option(
            name, callback=read_codes, multiple=True, metavar="CODES",
            help=f"Apply {what} of these rules.",
        )(function)  # fmt: skip
    return function


fail_level_option = click.option(
    "--fail-level",
    default="waste",
    show_default=True,
    metavar="LEVEL",
    type=click.Choice(["error", "waste", "notice", "hint"]),
    help="Exit with 1 only for findings of this level (error, waste, notice, hint) or worse.",
)


def read_options(values: dict[str, Any]) -> Common:
    """Read the shared options from a command's values."""
    target, of_range = values["target"], values["of_range"]
    if target is not None and of_range is not None:
        raise click.UsageError("--range and --target exclude each other")
    return Common(
        Choice(values["select"] or None, values["ignore"], values["extend_select"]),
        target if of_range is None else f"every {of_range}",
        values["config"],
        values["force_exclude"],
        not values["no_cache"],
        False if values["no_color"] else None,
        values["verbose"],
        values["quiet"],
        False if values["no_runtime"] else None,
        values["gpu"],
        tuple(values["assume"]),
        False if values["no_prices"] else None,
        values["tests"] or None,
        tuple(values["exclude"]),
        values["isolated"],
        tuple(values.get("fixable", ())),
        tuple(values.get("unfixable", ())),
    )


# In which ``check`` reports.
FORMATS = (
    "full", "concise", "json", "sarif", "github", "gitlab", "junit", "azure", "rdjson",
)  # fmt: skip

_ADOPTION = (
    click.option(
        "--diff-base", metavar="REF",
        help="Report only what stands on lines changed since this commit, as in --diff-base main.",
    ),
    click.option(
        "--baseline", metavar="FILE",
        help="Report only findings that this file does not have.",
    ),
    click.option(
        "--write-baseline", metavar="FILE",
        help="Write all findings to this file and report none; then use --baseline FILE.",
    ),
    click.option(
        "--add-ignore", is_flag=True,
        help="Write `# memlint: ignore[CODE]` beside every finding.",
    ),
    click.option("--reason", metavar="TEXT", help="A word why, behind what --add-ignore writes."),
    click.option("--show-files", is_flag=True, help="List the files that would be checked."),
    click.option(
        "--show-settings", is_flag=True,
        help="Show the settings of the working folder, after the command line.",
    ),
)  # fmt: skip


def adoption_options(function: _Function) -> _Function:
    """Add the options of ``check`` for old code to a command, in their order."""
    for option in reversed(_ADOPTION):
        function = option(function)
    return function


class Adoption(NamedTuple):
    """The values of these options."""

    diff_base: str | None = None
    baseline: str | None = None
    write_baseline: str | None = None
    add_ignore: bool = False
    reason: str | None = None
    show_files: bool = False
    show_settings: bool = False

    @property
    def writes(self) -> bool:
        """True if findings are written somewhere and not reported."""
        return self.add_ignore or self.write_baseline is not None


def read_adoption(values: dict[str, Any]) -> Adoption:
    """Read the options for old code from a command's values."""
    return Adoption(**{name: values[name] for name in Adoption._fields})
