# data: messages
# fix: unsafe
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="qwen",
    packing=True,
    max_length=256,
    per_device_train_batch_size=2,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer(
    model="Qwen/Qwen3-8B",
    args=args,
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
