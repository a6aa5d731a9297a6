# about: An option that is an environment variable now.
import os
from pathlib import Path

from transformers import TrainingArguments

folder = f"logs/{os.getpid()}"
args = TrainingArguments("a", report_to="all", logging_dir=folder)  # expect: MEM901
if True:
    more = TrainingArguments("b", report_to="all", logging_dir=os.path.join("x", "y"))  # expect: MEM901
third = TrainingArguments("c", report_to="all", logging_dir=str(Path("z")))  # expect: MEM901


def make(directory):
    return TrainingArguments("d", report_to="all", logging_dir=directory)  # expect: MEM901


last = TrainingArguments("e", report_to="all", logging_dir=(path := find()))  # expect: MEM901
options = TrainingArguments("f", report_to="all")
options.logging_dir = "late"  # expect: MEM901
