# about: Assigned when it is too late to be read: no new name for what is not read.
from transformers import TrainingArguments

args = TrainingArguments("out", activation_checkpointing=True)
args.gradient_checkpointing_kwargs = {"use_reentrant": True}
