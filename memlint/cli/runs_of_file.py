"""The runs that ``estimate`` and ``oom`` are given: of scripts, recipes, commands or settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.project.config import Settings
    from memlint.run.description import Described
    from memlint.source import Source

_MOST_TRIED, _MOST_SHOWN = 60, 12  # files of a folder


def runs_of_file(
    script: str | None, settings_file: str | None, target: str | None
) -> list[Described]:
    """Return the runs that a file describes, or the one in a JSON file of settings.

    ``train.sh:12`` is the run of the command on that line.
    """
    from memlint.run.description import Described

    if settings_file is not None and script is None:
        from memlint.memory.settings import SettingsError, check_inner_names

        values = read_json(settings_file)
        try:
            check_inner_names(values)
        except SettingsError as error:
            raise click.ClickException(str(error)) from None
        return [Described(settings_file, values)]
    if script is None or settings_file is not None:
        raise click.UsageError("give a SCRIPT, or --settings FILE.json, and not both")
    path, row = _placed(script)
    if os.path.isdir(path):
        raise click.ClickException(_in_folder(path, target))
    runs = _read(path, target)
    chosen = [run for run in runs if row in (0, run.row)]
    if not chosen:
        places = ", ".join(run.place for run in runs if run.row)
        has = f"{path} has {places}" if places else f"name {path} without a line"
        raise click.ClickException(f"no run begins at {script}: {has}")
    return chosen


def configured(
    path: str, target: str | None, gpu: str | None = None, assumptions: tuple[str, ...] = ()
) -> Settings:
    """Return the configuration of the script at ``path``, overridden by the command line."""
    from memlint.project.config import nearest, override

    settings = nearest(os.path.dirname(os.path.abspath(path)))
    return override(settings, target=target, gpu=gpu, assume=assumptions)


def require_model(run: Described, assumptions: tuple[str, ...]) -> None:
    """Raises: the model of a run is not known, and nobody names it."""
    if not ("model" in run.settings or any(text.startswith("model=") for text in assumptions)):
        note = run.settings.get("notes", {}).get("model", "")
        note = f" ({note})" if note else ""
        raise click.ClickException(
            f"{run.place} does not say which model it trains{note}: name one with --assume"
            " model=NAME (a hub name or a path), or give its config.json with --model-config PATH"
        )


def _placed(script: str) -> tuple[str, int]:
    """A path, and the line that is named behind it; 0 where none is."""
    path, _, row = script.rpartition(":")
    if path and row.isascii() and row.isdigit() and not os.path.exists(script):
        return path, int(row)
    return script, 0


def _read(path: str, target: str | None) -> list[Described]:
    from memlint.project.targets import Targets
    from memlint.recipes.document import DocumentError
    from memlint.run.described import NoRunError, runs_in
    from memlint.run.runs import Runs
    from memlint.source.diagnostics import ReadError

    targets = Targets()
    tables = targets.tables(configured(path, target).target)
    path, data = named(path)
    try:
        runs = runs_in(path, tables, Runs(release=targets.release), data)
    except NoRunError as error:
        advice = "describe the run with --settings FILE.json"
        raise click.ClickException(f"{error}: {advice}") from None
    except (ReadError, DocumentError, SyntaxError, ValueError) as error:
        raise unread(path, error) from None
    for run in runs:
        if not run.settings.get("model"):
            run.settings.pop("model", None)
    return runs


def _in_folder(folder: str, target: str | None) -> str:
    """Which files of a folder train, as commands that estimate them."""
    found = list(islice(_training_in(folder, target), _MOST_SHOWN + 1))
    if not found:
        return f"{folder} is a folder in which nothing trains that memlint recognizes"
    lines = [f"  memlint estimate {path}" for path in found[:_MOST_SHOWN]]
    more = "\n  ..." if len(found) > _MOST_SHOWN else ""
    return f"{folder} is a folder; choose the run:\n" + "\n".join(lines) + more


def _training_in(folder: str, target: str | None) -> Iterator[str]:
    """Yield the files of a folder that describe a run: scripts, recipes, launch commands."""
    from memlint.project.discover import Found, discover
    from memlint.recipes.files import is_document, is_launch_file, may_be_recipe
    from memlint.run.command_lines import LAUNCHED
    from memlint.source.bounded import LIMIT, read_regular

    tried = 0
    for file in discover([folder]):
        if tried > _MOST_TRIED:
            return
        if not isinstance(file, Found):
            continue
        try:
            data = read_regular(file.path, LIMIT)
        except OSError:
            continue
        trains = LAUNCHED.search(data) or b".backward(" in data or is_launch_file(file.path)
        if not (may_be_recipe(data) if is_document(file.path) else trains):
            continue
        tried += 1
        try:
            runs = _read(file.path, target)
        except click.ClickException:
            continue
        yield from (run.place if len(runs) > 1 else file.path for run in runs)


def script_and_tables(path: str, target: str | None) -> tuple[Source, Api]:
    """Return the script and the tables of its library versions."""
    from memlint.project.targets import Targets
    from memlint.source.diagnostics import ReadError
    from memlint.source.reading import read_source

    path, data = named(path)
    try:
        source = read_source(path, data)
        return source, Targets().api(path, configured(path, target).target, source)
    except (ReadError, ValueError) as error:
        raise unread(path, error) from None


def unread(path: str, error: Exception) -> click.ClickException:
    """Return what is told of a file that cannot be read or parsed, and in which line."""
    diagnostic = getattr(error, "diagnostic", None)
    if isinstance(error, SyntaxError):
        row, message = error.lineno, f"does not parse: {error.msg}"
    elif diagnostic is not None:
        row, message = diagnostic.row, diagnostic.message
    else:
        return click.ClickException(str(error))
    return click.ClickException(f"{path}:{row} {message}" if row else f"{path} {message}")


def named(path: str) -> tuple[str, bytes | None]:
    """Return the path of a file; a name for standard input, and what that holds, for ``-``."""
    return ("stdin.py", read_named_or_stdin("-")) if path == "-" else (path, None)


def read_named_or_stdin(path: str, most: int = 0) -> bytes:
    """Return what a file holds, or standard input where the path is ``-``."""
    from memlint.source.bounded import LIMIT, read_named, read_stream

    most = most or LIMIT
    try:
        return read_stream(sys.stdin.buffer, most) if path == "-" else read_named(path, most)[0]
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror or error}") from None


def read_json(path: str) -> dict[str, Any]:
    """Return the object of settings in a JSON file."""
    from memlint.source.bounded import parse_json

    data = read_named_or_stdin(path)
    try:
        values = parse_json(data.decode("utf-8"))
    except ValueError as error:
        raise click.ClickException(f"{path} is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise click.ClickException(f"{path} holds no JSON object of settings")
    return values
