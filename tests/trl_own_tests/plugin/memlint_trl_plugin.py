"""Plugin for TRL's own tests: data sets made locally, and memlint_runtime's trainers if wanted.

Loaded by `python -m tests.trl_own_tests` with `-p`. A test that needs what cannot be made without
the hub is skipped with that reason. Outcomes go to a file, one JSON object a line.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import trl
from trl import import_utils as of_this_release

STAND_INS = Path(os.environ["MEMLINT_STAND_INS"])
OUTCOMES = Path(os.environ["MEMLINT_OUTCOMES"])
OURS = os.environ["MEMLINT_TRAINERS"] == "ours"

_load = datasets.load_dataset
_refusals: list[str] = []
_handles: list[Any] = []


class _Repeated(logging.Handler):
    """Notes where our trainers say that prompts go to the model as TRL repeats them."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "are repeated" in text or "repeats prompts" in text:
            _refusals.append(text)


class NotMadeError(Exception):
    """What a test wants from the hub was not made."""


def load_dataset(path: str, name: str | None = None, *args: Any, **options: Any) -> Any:
    if not path.startswith(("trl-internal-testing/", "stanfordnlp/")):
        return _load(path, name, *args, **options)
    folder = STAND_INS / "datasets" / path.split("/")[-1] / (name or "default")
    if not folder.is_dir():
        raise NotMadeError(f"data set {path}")
    files = {file.stem: str(file) for file in sorted(folder.glob("*.parquet"))}
    options.pop("revision", None)
    return _load("parquet", None, *args, data_files=files, **options)


def put_ours_in_place() -> None:
    """The names that tests import from trl are ours from now on; prompts as short as theirs are
    kept over micro-batches too, and the rows after them scored together."""
    from memlint_runtime import trl as ours
    from memlint_runtime.shared_prompt import kept
    from memlint_runtime.trl import grouping

    logging.getLogger("memlint_runtime.trl").addHandler(_Repeated())
    kept.MIN_KEPT_TOKENS = 2  # a token of it goes with the completion
    kept.MOST_TOGETHER, grouping.LEAST_SAVED = 100.0, 0.0

    for name in ("GRPOTrainer", "RLOOTrainer", "DPOTrainer"):
        setattr(trl, name, getattr(ours, name))

    class SFTTrainer(trl.SFTTrainer):  # type: ignore[misc]
        """TRL's with the fused loss, as `fuse(trainer)` gives it."""

        def __init__(self, *args: Any, **options: Any) -> None:
            from memlint_runtime import fuse

            super().__init__(*args, **options)
            try:
                _handles.append(fuse(self))
            except ValueError as error:
                _refusals.append(str(error))

    trl.SFTTrainer = SFTTrainer


def fill_gaps_of_this_release() -> None:
    """Questions that the checkout's tests ask of the environment and this release of trl lacks."""
    path = Path(os.environ["MEMLINT_CHECKOUT"]) / "trl" / "import_utils.py"
    spec = importlib.util.spec_from_file_location("trl_import_utils_of_checkout", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in vars(module).items():
        if name.startswith("is_") and not hasattr(of_this_release, name):
            setattr(of_this_release, name, value)
    for file in Path("tests").glob("test_*_trainer.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trl."):
                _stand_in_for_names(node)


def _stand_in_for_names(imported: ast.ImportFrom) -> None:
    """Names that trl's modules no longer have skip the tests that call them."""
    module = importlib.import_module(str(imported.module))
    for alias in imported.names:
        if not hasattr(module, alias.name):

            def gone(*_: Any, name: str = alias.name, **__: Any) -> Any:
                raise NotMadeError(f"{name}, which this release of trl has not")

            setattr(module, alias.name, gone)


def end_after(steps: int) -> None:
    """Training ends after so many steps where a test names no end of its own."""
    from trl.trainer.base_config import _BaseConfig

    own = _BaseConfig.__post_init__

    def post_init(self: Any) -> None:
        if self.max_steps <= 0 and self.num_train_epochs == type(self).num_train_epochs:
            self.max_steps = steps
        own(self)

    _BaseConfig.__post_init__ = post_init


def cut_groups() -> None:
    """Micro-batches of one row, as many more of them: completions that belong together never come
    in one, and optimizer steps and generation batches stay the same."""
    from trl.trainer.base_config import _BaseConfig

    own = _BaseConfig.__post_init__

    def post_init(self: Any) -> None:
        if hasattr(self, "num_generations") and self.per_device_train_batch_size > 1:
            rows, self.per_device_train_batch_size = self.per_device_train_batch_size, 1
            self.gradient_accumulation_steps *= rows
            if self.steps_per_generation is not None:
                self.steps_per_generation *= rows
        own(self)

    _BaseConfig.__post_init__ = post_init


datasets.load_dataset = load_dataset
if not torch.cuda.is_available():
    # Its Triton kernels run nowhere else, and a model class that it patched stays patched.
    of_this_release.is_liger_kernel_available = lambda *_, **__: False
if os.environ["MEMLINT_STEPS"] != "0":
    end_after(int(os.environ["MEMLINT_STEPS"]))
if os.environ["MEMLINT_CUT"] == "1":
    cut_groups()
fill_gaps_of_this_release()
if OURS:
    put_ours_in_place()


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """What was run before is not run again."""
    lines = OUTCOMES.read_text(encoding="utf-8").splitlines() if OUTCOMES.exists() else []
    known = {json.loads(line)["test"] for line in lines}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in known])
    items[:] = [item for item in items if item.nodeid not in known]


_END = time.monotonic() + 60 * float(os.environ["MEMLINT_MINUTES"] or "inf")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: Any) -> None:
    if time.monotonic() > _END:
        item.session.shouldstop = "the minutes are over; run again to go on"


@pytest.fixture(autouse=True)
def _undone() -> Iterator[None]:
    _refusals.clear()
    yield
    while _handles:
        _handles.pop().undo()


def _missing(error: BaseException | None) -> str | None:
    """What the hub would have had, where that is why a test failed."""
    while error is not None:
        text = str(error)
        if isinstance(error, NotMadeError):
            return text
        if isinstance(error, OSError) and ("couldn't connect" in text or "offline" in text):
            return "a model or processor of the hub"
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    # Read before the suite's own hook clears the error's chain.
    missing = _missing(call.excinfo.value) if call.excinfo else None
    text = f"{type(call.excinfo.value).__name__}: {call.excinfo.value}" if call.excinfo else ""
    result: Any = yield
    report = result.get_result()
    if report.failed and missing:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: needs {missing}")
        text = f"needs {missing}"
    if report.when == "call" or report.outcome != "passed":
        line = {"test": item.nodeid, "outcome": report.outcome, "why": text.strip()[:400],
                "refused": _refusals[:1]}  # fmt: skip
        with OUTCOMES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
