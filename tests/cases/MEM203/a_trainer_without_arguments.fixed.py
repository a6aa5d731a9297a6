from trl import GRPOConfig, GRPOTrainer
from trl.rewards import accuracy_reward

trainer = GRPOTrainer(
    model="Qwen/Qwen2.5-1.5B",
    reward_funcs=accuracy_reward,
    train_dataset=rows,
    args=GRPOConfig("Qwen2.5-1.5B-GRPO", use_liger_kernel=True),
)
trainer.train()
