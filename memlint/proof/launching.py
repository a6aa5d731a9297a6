"""Launch commands whose runs are compared: what they start, and the words that start it.

A command keeps its launcher (``accelerate launch``, ``torchrun``, ``python``) with all of its
options; in the place of its script it gets a module that runs the script and watches it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence

from memlint.proof.comparing import Job
from memlint.proof.stand_ins.sample_rows import TABLES
from memlint.recipes.document import DocumentError, read_document, values
from memlint.recipes.launch import Command, commands_in
from memlint.source import Source, Span
from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source

# Of each launcher: how it is started, and what finds it a free port.
_LAUNCHERS: Mapping[str, tuple[list[str], list[str]]] = TABLES["launchers"]
# Of programs that start a file of their own: which, among the installed packages, and by what.
_PROGRAMS: Mapping[str, tuple[str, str]] = TABLES["programs"]
_RUN = (
    "python, torchrun, accelerate launch, deepspeed, trl, tune run, axolotl train and "
    "llamafactory-cli train are run"
)
_PORTS = ("--main_process_port", "--master", "--rdzv", "--nnodes", "--standalone")
_GPUS = ("/dev/nvidiactl", "/dev/kfd")
_ON_CPU = {"ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}


class LaunchError(ValueError):
    """A command that cannot be run so."""


def jobs_of(
    words: Sequence[str], job: Job, texts: Callable[[str, bytes | None, str], tuple[str, str]]
) -> tuple[str, Job, Job]:
    """Return a command as it is shown, its run, and its run once all that is fixed in it, in its
    recipe and in its script.

    words: of the command, or the file that it stands in, with its line where there are several.
    texts: the text of a file as it is, and fixed; of launch commands, with their data and the file
    whose settings they have.

    Raises:
        LaunchError: it cannot be run.
    """
    source, command, is_file = _command(words)
    script, recipe = _script(command), command.recipe or ""
    if recipe and not os.path.isfile(recipe) and command.starts != "tune":
        raise LaunchError(f"{recipe} is not here")
    near = next(filter(os.path.isfile, (recipe, script)))
    text, fixed = read_source(script).text, {}
    launch = texts(source.path, source.data, "" if is_file else near)[1]
    for each in filter(os.path.isfile, (script, recipe)):
        if os.path.realpath(each).startswith(os.path.join(job.folder, "")):
            fixed[os.path.realpath(each)] = texts(each, None, "")[1]
    on_cpu = job.tiny is not None or not any(map(os.path.exists, _GPUS))
    script = os.path.realpath(script)
    before = _as_run(source, command, on_cpu, job._replace(script=script, text=text))
    again = Source(source.path, launch)
    after = _as_run(again, commands_in(again)[commands_in(source).index(command)], on_cpu, before)
    after = after._replace(text=fixed.pop(script, text), files=fixed)
    return source.slice(command.span), before, after


def _command(words: Sequence[str]) -> tuple[Source, Command, bool]:
    """Return the command that is meant, where it stands, and whether that is a file."""
    path, _, row = words[0].partition(":")
    is_file = len(words) == 1 and os.path.isfile(path)
    source = read_source(path) if is_file else Source("launch.sh", shlex.join(words))
    every = [(str(source.location(one.span.start).row), one) for one in commands_in(source)]
    found = [one for at, one in every if not (is_file and row) or at == row]
    if len(found) != 1:
        rows = ", ".join(at for at, _ in every)
        said = f"name one of its commands by its line ({rows}): {path}:LINE"
        example = f"trl sft --config {path}" if is_file else "torchrun train.py"
        raise LaunchError(said if every else f"expected a command such as `{example}`")
    return source, found[0], is_file


def _as_run(source: Source, command: Command, on_cpu: bool, job: Job) -> Job:
    """Return the job with what a command's words say."""
    assert command.target is not None
    processes = _processes(command)
    program, options = _launcher(command, _words(source, command), processes)
    start, port = _LAUNCHERS[program]
    if program == "accelerate" and on_cpu and processes > 1:
        options.append("--multi_gpu")  # or it starts one process where there is no GPU
    if not any(word.startswith(_PORTS) for word in options):
        options += port
    said = {each.name: each.value for each in command.environment if isinstance(each.value, str)}
    return job._replace(
        arguments=_arguments(source, command),
        module=_module(command, command.target.text or ""),
        launcher=(sys.executable, *start, *options, "--module" if program == "deepspeed" else "-m"),
        environment=said | (_ON_CPU if on_cpu else {}),
    )


def _words(source: Source, command: Command) -> list[str]:
    """Return the words of a launcher, from its program on, up to what it starts."""
    assert command.target is not None
    words = _split(source, command.span.start, command.target.span.start)
    program = command.program
    if words[-1:] == ["-m"] or (program not in _PROGRAMS and command.starts in _PROGRAMS):
        del words[-1 - words[::-1].index("-m") :]
    while words and not os.path.basename(words[0]).startswith((program, "python")):
        words.pop(0)  # what runs the launcher, as ``uv run`` does
    return words


def _module(command: Command, name: str) -> str:
    """Return the dotted name of what is started by it, as ``python -m`` does; empty for a path."""
    if command.starts in ("axolotl", "tune"):
        return _PROGRAMS[command.starts][0].format(name).removesuffix(".py").replace("/", ".")
    return name if command.target is not None and command.target.kind == "module" else ""


def _launcher(command: Command, words: list[str], processes: int) -> tuple[str, list[str]]:
    """Return the launcher and its options. words: of the command, up to what it starts."""
    program = command.program
    if program not in _PROGRAMS:
        by_python = program != "python" and "python" in os.path.basename(words[0])
        own = 2 if program == "accelerate" else 1
        return program, words[words.index("-m") + 2 if by_python else own :]
    launcher = _PROGRAMS[command.starts][1]
    options = [f"--{'num_processes' if launcher == 'accelerate' else 'nproc_per_node'}={processes}"]
    if launcher == "torchrun":
        is_tune = program == "tune"
        options = words[words.index("run") + 1 :] if is_tune else options * (processes > 1)
    return launcher if options else "python", options


def _arguments(source: Source, command: Command) -> tuple[str, ...]:
    """Return what a script is given; torchtune's gets the path of a recipe of its own."""
    target = command.target
    assert target is not None
    is_recipe = target.kind == "recipe"
    start = target.span.start if is_recipe else target.span.end
    words = _split(source, start, command.span.end)
    recipe = command.recipe
    if command.starts == "tune" and recipe is not None and not os.path.isfile(recipe):
        path = _installed(f"recipes/configs/{recipe}.yaml") or recipe
        words = [path if each == recipe else each for each in words]
    return tuple(words)


def _split(source: Source, start: int, end: int) -> list[str]:
    words = shlex.split(source.slice(Span(start, end)).replace("\\\n", " "))
    unknown = [word for word in words if "$" in word or "`" in word]
    if unknown:
        raise LaunchError(f"{unknown[0]} is the shell's to say: write what it stands for")
    return words


def _script(command: Command) -> str:
    """Return the path of what a command starts."""
    name = (command.target.text if command.target is not None else None) or ""
    if command.program not in (*_LAUNCHERS, *_PROGRAMS):
        raise LaunchError(f"only {_RUN}")
    if command.starts in _PROGRAMS:
        own = _PROGRAMS[command.starts][0].format(name)
        is_recipe = command.target is not None and command.target.kind == "recipe"
        path = name if os.path.isfile(name) and not is_recipe else _installed(own)
        name = own
    else:
        paths = (os.path.join(command.folder or "", path) for path in command.scripts)
        path = next(filter(os.path.isfile, paths), None)
    if path is None:
        raise LaunchError(f"{name or 'what it starts'} is not here")
    return path


def _installed(path: str) -> str | None:
    """Return a file of an installed package by its path from where packages lie."""
    top = path.partition("/")[0]
    # torchtune installs its recipes beside it, as no package.
    found = importlib.util.find_spec("torchtune" if top == "recipes" else top)
    if found is None or found.origin is None:
        return None
    whole = os.path.join(os.path.dirname(found.origin), os.pardir, path)
    return os.path.realpath(whole) if os.path.isfile(whole) else None


def _processes(command: Command) -> int:
    """Return how many processes a command asks for, or the recipe that trl reads it from."""
    said: object = command.num_processes
    if said is None and command.program == "trl" and command.recipe:
        with contextlib.suppress(ReadError, DocumentError):
            said = values(read_document(read_source(command.recipe)).root).get("num_processes")
    return said if isinstance(said, int) else 1
