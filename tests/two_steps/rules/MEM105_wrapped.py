# data: text
# fix: unsafe
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(
        "out",
        packing=True,
        packing_strategy="wrapped",
        max_length=128,
        per_device_train_batch_size=2,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=load_dataset("roneneldan/TinyStories", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
