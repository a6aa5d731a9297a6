# target: trl=0.19
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", num_generations=8, max_prompt_length=2048, max_completion_length=256)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()  # expect: MEM601
