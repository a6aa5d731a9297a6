# target: trl=1.16
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, max_prompt_length=256, max_completion_length=200)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
