# target: trl=0.20
from trl import GRPOConfig, GRPOTrainer

options = {"max_prompt_length": None, "num_generations": 8}  # expect: MEM101
args = GRPOConfig("out", **options)
GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset).train()
