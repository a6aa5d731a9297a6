"""What a script loads, replaced by tiny things made here; everything else is the real library.

Real: signatures, configurations, trainers, collators, losses, two optimizer steps on the CPU.
Replaced: weights, tokenizers, data sets, the hub, experiment trackers, GPUs, packages that are not
installed. A keyword that the real loader refuses is refused here, too.
"""

from __future__ import annotations

import os
import sys

from tests.two_steps.jobs import Job
from tests.two_steps.progress import Progress
from tests.two_steps.stand_ins.adapters import replace_adapters
from tests.two_steps.stand_ins.data import replace_data_sets
from tests.two_steps.stand_ins.machine import (
    add_notebook_names,
    move_to_cpu,
    replace_hub,
    replace_process_groups,
)
from tests.two_steps.stand_ins.models import replace_models
from tests.two_steps.stand_ins.packages import Missing
from tests.two_steps.stand_ins.tokens import replace_tokenizers
from tests.two_steps.stand_ins.trainers import shorten_trainers


def install(job: Job, checkout: str, progress: Progress, *, fp32: bool) -> None:
    """Replace what scripts load.

    job.data: the shape of rows by data set name or file; ``*`` for all others. A name with a
    suffix is a file that is written below the working directory. checkout: the folder of the
    script's project. fp32: load every model in fp32, whatever the script says.
    """
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "WANDB_MODE": "disabled",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_TOKEN": "hf_stand_in",
        "WANDB_API_KEY": "stand-in",
        **job.environment,
    }
    sys.meta_path.append(Missing(checkout))
    replace_data_sets(job.data, job.rows)
    replace_models(fp32, quantize=job.exact)
    replace_adapters()
    replace_tokenizers(has_chat_template=job.chat_template)
    shorten_trainers(exact=job.exact)
    replace_hub()
    move_to_cpu()
    replace_process_groups()
    add_notebook_names()
    progress.watch()
