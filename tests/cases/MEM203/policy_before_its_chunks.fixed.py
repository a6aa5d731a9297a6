from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer("Qwen/Qwen3-4B", reward, args=GRPOConfig("out", use_liger_loss=True), train_dataset=rows)
trainer.train()
