from transformers import TrainingArguments

args = TrainingArguments("out", report_to="none")
args = TrainingArguments("out", report_to=["wandb"])
args = TrainingArguments("out")
