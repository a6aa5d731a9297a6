from trl import SFTConfig, SFTTrainer

SFTTrainer("checkpoints/qwen2.5-7b", args=SFTConfig("out"), train_dataset=rows).train()  # expect: MEM501
