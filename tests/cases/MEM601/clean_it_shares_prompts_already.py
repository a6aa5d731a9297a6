# about: It shares prompts already.
from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=GRPOConfig("out")).train()
