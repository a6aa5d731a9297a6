# target: trl=0.18,transformers=4.52
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", padding_free=True)  # expect: MEM105
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
