"""Mocks for packages that scripts import and that are not installed."""

from __future__ import annotations

import dis
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar
from unittest.mock import MagicMock


def _fire(function: Any, *_: Any, **__: Any) -> None:
    """Run a function with what it asks for, as ``fire.Fire`` does with a command line."""
    every = inspect.signature(function).parameters.values()
    asked = [each.name for each in every if each.default in (each.empty, "")]
    function(**dict.fromkeys(asked, "sample.json"))


class Anything(ModuleType):
    """A module of which every attribute is a mock, classes that can be inherited from included."""

    __path__: ClassVar[list[str]] = []
    __version__ = "9.0.0"
    Fire: ClassVar[Any] = staticmethod(_fire)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if self.__name__ == "modelscope" and name.startswith("Auto"):
            return getattr(importlib.import_module("transformers"), name)
        whole = f"{self.__name__}.{name}"
        value = _MockClass(name, (_Mock,), {}) if name[0].isupper() else _Mock(name=whole)
        setattr(self, name, value)
        return value


class _Mock(MagicMock):
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(name=keywords.get("name"))

    def _get_child_mock(self, **keywords: Any) -> MagicMock:
        return _Mock(**keywords)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        decorates = [type(each) for each in arguments] == [FunctionType]
        return arguments[0] if decorates else super().__call__(*arguments, **keywords)


class _MockClass(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Mock(name=name)

    def __getitem__(cls, item: Any) -> Any:
        return cls  # of a type with parameters


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for packages that a script imports and that are not installed.

    What it does without (an import that it guards by ``try``) stays missing, modules of its own
    project are found anywhere in ``folder``; libraries see what is really installed.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top, _, inner = name.partition(".")
        known = isinstance(sys.modules.get(top), Anything)
        if not known and (inner or not self._is_needed()):
            return None
        near = sorted(Path(self._folder).rglob(f"{top}*"), key=lambda path: len(path.parts))
        for each in () if known else near:
            if each.name == f"{top}.py" or (each.name == top and any(each.rglob("*.py"))):
                sys.path.append(str(each.parent))
                return importlib.machinery.PathFinder.find_spec(name)
        if top == "unsloth":
            raise ModuleNotFoundError("unsloth is not installed, and needs a GPU: verify it there")
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _is_needed(self) -> bool:
        frame: Any = sys._getframe(2)
        while re.search("importlib|torch/utils/tensorboard", frame.f_code.co_filename):
            frame = frame.f_back
        guards: Any = dis.Bytecode(frame.f_code).exception_entries
        is_guarded = any(each.start <= frame.f_lasti < each.end for each in guards)
        return frame.f_code.co_filename.startswith(self._folder) and not is_guarded

    def create_module(self, spec: Any) -> ModuleType:
        return Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
