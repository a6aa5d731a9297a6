from trl import SFTConfig, SFTTrainer

SFTTrainer("checkpoints/qwen2.5-7b", args=SFTConfig("out", optim="adamw_bnb_8bit"), train_dataset=rows).train()
