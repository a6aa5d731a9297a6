# data: messages
# fix: unsafe
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="llama-8b-full",
    per_device_train_batch_size=1,
    gradient_accumulation_steps=1,
    max_length=128,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer(
    "meta-llama/Llama-3.1-8B",
    args=args,
    train_dataset=load_dataset("HuggingFaceH4/no_robots", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
