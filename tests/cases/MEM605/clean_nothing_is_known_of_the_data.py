# about: Nothing is known of the data.
from trl import DPOConfig, DPOTrainer

DPOTrainer("Qwen/Qwen3-4B", args=DPOConfig("out", max_length=2048)).train()
