import os
from transformers import TrainingArguments

args = TrainingArguments("out", logging_dir=options.logs)  # expect: MEM901
