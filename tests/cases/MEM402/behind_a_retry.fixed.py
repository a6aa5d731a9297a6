from trl import SFTConfig, SFTTrainer

options = {"output_dir": "out", "bf16": True, "loss_type": "nll", "optim": "adamw_torch"}
try:
    args = SFTConfig(**options)
except TypeError:
    options.pop("loss_type")
    args = SFTConfig(**options)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
