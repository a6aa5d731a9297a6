from trl import GRPOConfig, GRPOTrainer
from memlint_runtime import limit_prompts

args = GRPOConfig("out")
trainer = limit_prompts(GRPOTrainer, 512)(model, reward_funcs=reward, args=args, train_dataset=dataset, processing_class=tokenizer)
print("prompts of", 512, "tokens")
