# about: Sharded.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", gradient_accumulation_steps=1, deepspeed="zero3.json")
trainer = SFTTrainer("meta-llama/Llama-3.1-8B", args=args, train_dataset=dataset)
