from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", per_device_train_batch_size=1, gradient_accumulation_steps=8)
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
