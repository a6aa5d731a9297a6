from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", max_prompt_length=512)  # expect: MEM901
trainer = GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=dataset, eval_dataset=held_out)
