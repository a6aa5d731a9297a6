# about: A written `False` is a decision: advice only.
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out",
    gradient_checkpointing=False,  # expect: MEM301
    packing=True,
)
SFTTrainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
