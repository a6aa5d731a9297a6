# data: prompt
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer


def reward_short(completions, **kwargs):
    return [-len(completion) / 100 for completion in completions]


dataset = load_dataset("trl-lib/DeepMath-103K", split="train")
config = GRPOConfig(
    output_dir="reasoning",
    max_completion_length=16384,
    num_generations=2,
    per_device_train_batch_size=2,
    generation_kwargs={"max_new_tokens": 16},
    learning_rate=1e-3,
    bf16=False,
    max_steps=3,
    logging_steps=1,
)
trainer = GRPOTrainer(
    "Qwen/Qwen3-1.7B", reward_funcs=reward_short, args=config, train_dataset=dataset
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
