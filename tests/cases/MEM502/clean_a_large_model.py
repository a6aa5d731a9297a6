from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", per_device_train_batch_size=1, gradient_accumulation_steps=64)
SFTTrainer("meta-llama/Llama-3.1-70B", args=args, train_dataset=dataset).train()
