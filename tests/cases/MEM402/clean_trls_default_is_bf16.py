# about: TRL's default is bf16.
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig("out", packing=True)).train()
