from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", max_length=1024)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
