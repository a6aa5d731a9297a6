# about: An option that is an environment variable now.
import os
from pathlib import Path

from transformers import TrainingArguments

folder = f"logs/{os.getpid()}"
args = TrainingArguments("a", logging_dir=folder)  # expect: MEM901
if True:
    more = TrainingArguments("b", logging_dir=os.path.join("x", "y"))  # expect: MEM901
third = TrainingArguments("c", logging_dir=str(Path("z")))  # expect: MEM901


def make(directory):
    return TrainingArguments("d", logging_dir=directory)  # expect: MEM901


last = TrainingArguments("e", logging_dir=(path := find()))  # expect: MEM901
options = TrainingArguments("f")
options.logging_dir = "late"  # expect: MEM901
