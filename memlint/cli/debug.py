"""``memlint debug``: show what the script model knows about a file. For rule authors."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import click

from memlint.engine.project import Modules, project_of
from memlint.recipes.files import is_document, is_recipe_file
from memlint.recipes.launch import Command
from memlint.script.call_settings import Setting
from memlint.script.called import Call
from memlint.script.calls import Config
from memlint.script.model import Script


def debug_command(path: str, target: str | None) -> int:
    """Print what the model knows about the script at ``path`` and return the exit status."""
    lines = _recipes(path) if is_recipe_file(path) else _script(path, target)
    for line in (*lines, *_runs(path)):
        click.echo(line)
    return 0


def _script(path: str, target: str | None) -> Iterator[str]:
    from memlint.cli.runs_of_file import script_and_tables, unread
    from memlint.run.checked import deeply
    from memlint.script.model import build_script

    source, api = script_and_tables(path, target)
    modules = Modules()
    project = project_of(os.path.abspath(source.path), source.data, modules)
    try:
        script = deeply(lambda: build_script(source, api, project))
    except SyntaxError as error:
        raise unread(source.path, error) from None
    yield f"versions: {api.target}"
    yield from _lines(script, modules.line_of)


def _recipes(path: str) -> Iterator[str]:
    """Yield the recipes or commands in a file, with their settings."""
    from memlint.cli.runs_of_file import unread
    from memlint.project.targets import Targets
    from memlint.recipes.document import DocumentError
    from memlint.recipes.launch import commands_in
    from memlint.run.recipes import recipes_of, why_passed_over
    from memlint.run.runs import Runs
    from memlint.source.diagnostics import ReadError
    from memlint.source.reading import read_source

    runs = Runs(release=Targets().release).at(os.path.abspath(path))
    try:
        source = read_source(path)
        recipes = recipes_of(source, runs)
    except (ReadError, DocumentError) as error:
        raise unread(path, error) from None
    commands = () if is_document(path) else commands_in(source)
    if not recipes and not commands:
        raise click.ClickException(f"{path} {why_passed_over(source, runs)}")
    for recipe in recipes:
        row = source.location(recipe.document.root.span.start).row
        yield f"recipe of {recipe.kind.value}, line {row}:"
        if recipe.reader is not None:
            yield f"    read by {recipe.kind.value}: {recipe.reader.evidence}"
        for key in recipe.keys:
            option = recipe.option(key)
            row = source.location(option.span.start).row
            yield f"    {key} = {option.value!r} (line {row})"
    for command in commands:
        yield f"command, line {source.location(command.span.start).row}: {command.program}"
        yield from (f"    {line}" for line in _command(command))


def _runs(path: str) -> Iterator[str]:
    """Yield the project's runs that use a file."""
    from memlint.run.runs import Runs

    launches = Runs().at(os.path.abspath(path)).launches()
    yield from ("runs:",) if launches else ()
    for launch in launches:
        yield f"    {os.path.relpath(launch.path)}, line {launch.row}: {launch.command.program}"
        yield from (f"        {line}" for line in _command(launch.command))


def _command(command: Command) -> Iterator[str]:
    target = command.target
    if target is not None:
        yield f"{target.kind}: {target.text or 'unknown'}"
    for name, value in (
        ("folder", command.folder or None),
        ("recipe", command.recipe if target is None or target.kind != "recipe" else None),
        ("configuration of accelerate", command.config_file),
        ("configuration of DeepSpeed", command.deepspeed_file),
        ("mixed precision", command.mixed_precision),
        ("processes", command.num_processes),
    ):
        if value is not None:
            yield f"{name}: {value}"
    for flag in command.settings:
        yield f"{flag.name} = {'unknown' if flag.value is None else repr(flag.value)}"
    if command.has_unknown_arguments:
        yield "(more settings may come from elsewhere)"


def _lines(script: Script, line_of: Callable[[Any], str]) -> Iterator[str]:
    yield "facts:"
    for name in ("uses_unsloth", "off_cuda", "uses_vision", "uses_diffusion", "trains_causal_lm"):
        yield f"    {name}: {getattr(script, name)}"
    yield "configurations:"
    for config in script.configs:
        yield from _call(script, config, f"{line_of(config.node)}: {config.kind}")
    yield "trainers:"
    for trainer in script.trainers:
        yield from _call(script, trainer, f"{line_of(trainer.node)}: {trainer.kind}")
        model, load = trainer.model, trainer.model.load
        loaded = line_of(load.node) if load is not None else "unknown"
        yield f"        (model) name {model.name!r}, loaded at {loaded}, k-bit {model.kbit}"
        yield f"        (adapters) {trainer.peft}"
    yield "models loaded:"
    for load in script.model_loads:
        yield from _call(script, load, f"{line_of(load.node)}: {load.name}")
    yield "training loops:"
    for loop in script.loops:
        backward = ", ".join(line_of(call.node) for call in loop.backwards)
        yield f"    {line_of(loop.node)}: backward at {backward}"


def _call(script: Script, call: Call | Config, head: str) -> Iterator[str]:
    certain = " (under a condition)" if call.conditional else ""
    yield f"    {head}{certain}"
    for setting in call.settings():
        yield f"        {_setting(script, setting)}"
    if call.has_unknown_keywords:
        yield "        (more settings may come from elsewhere)"


def _setting(script: Script, setting: Setting) -> str:
    source, node = script.source, setting.node
    where = "" if node is None else f", line {source.location(script.span(node).start).row}"
    given = {True: "given", False: "not given", None: "given on some paths"}[setting.given]
    value = setting.symbol or repr(setting.value)
    return f"{setting.name} = {value} ({given}, {setting.origin.name.lower()}{where})"
