from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", per_device_train_batch_size=8, use_liger_loss=True)
trainer = GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=score, args=args, train_dataset=prompts)
trainer.train()
