from trl import SFTConfig, SFTTrainer

options = {"output_dir": "out", "bf16": False, "loss_type": "nll", "optim": "adamw_torch"}  # expect: MEM402
try:
    args = SFTConfig(**options)
except TypeError:
    options.pop("loss_type")
    args = SFTConfig(**options)
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
