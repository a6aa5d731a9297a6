"""Mocks for packages that scripts import and that are not installed."""

from __future__ import annotations

import dis
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import MagicMock


class _Anything(ModuleType):
    """A module of which every attribute is a mock, classes that can be inherited from included."""

    __path__: ClassVar[list[str]] = []
    __version__ = "1.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if self.__name__ == "modelscope" and name.startswith("Auto"):
            return getattr(importlib.import_module("transformers"), name)
        if name[0].isupper():
            value: Any = type(name, (_Mock,), {})
        else:
            value = _Mock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _Mock(MagicMock):
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(name=keywords.get("name"))

    def _get_child_mock(self, **keywords: Any) -> MagicMock:
        return _Mock(**keywords)

    def __float__(self) -> float:
        return 0.5


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for packages that a script imports and that are not installed.

    What it does without (an import that it guards by ``try``) and what is of its own project, in
    ``folder``, stays missing; libraries see what is really installed.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top, _, inner = name.partition(".")
        known = isinstance(sys.modules.get(top), _Anything)
        if not known and (inner or not self._is_needed(top)):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _is_needed(self, top: str) -> bool:
        frame = sys._getframe(2)
        while "importlib" in frame.f_code.co_filename and frame.f_back is not None:
            frame = frame.f_back
        if not frame.f_code.co_filename.startswith(self._folder):
            return False
        guards: Any = dis.Bytecode(frame.f_code)
        if any(each.start <= frame.f_lasti < each.end for each in guards.exception_entries):
            return False
        return not any(each.stem == top for each in Path(self._folder).rglob(f"{top}*"))

    def create_module(self, spec: Any) -> ModuleType:
        return _Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
