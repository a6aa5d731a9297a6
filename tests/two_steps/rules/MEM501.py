# data: messages
# fix: unsafe
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

training_args = SFTConfig(
    output_dir="qwen3-8b-full",
    packing=True,
    max_length=256,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer(
    model="Qwen/Qwen3-8B",
    args=training_args,
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
