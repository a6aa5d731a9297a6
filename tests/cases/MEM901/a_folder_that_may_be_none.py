import os
from transformers import TrainingArguments

args = TrainingArguments("out", logging_dir=options.logs, report_to="tensorboard")  # expect: MEM901
