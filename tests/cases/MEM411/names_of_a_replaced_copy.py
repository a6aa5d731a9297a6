from dataclasses import replace

from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

plain = LoraConfig(r=16)
SFTTrainer(
    "Qwen/Qwen3-8B",
    SFTConfig("out"),
    train_dataset=rows,
    peft_config=replace(plain, modules_to_save=["lm_head"]),  # expect: MEM411
).train()
