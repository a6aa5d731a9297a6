# about: The batch is a multiple of the number of generations.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", per_device_train_batch_size=6, num_generations=6)
GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=rows).train()
