from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=dataset).train()
