# about: It trims already.
from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

args = GRPOConfig("out", gradient_accumulation_steps=4)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
