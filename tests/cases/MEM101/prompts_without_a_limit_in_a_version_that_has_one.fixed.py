from trl import GRPOConfig, GRPOTrainer

options = {"max_prompt_length": 512, "num_generations": 8}
args = GRPOConfig("out", **options)
GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset).train()
