# about: Off, so its kind does not matter; ZeRO-3 needs the reentrant kind.
from trl import SFTConfig, SFTTrainer

reentrant = {"use_reentrant": True}
args = SFTConfig(gradient_checkpointing=False, gradient_checkpointing_kwargs=reentrant)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
