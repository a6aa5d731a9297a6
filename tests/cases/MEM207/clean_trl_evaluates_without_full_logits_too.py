# about: TRL evaluates without full logits, too.
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", per_device_train_batch_size=1, eval_strategy="epoch")
SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=train, eval_dataset=test).train()
