# data: messages
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

data = load_dataset("HuggingFaceH4/no_robots", split="train").train_test_split(test_size=11, seed=1)
trainer = SFTTrainer(
    model="Qwen/Qwen3-0.6B",
    args=SFTConfig(
        "out",
        packing=True,
        eval_packing=False,
        max_length=128,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=4,
        eval_strategy="steps",
        eval_steps=2,
        learning_rate=1e-3,
        bf16=False,
        max_steps=4,
        logging_steps=1,
    ),
    train_dataset=data["train"],
    eval_dataset=data["test"],
)
trainer.train()
for entry in trainer.state.log_history:
    for key in ("loss", "eval_loss", "eval_mean_token_accuracy", "mean_token_accuracy", "entropy"):
        if key in entry:
            print(key, entry[key])
