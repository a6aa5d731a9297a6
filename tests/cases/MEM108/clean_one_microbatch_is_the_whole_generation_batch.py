# about: One micro-batch is the whole generation batch.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", gradient_accumulation_steps=1)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
