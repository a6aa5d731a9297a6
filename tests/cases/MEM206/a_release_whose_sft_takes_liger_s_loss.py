# target: trl=0.24
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", activation_offloading=True, use_liger_kernel=True)  # expect: MEM206
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
