# about: Not an online method.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", deepspeed="ds_zero3.json", packing=True)
SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
