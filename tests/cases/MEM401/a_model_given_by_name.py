# about: A model given by name.
from trl import SFTConfig, SFTTrainer

args = SFTConfig(packing=True)
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)  # expect: MEM401
