# about: Packed; padding-free.
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out", packing=True), train_dataset=dataset)
args = SFTConfig("out", padding_free=True, max_length=None)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
