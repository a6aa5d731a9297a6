# target: transformers=5.23
from transformers import TrainingArguments

args = TrainingArguments("out", report_to=trackers, logging_dir="logs")  # expect: MEM901
