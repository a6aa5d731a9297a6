# data: messages
# fix: unsafe
# before: one precision excludes the other
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(
    model="Qwen/Qwen2.5-0.5B",
    args=SFTConfig(
        "out",
        fp16=True,
        bf16=True,
        max_length=128,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        max_steps=3,
        logging_steps=1,
    ),
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
