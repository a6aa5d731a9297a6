"""What a script asks of whoever starts it: options, commands, names of the environment, questions.

Options with a default keep it, a recipe is the project's own, and of several commands the one that
trains is run, by its name.
"""

from __future__ import annotations

import argparse
import builtins
import glob
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from memlint.proof.stand_ins.missing_packages import Anything
from memlint.proof.stand_ins.sample_rows import NOT_SAID, TABLES
from memlint.source.bounded import read_regular_text

# Options for what a script cannot do without, and the names that launchers give.
_OPEN = re.compile(
    r"-*(?:(?:train|training|input|data|dataset)(?:[-_](?:file|path|dir|data|name))?"
    r"|config(?:[-_](?:file|path))?|(?:base[-_])?model(?:[-_]name)?(?:[-_]or)?(?:[-_]path)?)"
)
_OF_LAUNCHERS = re.compile("RANK|SIZE|WORLD|MASTER|SLURM|CUDA|DEBUG")
_NUMBERS = {"int": 1, "integer": 1, "float": 0.5, "bool": False, "boolean": False}
_KINDS = ("jsonl", "json", "csv", "parquet")
# Where audit events say what is looked for.
_PATTERNS: dict[str, Callable[..., str]] = {
    "glob.glob": lambda pattern, *_: str(pattern), "os.walk": lambda top, *_: f"{top}/*",
    "pathlib.Path.glob": lambda path, pattern: f"{path}/{pattern}",
    "pathlib.Path.rglob": lambda path, pattern: f"{path}/**/{pattern}",
}  # fmt: skip


class Answers:
    """What is answered. write: makes a file of rows. asked: options, and folders by a last slash,
    that are answered though a script may not require them, or ``NOT_SAID``."""

    def __init__(self, write: Callable[[str], object], asked: Collection[str]) -> None:
        self._text = read_regular_text(sys.argv[0]) if os.path.isfile(sys.argv[0]) else ""
        found = sorted(filter(os.path.isfile, glob.glob("*conf*/**/*.[jy]*", recursive=True)))
        self._recipe = max(found, key=self._fits) if found else ""
        self._write, self._asked = write, asked
        builtins.display = lambda *values, **keywords: None
        builtins.get_ipython = MagicMock
        builtins.input = _typed
        self._answer_environment()
        self._answer_argparse()
        for name in ("click", "typer._click.core"):
            with suppress(ImportError):
                self._answer_click(importlib.import_module(name).Command)
        Anything.own["fire.Fire"] = self._fire
        found_fire = importlib.util.find_spec("fire")
        if "site-packages" in str(found_fire and found_fire.origin) and not sys.argv[1:]:
            importlib.import_module("fire").Fire = self._fire
        for name in asked:
            if name.endswith("/"):
                self._fill(os.path.normpath(f"/{name}").lstrip("/") + "/")
        if NOT_SAID in asked:
            self._answer_patterns()

    def _fits(self, recipe: str) -> tuple[int, bool]:
        """Return how many of a recipe's keys the script speaks of, and whether its name trains."""
        keys: set[str] = set()
        with suppress(OSError):
            keys |= {*re.findall(r"(?m)^[ {\"']*(\w+)[\"']?:", read_regular_text(recipe))}
        return len(keys & {*re.findall(r"\w+", self._text)}), "train" in recipe

    def _to(self, name: str, kind: str = "str", choices: Iterable[Any] | None = None) -> Any:
        """Return the value of an option; empty for a recipe, where the project has none."""
        if choices := [*(choices or ())]:
            return choices[0]
        if kind in _NUMBERS:
            return _NUMBERS[kind]
        name = name.lower()
        if "config" in name:
            return self._recipe
        for asked, pattern, answer in TABLES["answers"]:
            if re.search(asked, name) and re.search(pattern, self._text):
                return answer
        kinds = [kind for kind in _KINDS if f".{kind}" in self._text]
        file = f"sample.{'csv' if 'csv' in name else [*kinds, 'json'][0]}"
        if not os.path.exists(file):
            self._write(file)
        return file

    def _answer_environment(self) -> None:
        real_get: Any = type(os.environ).__getitem__

        def get(environment: Any, name: str) -> Any:
            try:
                return real_get(environment, name)
            except KeyError:
                if not _asks_itself():
                    raise
                is_open = _OPEN.fullmatch(name.lower())
                # One process, the first.
                return self._to(name) if is_open else str(int("SIZE" in name))

        def get_or(environment: Any, name: str, default: Any = None) -> Any:
            is_open = NOT_SAID in self._asked and not _OF_LAUNCHERS.search(name) and _asks_itself()
            is_answered = name in environment or (is_open and default is None)
            return environment[name] if is_answered else default

        type(os.environ).__getitem__, type(os.environ).get = get, get_or

    def _answer_argparse(self) -> None:
        real_add = argparse._ActionsContainer.add_argument
        real_parse = argparse.ArgumentParser.parse_known_args

        def add(container: Any, *names: str, **kw: Any) -> Any:
            name, kind = "".join(names[-1:]), getattr(kw.get("type"), "__name__", "str")
            positional = not name.startswith("-") and "nargs" not in kw
            is_open = NOT_SAID in self._asked and kind == "str" and _OPEN.fullmatch(name)
            is_open = (is_open or name in self._asked) and kw.get("default") is None
            if name.replace("-", "_") == "__do_train" and not sys.argv[1:]:
                kw["default"] = True  # of trainers' scripts, which do nothing without it
            if name and (kw.get("required") or positional or (is_open and "action" not in kw)):
                answer = self._to(name, kind, kw.get("choices"))
                if answer != "":
                    kw |= {"nargs": "?"} if positional else {"required": False}
                    kw["default"] = answer
            return real_add(container, *names, **kw)

        def parse(parser: Any, args: Any = None, namespace: Any = None) -> Any:
            args = [*(sys.argv[1:] if args is None else args)]
            for each in () if args else parser._actions:
                if isinstance(each, argparse._SubParsersAction) and each.choices:
                    args = [_first_to_train(each.choices)]
            return real_parse(parser, args, namespace)

        argparse._ActionsContainer.add_argument = add
        argparse.ArgumentParser.parse_known_args = parse

    def _answer_click(self, command: Any) -> None:
        real_begin = command.make_context

        def begin(one: Any, name: Any, args: list[str], *rest: Any, **kw: Any) -> Any:
            commands = getattr(one, "commands", None)
            if commands and not args and not one.invoke_without_command:
                args = [_first_to_train(commands)]
            for each in one.params:
                if each.required and each.name:
                    said = getattr(each, "type", None) or each.type_descriptor  # typer's
                    kind = getattr(said, "name", "") or said.annotation.__name__
                    answer = self._to(each.name, kind, getattr(said, "choices", None))
                    is_one = each.nargs == 1 and not getattr(each, "multiple", False)
                    each.required, each.default = False, answer if is_one else (answer,)
            return real_begin(one, name, args, *rest, **kw)

        command.make_context = begin

    def _fire(self, component: Any = None, *_: Any, **__: Any) -> Any:
        """Call a function, or the one of several that trains, with what it asks for, as
        ``fire.Fire`` does with a command line; of a class what trains."""
        if isinstance(component, dict):
            component = component[_first_to_train(component)]
        every = inspect.signature(component).parameters.values()
        asked = [each for each in every if each.kind is each.POSITIONAL_OR_KEYWORD]
        values = {
            each.name: self._to(each.name, getattr(each.annotation, "__name__", "str"))
            for each in asked if each.default in (each.empty, "")
        }  # fmt: skip
        made = component(**values)
        if inspect.isclass(component):
            methods = [name for name in vars(component) if not name.startswith("_")]
            return self._fire(getattr(made, _first_to_train(methods)))
        return made

    def _answer_patterns(self) -> None:
        """Let what the project looks for by a pattern, or goes through, be there."""
        filling: list[str] = []

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in _PATTERNS and not filling and _asks_itself():
                filling.append(os.path.relpath(_PATTERNS[event](*arguments)))
                self._fill(*filling)
                filling.clear()

        sys.addaudithook(hook)

    def _fill(self, pattern: str) -> None:
        """Write a file where a pattern finds none below this folder. One that ends in a slash, or
        in ``*``, is of files of the kind that the script speaks of in patterns."""
        name = re.sub(r"[*?]+", "sample", os.path.normpath(pattern).replace("**/", ""))
        if pattern.endswith(("/", "*")):
            said = re.search(r"(?:\*|endswith\([\"'])(\.\w+)", self._text)
            name = f"{name.removesuffix('/sample')}/sample{said[1] if said else '.txt'}"
        is_data = Path(name).suffix and Path(name).suffix in TABLES["writers"]
        if is_data and not name.startswith("..") and not glob.glob(pattern, recursive=True):
            self._write(name)


def _first_to_train(names: Iterable[str]) -> str:
    ordered = [*names]
    training = [name for name in ordered if re.search("train|tun|fit|sft|dpo|grpo", name.lower())]
    return [*training, *ordered][0]


def _asks_itself() -> bool:
    """True if it is the project that asks, and no library."""
    frame: Any = sys._getframe(2)
    while frame.f_globals.get("__name__") in ("os", "glob", "pathlib", __name__):
        frame = frame.f_back
    return bool(frame.f_code.co_filename.startswith(os.getcwd()))


def _typed(prompt: object = "") -> str:
    """Answer a question at the terminal: yes to one that asks for it, Enter where something is said
    to be taken then, else 1, which is a number and a first choice."""
    if re.search(r"\by(?:es)?\s*/\s*n", str(prompt).lower()):
        return "y"
    return "" if re.search(r"default|enter|\[[^\]]", str(prompt).lower()) else "1"
