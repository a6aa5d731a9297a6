# about: Answers are most of it.
from trl import DPOConfig, DPOTrainer

args = DPOConfig("out", max_length=2048, max_prompt_length=512)
DPOTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
