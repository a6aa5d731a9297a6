# data: prompt
import re

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("trl-lib/tldr", split="train")


def reward_len(completions, **kwargs):
    return [-abs(20 - len(completion)) / 20 for completion in completions]


def reward_words(completions, **kwargs):
    return [len(re.findall(r"\w+", completion)) / 10 for completion in completions]


training_args = GRPOConfig(
    output_dir="Qwen2-0.5B-GRPO",
    per_device_train_batch_size=16,
    gradient_accumulation_steps=4,
    num_generations=2,
    max_completion_length=512,
    learning_rate=1e-3,
    beta=0.04,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = GRPOTrainer(
    model="Qwen/Qwen3-4B",
    reward_funcs=[reward_len, reward_words],
    args=training_args,
    train_dataset=dataset,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
