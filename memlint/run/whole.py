"""A script as its project runs it: the files around it, what launch commands give to it, and what
makes its run fit a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memlint.engine.project import Modules, project_of
from memlint.memory import Settings
from memlint.memory.checkpoints import architecture_of
from memlint.memory.fit import Fitted, fit
from memlint.memory.prices import Run, with_pricing
from memlint.rule import registry
from memlint.run.command_lines import Launches
from memlint.run.engine import check_source, read_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from memlint.api import Api
    from memlint.rule.savings import Pricing
    from memlint.run.command_lines import CommandSettings
    from memlint.run.engine import Options
    from memlint.script import Script
    from memlint.source import Source


_ALL = ("ALL",)


def options_around(place: str, data: bytes) -> Options:
    """The options of a check that the project of the script at ``place`` decides."""
    return {
        "project": project_of(place, data, Modules()),
        "command_line": _command_line(place, data),
    }


def script_around(source: Source, place: str, api: Api) -> Script:
    """The script at ``place`` with its project.

    Raises ``SyntaxError`` as ``ast.parse`` does.
    """
    return read_script(source, api, options_around(place, source.data))


def _command_line(place: str, data: bytes) -> CommandSettings | None:
    return Launches().of(place, data) if place.endswith(".py") else None


def fit_source(
    source: Source,
    api: Api,
    values: Mapping[str, Any],
    pricing: Pricing,
    *,
    around: Options | None = None,
    codes: Iterable[str] | None = None,
    runtime: bool = True,
) -> Fitted:
    """The set of changes with which the run of a script fits.

    values: the script's settings. around: what its project decides (``options_around``).
    codes: the rules whose fixes may be taken; None: all, hints too.

    Raises:
        SettingsError: the model or a setting is not known.
    """
    rules = registry.load(registry.selected(_ALL) if codes is None else codes)
    options: Options = {**(around or {}), "unused_suppressions": False, "runtime": runtime}
    found = check_source(source, rules, api, on_error=lambda rule, error: None, **options)
    return fit(run_of(with_pricing(values, pricing)), found)


def run_of(settings: Settings) -> Run:
    """The run of settings, its model's shape found as for an estimate."""
    return Run(settings, architecture_of(settings))
