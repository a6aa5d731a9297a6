# about: It shares prompts already.
from memlint_runtime.trl import DPOTrainer
from trl import DPOConfig

args = DPOConfig("out", max_length=2048, max_prompt_length=1536)
DPOTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
