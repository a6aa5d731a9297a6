# target: transformers=5.23
from transformers import TrainingArguments

args = TrainingArguments("out", report_to="none", logging_dir="logs")  # expect: MEM901
args = TrainingArguments("out", report_to=["wandb"], logging_dir="logs")  # expect: MEM901
args = TrainingArguments("out", logging_dir="logs")  # expect: MEM901
