# about: The states of an adapter are small.
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True)
SFTTrainer("Qwen/Qwen3-8B", args=args, peft_config=LoraConfig(), train_dataset=dataset).train()
