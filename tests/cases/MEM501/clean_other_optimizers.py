# about: 8-bit states, factored states, states in a subspace.
from trl import SFTConfig, SFTTrainer

for name in ("adamw_bnb_8bit", "adafactor", "galore_adamw", "paged_adamw_8bit"):
    args = SFTConfig("out", optim=name)
    SFTTrainer("Qwen/Qwen3-8B", args=args, train_dataset=dataset).train()
