"""Functions that commands share: from paths to jobs, colours, progress, the cache's folder."""

import io
import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TextIO

import click

from memlint.api.tables import PACKAGES
from memlint.cli.options import Common
from memlint.project.config import ConfigError, Settings, load, nearest, override, pattern_below
from memlint.project.discover import Found, Skipped, discover, is_excluded
from memlint.project.environments import installed
from memlint.project.ignores import Patterns
from memlint.project.targets import Targets
from memlint.recipes.files import is_recipe_file
from memlint.reports.style import visible
from memlint.run.cache import Cache
from memlint.run.checking import Progress, is_maybe_recipe
from memlint.run.jobs import Job, plan
from memlint.run.session import Work
from memlint.source.bounded import read_stream
from memlint.source.diagnostics import FileError
from memlint.source.reading import MAX_BYTES
from memlint.source.record import NamedTuple

# With fewer files to parse, a progress bar would only flash.
_LONG_WORK = 200
# Options that stand before the configuration.
_OVERRIDING = (
    "target", "runtime", "gpu", "assume", "prices", "tests", "fixable", "unfixable",
)  # fmt: skip
# Users wait this long without a sign of progress.
_LONG_SECONDS = 1.0


class Inputs(NamedTuple):
    """The jobs, and the folders or links that could not be walked."""

    jobs: list[Job]
    diagnostics: list[FileError]
    settings: Settings  # of the working folder


class Usage(click.ClickException):
    """A usage error, printed on one line."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {visible(self.message)}", err=True, file=file)


def show_error(error: click.ClickException) -> None:
    """Print a wrong use of the command line as all errors are: ``error: ...``."""
    shown = io.StringIO()
    error.show(shown)
    click.echo(re.sub("^Error: ", "error: ", shown.getvalue(), flags=re.M), err=True, nl=False)


def settings_here(options: Common, folder: str = ".") -> Settings:
    """Return the configuration of ``folder``, overridden by the command line."""
    if options.isolated and options.config is not None:
        raise Usage("--isolated and --config exclude each other")
    try:
        if options.isolated:
            found = Settings(root=os.path.abspath(folder))
        elif options.config is None:
            found = nearest(os.path.abspath(folder))
        else:
            loaded = load(options.config)
            if loaded is None:
                raise ConfigError(f"{options.config}: has no [tool.memlint] section")
            found = loaded
    except ConfigError as error:
        raise Usage(str(error)) from None
    return _over(options, found)


def _over(options: Common, settings: Settings) -> Settings:
    """Return ``settings``, overridden by the command line."""
    return override(settings, **{name: getattr(options, name) for name in _OVERRIDING})


def gather(
    paths: Sequence[str], options: Common, progress: Progress | None = None, *, tell: bool = True
) -> Inputs:
    """Return the jobs for ``paths``, telling what is assumed. Raise ``Usage`` if it is invalid."""
    on_file = (progress or Progress()).read
    here = settings_here(options)
    found: list[Found] = []
    diagnostics: list[FileError] = []
    try:
        for each in discover(
            paths or (".",),
            config=here if options.config is not None or options.isolated else None,
            force_exclude=options.force_exclude,
        ):
            on_file()
            if isinstance(each, Found):
                found.append(each)
            elif isinstance(each, FileError):
                diagnostics.append(each)
            elif isinstance(each, Skipped) and options.verbose:
                click.echo(f"skipped {visible(each.path)}: {each.reason}", err=True)
    except ConfigError as error:
        raise Usage(str(error)) from None
    found = _included(found, options)
    overridden = {id(each.settings): each.settings for each in found}
    changed = {key: _over(options, value) for key, value in overridden.items()}
    found = [each._replace(settings=changed[id(each.settings)]) for each in found]
    jobs = plan(found, options.choice)
    check_targets([*changed.values(), here], options.target, tell=tell)
    check_prices([*changed.values(), here], options, tell=tell)
    return Inputs(jobs, diagnostics, here)


def _included(found: list[Found], options: Common) -> list[Found]:
    """Return the files without those of ``--exclude``, relative to the working folder."""
    if not options.exclude:
        return found
    from memlint.reports.paths import relative

    try:
        patterns = Patterns([pattern_below(os.getcwd(), each) for each in options.exclude])
    except ValueError as error:
        raise Usage(f"--exclude: a pattern {error}") from None
    return [each for each in found if each.named or not patterns.ignores(relative(each.path) or "")]


def stdin_work(options: Common, filename: str | None) -> tuple[Work, bool]:
    """Return the script on standard input, and True if the configuration excludes its name."""
    name = filename or "stdin.py"
    settings = settings_here(options, os.path.dirname(os.path.abspath(name)))
    check_targets([settings], options.target)
    check_prices([settings], options)
    job = plan([Found(name, settings, named=not options.force_exclude)], options.choice)[0]
    excluded = options.force_exclude and is_excluded(name, settings)
    try:
        data = read_stream(sys.stdin.buffer, MAX_BYTES)
    except OSError:
        message = f"standard input is larger than the limit of {MAX_BYTES >> 20} MiB"
        raise Usage(message) from None
    return Work(job, data), excluded


def versions_that_run(what: str) -> str:
    """Return the installed versions, for ``--target``. what: runs a script. Raises ``Usage``."""
    here = installed(sys.path)
    if "torch" not in here:
        raise Usage(
            f"{what} runs the script: use it in the environment that trains (pip install "
            "'torch-memlint[runtime]'); torch is not installed in this one"
        )
    return ",".join(f"{name}={here[name].split('+')[0]}" for name in PACKAGES if name in here)


def check_targets(
    all_settings: Iterable[Settings], option: str | None, *, tell: bool = True
) -> None:
    """Raise ``Usage``, naming the file at fault, if a target cannot be parsed.

    option: the command line's target, which overrides every file's. tell: print a line for each
    library or version that no table has.
    """
    origins = {settings.target: settings.origin for settings in all_settings}
    for target, origin in origins.items():
        if not target:
            continue
        from memlint.api.target_versions import parse_target

        said_by = "--target" if option is not None else os.path.basename(origin) or "target"
        try:
            meant = parse_target(target, said_by)
        except ValueError as error:
            where = f"{origin}: 'target': " if option is None and origin else ""
            raise Usage(f"{where}{error}") from None
        for line in meant.unknown if tell else ():
            click.echo(f"memlint: {visible(line)}", err=True)
        if tell and meant.others:
            versions = f"{len(meant.others) + 1} versions, {meant.others[0].label} to {meant.label}"
            click.echo(f"memlint: {versions}, each with the other libraries of its day", err=True)


def tell_pins(jobs: Iterable[Job], found: Collection[str]) -> None:
    """Print a line for each version that a project of the files in ``found`` pins and no table has:
    for a target of the user's own, `check_targets` has."""
    targets = Targets()
    asked = [job.place for job in jobs if job.path in found and not job.target]
    for line in dict.fromkeys(one for place in asked for one in targets.of(place).unknown):
        click.echo(f"memlint: {visible(line)}", err=True)


def check_prices(all_settings: Iterable[Settings], options: Common, *, tell: bool = True) -> None:
    """Raise ``Usage``, naming the file at fault, if a GPU or an assumption is invalid."""
    named = {(each.gpu, each.assume): each.origin for each in all_settings}
    for (gpu, assume), origin in named.items():
        if not gpu and not assume:
            continue
        from memlint.memory.prices import check_pricing
        from memlint.memory.settings import SettingsError
        from memlint.rule.savings import Pricing

        try:
            unknown = check_pricing(Pricing(gpu, assume))
        except SettingsError as error:
            given = options.gpu is not None or options.assume
            raise Usage(f"{'' if given or not origin else f'{origin}: '}{error}") from None
        if unknown and tell:
            click.echo(f"memlint: {visible(unknown)}", err=True)


def warn_if_empty(inputs: Inputs, paths: Sequence[str]) -> None:
    if inputs.diagnostics or any(not is_recipe_file(job.path) or job.named for job in inputs.jobs):
        return
    if not any(is_maybe_recipe(job.path) for job in inputs.jobs):
        where = ", ".join(paths) or "."
        click.echo(f"memlint: no Python files, notebooks or recipes found under {where}", err=True)


def make_cache(inputs: Inputs, options: Common) -> Cache | None:
    """Return the cache beside this folder's configuration; None if caching is off."""
    if not options.cache or not inputs.jobs:
        return None
    from memlint.run.cache import Cache

    root = inputs.settings.root if inputs.settings.origin else os.getcwd()
    return Cache(root)


def colours(wanted: bool | None, stream: TextIO) -> bool:
    """True if output is coloured: by the option, else by the environment and the terminal."""
    if wanted is not None:
        return wanted
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced:
        return forced.lower() not in ("0", "false")
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class progress_bar:  # noqa: N801 - a context manager, used like a function
    """A progress bar on standard error for long work; nothing if that is not a terminal."""

    def __init__(self, wanted: bool = True) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        return Progress(self._start, self._step, self._read)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _start(self, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description="Checking", total=total, completed=0)
        elif self._wanted and total >= _LONG_WORK:
            self._show("Checking", total)

    def _read(self) -> None:
        """Advance by one file that was found or read. The total is not known yet."""
        if self._bar is not None:
            self._bar.advance(self._task)
        elif self._wanted and time.monotonic() - self._began > _LONG_SECONDS:
            self._show("Reading files", None)

    def _step(self) -> None:
        if self._bar is not None:
            self._bar.advance(self._task)

    def _show(self, what: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        self._bar = Bar(console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(what, total=total)
