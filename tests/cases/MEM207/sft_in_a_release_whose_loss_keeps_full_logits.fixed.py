from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    "out",
    per_device_train_batch_size=2,
    eval_strategy="steps",
    per_device_eval_batch_size=2,
)
trainer = SFTTrainer("Qwen/Qwen3-4B", args=args, train_dataset=train, eval_dataset=test)
