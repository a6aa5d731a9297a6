import os
from pathlib import Path

from transformers import TrainingArguments

folder = f"logs/{os.getpid()}"
if folder is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(folder)
args = TrainingArguments("a")
if True:
    os.environ["TENSORBOARD_LOGGING_DIR"] = os.path.join("x", "y")
    more = TrainingArguments("b")
os.environ["TENSORBOARD_LOGGING_DIR"] = str(Path("z"))
third = TrainingArguments("c")


def make(directory):
    return TrainingArguments("d", logging_dir=directory)


last = TrainingArguments("e", logging_dir=(path := find()))
options = TrainingArguments("f")
options.logging_dir = "late"
