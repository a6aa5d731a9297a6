# data: prompt
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("trl-lib/tldr", split="train")


def reward_num_unique_chars(completions, **kwargs):
    return [len(set(completion)) / 10 for completion in completions]


training_args = GRPOConfig(
    output_dir="grpo",
    per_device_train_batch_size=8,
    num_generations=4,
    max_completion_length=8,
    learning_rate=1e-3,
    beta=0.1,
    num_iterations=2,
    bf16=False,
    max_steps=4,
    logging_steps=1,
)
trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=reward_num_unique_chars,
    args=training_args,
    train_dataset=dataset,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
