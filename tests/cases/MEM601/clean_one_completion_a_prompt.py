# about: One completion has nobody to share its prompt with.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", num_generations=1)
GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset).train()
