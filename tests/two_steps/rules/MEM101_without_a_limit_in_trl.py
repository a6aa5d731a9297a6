# fix: unsafe
# data: messages
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("HuggingFaceH4/ultrachat_200k", split="train_sft")

training_args = SFTConfig(
    output_dir="./sft-out",
    max_length=None,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)

trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=training_args,
    train_dataset=dataset,
)
trainer.train()
for entry in trainer.state.log_history:
    if "loss" in entry:
        print(entry["step"], entry["loss"])
