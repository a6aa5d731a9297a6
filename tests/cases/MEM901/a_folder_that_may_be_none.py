import os
from dataclasses import dataclass

from transformers import TrainingArguments

args = TrainingArguments("out", logging_dir=options.logs, report_to="tensorboard")  # expect: MEM901


@dataclass
class Logging:
    tracks: bool = True
    folder: str = "logs"


kept = Logging()
args = TrainingArguments(
    "out",
    logging_dir=kept.folder if kept.tracks else None,  # expect: MEM901
    report_to="tensorboard",
)
args = TrainingArguments("out", logging_dir=os.environ.get("LOGS"), report_to="tensorboard")  # expect: MEM901
args = TrainingArguments("out", logging_dir=recipe["logs"], report_to="tensorboard")  # expect: MEM901
