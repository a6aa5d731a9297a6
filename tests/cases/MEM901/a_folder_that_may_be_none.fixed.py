import os
from transformers import TrainingArguments

if options.logs is not None:
    os.environ["TENSORBOARD_LOGGING_DIR"] = str(options.logs)
args = TrainingArguments("out", report_to="tensorboard")
