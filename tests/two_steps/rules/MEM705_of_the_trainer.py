# data: messages
# fix: unsafe
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    "Qwen/Qwen3-0.6B",
    args=SFTConfig(
        "out",
        torch_empty_cache_steps=1,
        max_length=128,
        per_device_train_batch_size=2,
        learning_rate=1e-3,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
