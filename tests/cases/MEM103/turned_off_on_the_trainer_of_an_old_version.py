# target: trl=0.11,transformers=4.45
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out")
SFTTrainer("Qwen/Qwen2-0.5B", args=args, train_dataset=dataset, packing=False).train()  # expect: MEM103
