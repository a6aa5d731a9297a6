"""Under DeepSpeed's ZeRO in two processes: the losses of one plain process, to 1e-6 in float32.

    DS_ACCELERATOR=cpu pytest tests/runtime/deepspeed

Needs deepspeed, which no extra installs: `pip install deepspeed==0.19.8`. Skipped without it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.runtime.deepspeed import worker
from tests.runtime.shared_prompt.training import saved_model

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="deepspeed is not installed: pip install deepspeed"
)


def launch(folder: Path, stage: int) -> dict[str, list[float]]:
    """The losses of every run, in one process without ZeRO or in two with it."""
    several = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    done = subprocess.run(
        [
            sys.executable, *(several if stage else []),
            "-m", "tests.runtime.deepspeed.worker", str(folder), str(stage),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    found: dict[str, list[float]] = json.loads((folder / f"zero{stage}.json").read_text())
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("zero")
    saved_model(made / "model")
    return made


@pytest.fixture(scope="module")
def plain(folder: Path) -> dict[str, list[float]]:
    return launch(folder, 0)


@pytest.mark.parametrize("stage", [2, 3])
def test_losses_are_those_of_one_plain_process(
    folder: Path, plain: dict[str, list[float]], stage: int
) -> None:
    found = launch(folder, stage)
    assert found.keys() == plain.keys() == worker.ALL.keys()
    for name, wanted in plain.items():
        assert len(wanted) == worker.STEPS
        assert len(set(wanted)) > 1, "nothing was learned"
        assert found[name] == pytest.approx(wanted, abs=1e-6, rel=1e-6), name
