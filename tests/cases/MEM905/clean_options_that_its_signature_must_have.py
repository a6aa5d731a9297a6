# about: An option goes to the trainer only where its signature has it: in no release without a place.
import inspect

from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments("out", fp16=True, gradient_checkpointing=False)
given = {"model": "Qwen/Qwen3-0.6B", "args": args, "train_dataset": dataset}
if "dataset_text_field" in inspect.signature(SFTTrainer.__init__).parameters:
    given["dataset_text_field"] = "text"
SFTTrainer(**given).train()
