from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig(), peft_config=LoraConfig(), train_dataset=data).train()
