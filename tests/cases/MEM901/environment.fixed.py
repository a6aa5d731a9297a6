import os
from pathlib import Path

from transformers import TrainingArguments

folder = f"logs/{os.getpid()}"
if folder is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder)
args = TrainingArguments("a", report_to="all")
if True:
    os.environ["TENSORBOARD_LOGGING_DIR"] = os.path.join("x", "y")
    more = TrainingArguments("b", report_to="all")
os.environ["TENSORBOARD_LOGGING_DIR"] = str(Path("z"))
third = TrainingArguments("c", report_to="all")


def make(directory):
    return TrainingArguments("d", report_to="all", logging_dir=directory)


last = TrainingArguments("e", report_to="all", logging_dir=(path := find()))
options = TrainingArguments("f", report_to="all")
options.logging_dir = "late"
