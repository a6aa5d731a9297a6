# about: TRL computes these in chunks.
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

GRPOTrainer("Qwen/Qwen3-4B", reward, args=GRPOConfig("out"), train_dataset=rows).train()
RLOOTrainer("Qwen/Qwen3-4B", reward, args=RLOOConfig("out"), train_dataset=rows).train()
