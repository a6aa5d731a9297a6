from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", gradient_accumulation_steps=8, steps_per_generation=1)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
