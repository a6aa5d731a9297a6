# about: A TRL trainer loads it, in float32: advice.
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", packing=True)
SFTTrainer("Qwen/Qwen3-8B", args=args, peft_config=LoraConfig(), train_dataset=data).train()  # expect: MEM407
