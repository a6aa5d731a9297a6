from trl import GRPOConfig, GRPOTrainer
from memlint_runtime import limit_prompts

args = GRPOConfig("out")
trainer = limit_prompts(GRPOTrainer, 512)("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset, eval_dataset=held_out)
