"""Holds ``--fit`` against the libraries themselves, without a GPU.

    python -m tests.fit_fakes [--only TEXT]

Eight scripts that do not fit 24 GB. For each the set of fixes that ``memlint estimate --fit``
names is measured as ``tests.memory_fakes`` measures: real transformers models under fake tensors,
two steps, the bytes of all live storages. Memory is a sum over layers: three and five layers are
measured and carried on to the model's depth, where the prediction's own three points lie on a line;
else all layers are. Shown is whether the script as it is does not fit, whether it fits with the
set, and whether no smaller set of safe fixes does.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import torch

from memlint.memory import Settings
from memlint.memory.fit import Fitted, Measure
from memlint.memory.prices import Run, merged
from tests.fake_steps import shape_of
from tests.fit_cases import CASES, fitted
from tests.memory_fakes import GIB, Cell

_FEW, _MORE = 3, 5  # layers
_WORKSPACE = 8519680  # cuBLAS's, which a run on the CPU has not


class Fake(Cell):
    """The run of a script with so many layers, and the loss that the runtime makes."""

    def __init__(self, known: Settings, layers: int) -> None:
        assert isinstance(known.model, str)
        lora = known.lora
        adapters: dict[str, Any] = {}
        if known.method == "lora" and lora is not None:
            adapters["lora"] = {
                "r": lora.r,
                "target_modules": lora.target_modules,
                "dropout": lora.dropout,
                "dtype": lora.dtype,
            }
        self._fused = known.loss == "liger"
        super().__init__(
            known.model,
            layers=layers,
            method=known.method,
            micro_batch=known.micro_batch,
            seq_len=known.seq_len,
            checkpointing=known.checkpointing,
            loss="full_logits" if self._fused else known.loss,
            optimizer=known.optimizer,
            trainer=known.trainer,
            weights_dtype=known.weights_dtype,
            autocast=known.autocast,
            **adapters,
        )

    def run(self) -> dict[str, Any]:
        fused = {"loss": "liger", "head_in_tiles": True}
        return {**super().run(), **fused} if self._fused else super().run()

    def built(self) -> Any:
        model = super().built()
        if self._fused:
            from memlint_runtime import fuse_causal_lm_loss
            from memlint_runtime.losses import planning

            # Large tiles, as on a GPU: the CPU's take many times the operations.
            vars(planning)["_LARGEST_OUTER"] = planning._LARGEST_TOKENS
            fuse_causal_lm_loss(model, workspace_bytes=self._workspace(model.config))
        return model

    def _workspace(self, config: Any) -> int:
        """What the runtime takes on a GPU by default."""
        from memlint_runtime.losses.passes import default_workspace_bytes

        tokens = math.prod(shape_of(self.settings))
        return default_workspace_bytes(
            tokens,
            config.hidden_size,
            torch.bfloat16,
            vocabulary=config.vocab_size,
            device="cuda",
        )


class Shown(NamedTuple):
    """One set of fixes: bytes predicted and measured at the peak."""

    measures: tuple[Measure, ...]
    predicted: int
    measured: int

    @property
    def words(self) -> str:
        codes = [",".join(each.codes) or each.message for each in self.measures]
        return " + ".join(codes) or "as it is"


def measure(run: Run, measures: tuple[Measure, ...]) -> Shown:
    """The peak with the fixes, by the model and by fake tensors."""
    changes = merged(each.changes for each in measures)
    known = run.with_changes(changes)
    few, more = Fake(known, _FEW), Fake(known, _MORE)
    whole = Fake(known, run.depth)
    expected = _carried(few.predicted(), more.predicted(), run.depth)
    if abs(expected / whole.predicted() - 1) < 0.01:
        found = _carried(few.measured().peak, more.measured().peak, run.depth)
    else:
        found = whole.measured().peak
    return Shown(measures, run.peak(changes), found + _WORKSPACE)


def _carried(few: int, more: int, depth: int) -> int:
    return few + (more - few) * (depth - _FEW) // (_MORE - _FEW)


def sets_of(found: Fitted, safe: tuple[Measure, ...]) -> Iterator[tuple[Measure, ...]]:
    """The script as it is, the set that was found, and all smaller sets of safe fixes."""
    yield ()
    yield found.chosen
    for size in range(1, len(found.chosen)):
        yield from combinations(safe, size)


def holds(shown: list[Shown], found: Fitted) -> bool:
    """True if the found set fits by measurement and no other one does."""
    return all((each.measured <= found.room) == (each.measures == found.chosen) for each in shown)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="scripts whose name contains this")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    wrong = 0
    for case in CASES:
        if options.only not in case.name:
            continue
        start = time.perf_counter()
        run, found, safe = fitted(case)
        sys.stdout.write(f"{case.name}: room {found.room / GIB:.2f} GiB\n")
        shown = [measure(run, each) for each in sets_of(found, safe)]
        for each in shown:
            mark = "fits" if each.measured <= found.room else "does not fit"
            chosen = " <- chosen" if each.measures == found.chosen else ""
            sys.stdout.write(
                f"    {each.measured / GIB:7.2f} measured {each.predicted / GIB:7.2f} predicted  "
                f"{mark:12} {each.words}{chosen}\n"
            )
        right = holds(shown, found)
        wrong += not right
        sys.stdout.write(
            f"    {'as it should be' if right else 'WRONG'} ({time.perf_counter() - start:.0f} s)\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"{wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
