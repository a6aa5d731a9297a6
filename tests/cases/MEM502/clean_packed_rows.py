# about: A packed row is full; one of them may be all that fits.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", per_device_train_batch_size=1, gradient_accumulation_steps=64, packing=True)
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
