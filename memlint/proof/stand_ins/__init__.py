"""What a script loads, replaced by tiny things made here; everything else is the real library.

Real: signatures, configurations, trainers, collators, losses, optimizer steps on the CPU.
Replaced: weights, tokenizers, data sets, the hub, experiment trackers, GPUs, packages that are not
installed. A keyword that the real loader refuses is refused here, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from memlint.proof.stand_ins.asked_options import Answers
from memlint.proof.stand_ins.cpu_only import (
    move_to_cpu,
    replace_engine,
    replace_hub,
    replace_process_groups,
)
from memlint.proof.stand_ins.missing_packages import Missing
from memlint.proof.stand_ins.sample_data import replace_data_sets, write_rows
from memlint.proof.stand_ins.short_trainers import shorten_trainers
from memlint.proof.stand_ins.tiny_adapters import replace_adapters
from memlint.proof.stand_ins.tiny_models import build_model, replace_models
from memlint.proof.stand_ins.tiny_tokens import replace_tokenizers

# No hub and no tracker: what a run must not write or ask.
QUIET = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_TOKEN": "hf_stand_in",
    "WANDB_API_KEY": "stand-in",
}


def install(
    folder: str,
    data: Mapping[str, str],
    rows: int = 16,
    *,
    exact: bool = False,
    chat_template: bool = True,
    build: Callable[[Any, Any, dict[str, Any]], Any] = build_model,
) -> None:
    """Replace what scripts load.

    data: the shape of rows by data set name or file; ``*`` for all others. A name with a suffix is
    a file that is written below the working directory. folder: that of the script's project.
    exact: batches, precision and optimizer stay what the script says. build: makes a model, of what
    makes it, its configuration and the loader's keywords.
    """
    os.environ |= {**QUIET, **OFFLINE}
    replace_models(build)
    replace_tokenizers(has_chat_template=chat_template)
    replace_the_rest(folder, data, rows, exact=exact)
    move_to_cpu()


def replace_the_rest(folder: str, data: Mapping[str, str], rows: int, *, exact: bool) -> None:
    """Replace all but models, tokenizers and GPUs."""
    sys.meta_path.append(Missing(folder))
    replace_data_sets(dict(data), rows)
    replace_adapters()
    shorten_trainers(exact=exact)
    replace_engine(exact=exact)
    replace_hub()
    replace_process_groups()

    def write(name: str) -> None:
        write_rows(name, data["*"], rows)

    Answers(write, data)
