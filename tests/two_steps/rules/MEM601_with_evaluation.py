# tolerance: 1e-4 the logged entropy is a mean of the means of micro-batches, which are others
# data: prompt
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

data = load_dataset("trl-lib/tldr", split="train").train_test_split(test_size=6, seed=0)


def reward(completions, **kwargs):
    return [len(set(completion)) / 10 for completion in completions]


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=[reward],
    args=GRPOConfig(
        output_dir="grpo",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        gradient_accumulation_steps=2,
        num_generations=4,
        num_generations_eval=2,
        max_completion_length=8,
        eval_strategy="steps",
        eval_steps=2,
        loss_type="dapo",
        epsilon_high=0.28,
        mask_truncated_completions=False,
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
    for key in ("loss", "eval_loss", "eval_reward", "reward", "entropy"):
        if key in entry:
            print(key, entry[key])
