"""Mocks for packages that scripts import and that are not installed."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from ast import literal_eval
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
        if self.__name__ == "fire" and name == "Fire":
            return _fire
        if name[0].isupper():
            value: Any = type(name, (_Mock,), {})
        else:
            value = _Mock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


def _fire(function: Any) -> Any:
    """Call ``function`` with the ``--name value`` pairs of the command line."""
    words = sys.argv[1:]
    given = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        try:
            given[name.lstrip("-")] = literal_eval(value)
        except (SyntaxError, ValueError):
            given[name.lstrip("-")] = value
    return function(**given)


class _Mock(MagicMock):
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(name=keywords.get("name"))

    def _get_child_mock(self, **keywords: Any) -> MagicMock:
        return _Mock(**keywords)

    def __float__(self) -> float:
        return 0.5


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for known packages that are not installed, and for nothing else."""

    packages = frozenset(
        [
            "IPython",
            "wandb",
            "swanlab",
            "modelscope",
            "evaluate",
            "nltk",
            "rouge_score",
            "sacrebleu",
            "loguru",
            "dotenv",
            "firebase_admin",
            "codebleu",
            "rapidfuzz",
            "math_verify",
            "latex2sympy2_extended",
            "colorama",
            "bitsandbytes",
            "deepspeed",
            "sklearn",
            "scipy",
            "hydra",
            "omegaconf",
            "mlflow",
            "comet_ml",
            "tensorboard",
            "indicnlp",
            "normalizer",
            "seaborn",
            "flash_attn",
            "vllm",
            "unsloth",
            "jsonlines",
            "ndjson",
            "openai",
            "gradio",
            "distutils",
            "cv2",
            "PIL",
            "torchvision",
            "sentencepiece",
            "einops",
            "fire",
        ]
    )

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """A stand-in where the script itself imports; libraries see what is really installed."""
        top = name.partition(".")[0]
        if top not in self.packages:
            return None
        known = isinstance(sys.modules.get(top), _Anything)
        if not known and not self._asked_by_script():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _asked_by_script(self) -> bool:
        frame = sys._getframe(2)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename.startswith(self._checkout)

    def create_module(self, spec: Any) -> ModuleType:
        return _Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
