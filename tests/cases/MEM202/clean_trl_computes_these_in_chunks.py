# about: TRL computes these in chunks.
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer

DPOTrainer("Qwen/Qwen3-4B", args=DPOConfig("out"), train_dataset=pairs).train()
KTOTrainer("Qwen/Qwen3-4B", args=KTOConfig("out"), train_dataset=rows).train()
