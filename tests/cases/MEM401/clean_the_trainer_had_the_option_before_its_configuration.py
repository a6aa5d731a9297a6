# about: The trainer had the option before its configuration did.
from transformers import TrainingArguments
from trl import SFTTrainer

SFTTrainer("Qwen/Qwen3-8B", TrainingArguments("out"), model_init_kwargs={"torch_dtype": "auto"})
