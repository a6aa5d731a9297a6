"""Mocks for packages that scripts import and that are not installed."""

from __future__ import annotations

import dis
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
from argparse import ArgumentParser
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar
from unittest import mock
from unittest.mock import MagicMock


class Anything(ModuleType):
    """A module of which every attribute is a mock, classes that can be inherited from included."""

    __path__: ClassVar[list[str]] = []
    __version__ = "9.0.0"
    own: ClassVar[dict[str, Any]] = {}  # what is no mock, by its whole name
    train_test_split: ClassVar[Any] = staticmethod(
        lambda *values, **_: [half for each in values for half in (each[::2], each[1::2])]
    )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if self.__name__ == "modelscope" and name.startswith("Auto"):
            return getattr(importlib.import_module("transformers"), name)
        whole = f"{self.__name__}.{name}"
        if whole in self.own:
            return self.own[whole]
        value = _MockClass(name, (_Mock,), {}) if name[0].isupper() else _Mock(name=whole)
        setattr(self, name, value)
        return value


class _Mock(MagicMock):
    """As a number it is 1, and of it come as many values as there are names to take them."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(name=keywords.get("name"))
        own: Any = type(self)  # each mock has a class to itself
        own.__iter__ = lambda self: iter([_Mock() for _ in range(_names_on_the_left())])
        own.__lt__ = own.__gt__ = own.__le__ = own.__ge__ = lambda self, other: True

    def __format__(self, form: str) -> str:
        return format(1.0, form)

    def _get_child_mock(self, **keywords: Any) -> MagicMock:
        return _Mock(**keywords)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        first = arguments[0] if len(arguments) == 1 else None
        # What is decorated comes back, and so does a parser that options are added to.
        passes = isinstance(first, FunctionType | type | ArgumentParser)
        return first if passes else super().__call__(*arguments, **keywords)


def _names_on_the_left() -> int:
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename in (__file__, mock.__file__):
        frame = frame.f_back
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at + 1] if dis.opname[code[at]] == "UNPACK_SEQUENCE" else 0


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
        script = os.path.abspath(sys.argv[0])
        near.sort(key=lambda path: -len(os.path.commonpath([path, script])))  # of several the next
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
