# data: messages
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

config = SFTConfig(
    output_dir="out",
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": True},
    max_length=128,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=config,
    train_dataset=load_dataset("HuggingFaceH4/ultrachat_200k", split="train_sft"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
