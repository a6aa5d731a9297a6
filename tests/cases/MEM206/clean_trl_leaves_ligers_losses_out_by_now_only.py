# about: TRL leaves Liger's losses out by now; only its layers remain.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", activation_offloading=True, use_liger_kernel=True)
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=dataset).train()
