from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

lora = LoraConfig(modules_to_save=read_names())
SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig(), peft_config=lora, train_dataset=dataset).train()
