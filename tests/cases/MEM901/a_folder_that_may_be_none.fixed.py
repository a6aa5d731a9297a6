import os
from dataclasses import dataclass

from transformers import TrainingArguments

if options.logs is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(options.logs)
args = TrainingArguments("out", report_to="tensorboard")


@dataclass
class Logging:
    tracks: bool = True
    folder: str = "logs"


kept = Logging()
if (kept.folder if kept.tracks else None) is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(kept.folder if kept.tracks else None)
args = TrainingArguments(
    "out",
    report_to="tensorboard",
)
if os.environ.get("LOGS") is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(os.environ.get("LOGS"))
args = TrainingArguments("out", report_to="tensorboard")
if recipe["logs"] is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(recipe["logs"])
args = TrainingArguments("out", report_to="tensorboard")
