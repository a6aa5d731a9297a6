# data: prompt
# file: configs/ds_zero3.json
# stand-in: one process without DeepSpeed
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer


def reward_length(completions, **kwargs):
    return [-abs(40 - len(completion)) / 40 for completion in completions]


args = GRPOConfig(
    output_dir="grpo-8b",
    deepspeed="configs/ds_zero3.json",
    per_device_train_batch_size=2,
    num_generations=2,
    max_completion_length=8,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
    bf16=True,
)
trainer = GRPOTrainer(
    "Qwen/Qwen3-8B",
    reward_funcs=reward_length,
    args=args,
    train_dataset=load_dataset("trl-lib/tldr", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
