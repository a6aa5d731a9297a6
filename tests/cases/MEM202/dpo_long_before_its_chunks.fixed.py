from trl import DPOConfig, DPOTrainer

trainer = DPOTrainer("Qwen/Qwen3-4B", args=DPOConfig("out", use_liger_loss=True), train_dataset=pairs)
trainer.train()
