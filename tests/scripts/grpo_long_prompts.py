"""GRPO on long prompts and short answers: every prompt goes through the model sixteen times."""

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer


def reward_brevity(completions, **kwargs):
    return [-float(len(completion)) for completion in completions]


config = GRPOConfig(
    output_dir="grpo",
    num_generations=16,
    per_device_train_batch_size=16,
    max_prompt_length=4096,
    max_completion_length=256,
    ds3_gather_for_generation=True,
    bf16=True,
)
trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-7B-Instruct",
    reward_funcs=reward_brevity,
    args=config,
    train_dataset=load_dataset("trl-lib/tldr", split="train"),
)
trainer.train()
