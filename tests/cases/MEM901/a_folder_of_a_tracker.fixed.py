from transformers import TrainingArguments
from os import environ

environ["TENSORBOARD_LOGGING_DIR"] = "logs"
args = TrainingArguments("out", report_to=trackers)
