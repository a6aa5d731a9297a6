from trl import GRPOConfig, GRPOTrainer
from trl.rewards import accuracy_reward

CHECKPOINT = "Qwen/Qwen2.5-1.5B"
trainer = GRPOTrainer(
    model=CHECKPOINT,
    reward_funcs=accuracy_reward,
    train_dataset=rows,
    args=GRPOConfig(
        "Qwen2.5-1.5B-GRPO",
        model_init_kwargs={"dtype": "bfloat16"},
    ),
)
trainer.train()
