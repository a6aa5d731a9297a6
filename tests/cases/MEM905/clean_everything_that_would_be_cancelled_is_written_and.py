# about: Everything that would be cancelled is written, and no option is without a place.
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments("out", fp16=True, gradient_checkpointing=False)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
