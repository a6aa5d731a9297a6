from transformers import TrainingArguments

args = TrainingArguments("out", activation_checkpointing=True)
args.logging_steps = 5
