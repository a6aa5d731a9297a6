# about: TRL's default is on.
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig(packing=True), train_dataset=dataset).train()
