# about: Checkpointing that somebody decided stays; an older release turned none on.
# target: trl=0.16,transformers=4.50
from transformers import TrainingArguments
from trl import SFTTrainer

SFTTrainer("m", args=TrainingArguments("a"), train_dataset=rows)
SFTTrainer("m", args=TrainingArguments("b", gradient_checkpointing=True), train_dataset=rows)
