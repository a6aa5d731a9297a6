# about: The default is a limit.
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=dataset).train()
args = DPOConfig("out", max_length=2048)
DPOTrainer(model, args=args, train_dataset=dataset).train()
